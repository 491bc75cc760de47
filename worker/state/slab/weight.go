package slab

import (
	"reflect"
	"unsafe"
)

// Weigher adds up what the value at a place refers to, in bytes.
type Weigher func(p Place) int

// WeigherOf makes the function that adds up what a value of a type refers to: strings, slices, maps, pointers. It is nil
// if values of the type refer to nothing.
func WeigherOf(t reflect.Type) Weigher { return weigh(t, 0) }

// Refers reports whether values of the type refer to anything that is weighed.
func Refers(t reflect.Type) bool { return weigh(t, 0) != nil }

// maxWeighed bounds the depth of types that are looked into.
const maxWeighed = 16

// mapOverhead is what an entry of a Go map takes beside key and value, about, in bytes.
const mapOverhead = 8

func weigh(t reflect.Type, depth int) Weigher {
	if depth > maxWeighed {
		return nil
	}
	switch t.Kind() {
	case reflect.String:
		return func(p unsafe.Pointer) int { return len(*(*string)(p)) }
	case reflect.Slice:
		elem, size := weigh(t.Elem(), depth+1), t.Elem().Size()
		return func(p unsafe.Pointer) int { return weighSlice(p, elem, size) }
	case reflect.Array:
		elem, size := weigh(t.Elem(), depth+1), t.Elem().Size()
		if elem == nil {
			return nil
		}
		return func(p unsafe.Pointer) (n int) {
			for i := range t.Len() {
				n += elem(unsafe.Add(p, uintptr(i)*size))
			}
			return n
		}
	case reflect.Struct:
		return weighStruct(t, depth)
	case reflect.Pointer:
		elem := weigh(t.Elem(), depth+1)
		return func(p unsafe.Pointer) int {
			q := *(*unsafe.Pointer)(p)
			if q == nil {
				return 0
			}
			return int(t.Elem().Size()) + weighed(elem, q)
		}
	case reflect.Map:
		per := int(t.Key().Size()+t.Elem().Size()) + mapOverhead
		return func(p unsafe.Pointer) int { return reflect.NewAt(t, p).Elem().Len() * per }
	case reflect.Interface:
		return func(p unsafe.Pointer) int {
			v := reflect.NewAt(t, p).Elem().Elem()
			if !v.IsValid() {
				return 0
			}
			return int(v.Type().Size())
		}
	}
	return nil
}

func weighed(w Weigher, p unsafe.Pointer) int {
	if w == nil {
		return 0
	}
	return w(p)
}

func weighSlice(p unsafe.Pointer, elem Weigher, size uintptr) int {
	s := *(*[]byte)(p) // data, length and capacity lie alike for all slices
	n := cap(s) * int(size)
	if elem != nil {
		for i := range len(s) {
			n += elem(unsafe.Add(unsafe.Pointer(unsafe.SliceData(s)), uintptr(i)*size))
		}
	}
	return n
}

func weighStruct(t reflect.Type, depth int) Weigher {
	type part struct {
		at uintptr
		w  Weigher
	}
	var parts []part
	for i := range t.NumField() {
		f := t.Field(i)
		if w := weigh(f.Type, depth+1); w != nil {
			parts = append(parts, part{f.Offset, w})
		}
	}
	if parts == nil {
		return nil
	}
	return func(p unsafe.Pointer) (n int) {
		for _, x := range parts {
			n += x.w(unsafe.Add(p, x.at))
		}
		return n
	}
}

// Average is the average weight of units, from samples.
type Average struct {
	average float64
	n       int
	at      uint32
}

const (
	samplesAtOnce = 16
	// sampleMemory is how many samples an average remembers.
	sampleMemory = 256
)

// Sample looks at some units of the pool and returns the weight of all.
func (s *Average) Sample(p *Pool, weight func(id uint32) int) int {
	count := p.Count()
	if count == 0 {
		return 0
	}
	stride := p.High/samplesAtOnce/3 + 1
	for range samplesAtOnce {
		id, ok := p.Used.Next(s.at)
		if !ok {
			s.at = s.at % stride
			continue
		}
		s.at = id + stride
		s.n = min(s.n+1, sampleMemory)
		s.average += (float64(weight(id)) - s.average) / float64(s.n)
	}
	return int(s.average * float64(count))
}
