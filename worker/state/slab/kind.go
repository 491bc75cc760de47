package slab

import (
	"reflect"
	"unsafe"
)

// Place is the address of a value whose type the holder of the address does not know, but its Kind does.
type Place = unsafe.Pointer

// Kind is what memory has to know of the type of the values in it. Tables know the types of their keys and values by
// their kinds alone, because the compiler makes code that has a type parameter again for every type of a job; what every
// record pays is the exception. Reflection could do what move does, in three times the time.
type Kind struct {
	Type  reflect.Type
	size  uintptr
	slice reflect.Type
	move  func(dst, src Place)
	blank Place // a zero value, which nobody changes
}

// KindOf is that of a type.
func KindOf[T any]() *Kind {
	return newKind(reflect.TypeFor[T](), unsafe.Pointer(new(T)), func(dst, src Place) { *(*T)(dst) = *(*T)(src) })
}

func newKind(t reflect.Type, blank Place, move func(dst, src Place)) *Kind {
	return &Kind{Type: t, size: t.Size(), slice: reflect.SliceOf(t), move: move, blank: blank}
}

// Size is that of a value, in bytes.
func (k *Kind) Size() uintptr { return k.size }

// Move assigns the value at src to that at dst.
func (k *Kind) Move(dst, src Place) { k.move(dst, src) }

// Zero makes a value the zero value.
func (k *Kind) Zero(p Place) { k.move(p, k.blank) }

// Make makes n values, one behind the other.
func (k *Kind) Make(n int) Place { return reflect.MakeSlice(k.slice, n, n).UnsafePointer() }
