package sort

import (
	"cmp"
	"encoding/binary"
	"math"
	"reflect"
)

// Order is a total order of keys.
type Order[K any] struct {
	Compare func(a, b K) int
	// Prefix agrees with Compare as far as it goes: if it differs, so does Compare, in the same direction. nil: none.
	Prefix func(K) uint64
	// Exact says that keys with equal prefixes are equal.
	Exact bool

	// further is the prefix of what follows the first depth pieces of a key; nil: there is only Prefix. whole says of such a
	// prefix that nothing follows it: keys that were equal up to it are equal.
	further func(k K, depth int) uint64
	whole   func(prefix uint64) bool
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
	if reflect.TypeFor[K]().Kind() == reflect.String {
		o.Prefix = func(k K) uint64 { return piece(*as[string](&k), 0) }
		o.further = func(k K, depth int) uint64 { return piece(*as[string](&k), depth) }
		o.whole = func(p uint64) bool { return p&0xff < more }
		return o
	}
	o.Prefix, o.Exact = numberPrefix[K](), true
	return o
}

// Descending is the reverse of Ascending.
func Descending[K cmp.Ordered]() Order[K] {
	up := Ascending[K]()
	o := Order[K]{
		Compare: func(a, b K) int { return cmp.Compare(b, a) },
		Prefix:  func(k K) uint64 { return ^up.Prefix(k) },
		Exact:   up.Exact,
	}
	if up.further != nil {
		o.further = func(k K, depth int) uint64 { return ^up.further(k, depth) }
		o.whole = func(p uint64) bool { return up.whole(^p) }
	}
	return o
}

// numberPrefix maps numbers to unsigned ones in their order.
func numberPrefix[K cmp.Ordered]() func(K) uint64 {
	switch t := reflect.TypeFor[K](); t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return intPrefix[K](t)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return uintPrefix[K](t)
	case reflect.Float32:
		return func(k K) uint64 { return floatPrefix(float64(*as[float32](&k))) }
	}
	return func(k K) uint64 { return floatPrefix(*as[float64](&k)) }
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

// pieceLen is the number of bytes of a string in a piece of it, more what a piece ends in if the string goes on.
const (
	pieceLen = 7
	more     = pieceLen + 1
)

// piece is seven bytes of a string, filled up with zeros, and how many there are from there to its end: so a string that ends
// comes before one that goes on with zeros.
func piece(s string, depth int) uint64 {
	if s = s[min(len(s), depth*pieceLen):]; len(s) >= 8 {
		return uint64(s[0])<<56 | uint64(s[1])<<48 | uint64(s[2])<<40 | uint64(s[3])<<32 |
			uint64(s[4])<<24 | uint64(s[5])<<16 | uint64(s[6])<<8 | more
	}
	var b [8]byte
	copy(b[:pieceLen], s)
	b[pieceLen] = byte(len(s))
	return binary.BigEndian.Uint64(b[:])
}
