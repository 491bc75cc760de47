package spill

import (
	"reflect"
	"time"
	"unsafe"

	"github.com/sluiceio/sluice/flow/codec"
)

// Sizer tells how much memory a value of T holds beyond its own T: strings by their length, slices by their capacity. Types
// that lead elsewhere (pointers, maps, interfaces) count by their encoded size, which is looked up by encoding them.
type Sizer[T any] struct {
	strings []uintptr // offsets of plain strings, the frequent case
	slices  []sliceOp
	codec   *codec.Codec[T] // nil: the size is known without encoding
	scratch []byte
}

// sliceOp is a slice at an offset.
type sliceOp struct {
	off  uintptr
	elem uintptr   // size of an element
	subs []uintptr // offsets of strings in an element
}

// SizerOf compiles the sizer of T.
func SizerOf[T any](c *codec.Codec[T]) *Sizer[T] {
	s := &Sizer[T]{}
	if !s.compile(reflect.TypeFor[T](), 0) {
		return &Sizer[T]{codec: c}
	}
	return s
}

// compile adds what lies at off; false: only the codec knows.
func (s *Sizer[T]) compile(t reflect.Type, off uintptr) bool {
	if t == reflect.TypeFor[time.Time]() { // its location is shared
		return true
	}
	switch t.Kind() {
	case reflect.String:
		s.strings = append(s.strings, off)
		return true
	case reflect.Slice:
		e := &Sizer[T]{}
		if !e.compile(t.Elem(), 0) || len(e.slices) > 0 {
			return false
		}
		s.slices = append(s.slices, sliceOp{off, t.Elem().Size(), e.strings})
		return true
	case reflect.Array:
		before := len(s.strings) + len(s.slices)
		for i := range t.Len() {
			if i > maxUnrolled {
				return false
			}
			if !s.compile(t.Elem(), off+uintptr(i)*t.Elem().Size()) {
				return false
			}
			if i == 0 && len(s.strings)+len(s.slices) == before { // plain elements
				return true
			}
		}
		return true
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if !s.compile(f.Type, off+f.Offset) {
				return false
			}
		}
		return true
	case reflect.Pointer, reflect.Map, reflect.Interface, reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return false
	}
	return true
}

// maxUnrolled bounds the elements of an array that are looked at one by one.
const maxUnrolled = 64

// Fixed reports that Extra is 0 for all values.
func (s *Sizer[T]) Fixed() bool { return s.codec == nil && len(s.strings) == 0 && len(s.slices) == 0 }

// Cheap reports that Extra needs no encoding.
func (s *Sizer[T]) Cheap() bool { return s.codec == nil }

// allocated rounds the length of a string to what an allocation takes.
func allocated(n int) int64 { return int64(n+15) &^ 15 }

// Extra is the memory that *v holds beyond its own size, in bytes.
func (s *Sizer[T]) Extra(v *T) int64 {
	var n int64
	p := unsafe.Pointer(v)
	for _, off := range s.strings {
		n += allocated(len(*(*string)(unsafe.Add(p, off))))
	}
	if len(s.slices) > 0 {
		n += s.sliced(p)
	}
	if s.codec != nil {
		n += s.encoded(v)
	}
	return n
}

// sliceHeader is a slice in memory.
type sliceHeader struct {
	data     unsafe.Pointer
	len, cap int
}

func (s *Sizer[T]) sliced(p unsafe.Pointer) (n int64) {
	for i := range s.slices {
		o := &s.slices[i]
		h := (*sliceHeader)(unsafe.Add(p, o.off))
		n += int64(h.cap) * int64(o.elem)
		if len(o.subs) == 0 {
			continue
		}
		for j := range h.len {
			e := unsafe.Add(h.data, uintptr(j)*o.elem)
			for _, off := range o.subs {
				n += allocated(len(*(*string)(unsafe.Add(e, off))))
			}
		}
	}
	return n
}

func (s *Sizer[T]) encoded(v *T) int64 {
	b, err := s.codec.Append(s.scratch[:0], v)
	if err != nil { // whoever encodes it for good reports it
		return 0
	}
	if cap(b) <= maxBlock {
		s.scratch = b
	}
	return int64(len(b))
}
