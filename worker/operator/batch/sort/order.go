package sort

import (
	"cmp"
	"encoding/binary"
	"math"
	"reflect"
	"slices"
)

// Order is a total order of keys.
type Order[K any] struct {
	Compare func(a, b K) int
	// Prefix agrees with Compare as far as it goes: if it differs, so does Compare, in the same direction. nil: none.
	Prefix func(K) uint64
	// Exact says that keys with equal prefixes are equal.
	Exact bool
}

func (o *Order[K]) prefix(k K) uint64 {
	if o.Prefix == nil {
		return 0
	}
	return o.Prefix(k)
}

// Ascending is the natural order of K; NaN comes before every other number.
func Ascending[K cmp.Ordered]() Order[K] {
	o := Order[K]{Compare: cmp.Compare[K]}
	o.Prefix, o.Exact = prefixOf[K]()
	return o
}

// Descending is the reverse of Ascending.
func Descending[K cmp.Ordered]() Order[K] {
	o := Order[K]{Compare: func(a, b K) int { return cmp.Compare(b, a) }}
	up, exact := prefixOf[K]()
	o.Prefix, o.Exact = func(k K) uint64 { return ^up(k) }, exact
	return o
}

// prefixOf maps keys to numbers in their order.
func prefixOf[K cmp.Ordered]() (prefix func(K) uint64, exact bool) {
	switch t := reflect.TypeFor[K](); t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return intPrefix[K](t), true
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return uintPrefix[K](t), true
	case reflect.Float32:
		return func(k K) uint64 { return floatPrefix(float64(*as[float32](&k))) }, true
	case reflect.Float64:
		return func(k K) uint64 { return floatPrefix(*as[float64](&k)) }, true
	}
	return func(k K) uint64 { return stringPrefix(*as[string](&k)) }, false
}

func intPrefix[K cmp.Ordered](t reflect.Type) func(K) uint64 {
	const sign = 1 << 63
	switch t.Size() {
	case 1:
		return func(k K) uint64 { return uint64(*as[int8](&k)) ^ sign }
	case 2:
		return func(k K) uint64 { return uint64(*as[int16](&k)) ^ sign }
	case 4:
		return func(k K) uint64 { return uint64(*as[int32](&k)) ^ sign }
	}
	return func(k K) uint64 { return uint64(*as[int64](&k)) ^ sign }
}

func uintPrefix[K cmp.Ordered](t reflect.Type) func(K) uint64 {
	switch t.Size() {
	case 1:
		return func(k K) uint64 { return uint64(*as[uint8](&k)) }
	case 2:
		return func(k K) uint64 { return uint64(*as[uint16](&k)) }
	case 4:
		return func(k K) uint64 { return uint64(*as[uint32](&k)) }
	}
	return func(k K) uint64 { return *as[uint64](&k) }
}

// floatPrefix orders numbers as cmp.Compare does: all NaN are equal and first, and zero has no sign.
func floatPrefix(f float64) uint64 {
	const sign = 1 << 63
	if f != f {
		return 0
	}
	b := math.Float64bits(f + 0) // -0 + 0 is 0
	if b&sign != 0 {
		return ^b
	}
	return b | sign
}

// stringPrefix is the first eight bytes. A shorter string is filled up with zeros, so that equal prefixes decide nothing.
func stringPrefix(s string) uint64 {
	var b [8]byte
	copy(b[:], s)
	return binary.BigEndian.Uint64(b[:])
}

// sortItems sorts by prefix, then by ties (nil: none), then by row: a stable order.
func sortItems(items []item, ties func(a, b uint32) int) {
	slices.SortFunc(items, func(a, b item) int {
		if a.prefix != b.prefix {
			return cmp.Compare(a.prefix, b.prefix)
		}
		if ties != nil {
			if c := ties(a.row, b.row); c != 0 {
				return c
			}
		}
		return cmp.Compare(a.row, b.row)
	})
}
