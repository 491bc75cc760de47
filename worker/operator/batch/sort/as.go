package sort

import "unsafe"

// as is a key of kind T: the caller has looked at the kind of K.
func as[T, K any](k *K) *T { return (*T)(unsafe.Pointer(k)) }
