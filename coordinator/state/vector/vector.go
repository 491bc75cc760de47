package vector

import "iter"

// chunkLen is the number of elements that a change of one of them copies.
const chunkLen = 64

// Vec is an immutable vector in chunks: a change copies one chunk and the table of chunks, so that one report about a
// job of ten thousand subtasks does not copy ten thousand entries.
type Vec[T any] struct {
	chunks [][]T
	n      int
}

// Make is a vector of n zero values.
func Make[T any](n int) Vec[T] {
	v := Vec[T]{chunks: make([][]T, 0, (n+chunkLen-1)/chunkLen), n: n}
	for left := n; left > 0; left -= chunkLen {
		v.chunks = append(v.chunks, make([]T, min(left, chunkLen)))
	}
	return v
}

// Len is the number of elements.
func (v Vec[T]) Len() int { return v.n }

// At is the element with an index below Len.
func (v Vec[T]) At(i int) T { return v.chunks[i/chunkLen][i%chunkLen] }

// All are the elements in order.
func (v Vec[T]) All() iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		for i := range v.n {
			if !yield(i, v.At(i)) {
				return
			}
		}
	}
}

// Changes are the indexes at which two vectors differ. Both stem from the same one, if they have the same length; else all of
// now count. It looks at each chunk, and into those that differ.
func Changes[T comparable](now, since Vec[T]) iter.Seq[int] {
	return func(yield func(int) bool) {
		for c, chunk := range now.chunks {
			var old []T
			if now.n == since.n {
				old = since.chunks[c]
			}
			if old != nil && &old[0] == &chunk[0] {
				continue
			}
			for i, x := range chunk {
				if (old == nil || old[i] != x) && !yield(c*chunkLen+i) {
					return
				}
			}
		}
	}
}

// Edit changes a Vec without touching the one it began with. It copies each chunk once, however many elements of it
// change.
type Edit[T any] struct {
	v     Vec[T]
	owned []bool // by chunk; nil: nothing is owned, not even the table
}

// Edit begins a change.
func (v Vec[T]) Edit() Edit[T] { return Edit[T]{v: v} }

// Vec is the vector as changed so far. The edit must not be used any more.
func (e *Edit[T]) Vec() Vec[T] { return e.v }

// Len is the number of elements so far.
func (e *Edit[T]) Len() int { return e.v.n }

// At is the element as changed so far.
func (e *Edit[T]) At(i int) T { return e.v.At(i) }

// All are the elements as they are when the loop begins, or as they become by then: of a change during the loop nothing is promised.
func (e *Edit[T]) All() iter.Seq2[int, T] { return e.v.All() }

// Set replaces an element.
func (e *Edit[T]) Set(i int, x T) {
	e.own()
	c := i / chunkLen
	if !e.owned[c] {
		e.v.chunks[c] = append([]T(nil), e.v.chunks[c]...)
		e.owned[c] = true
	}
	e.v.chunks[c][i%chunkLen] = x
}

// Push appends an element.
func (e *Edit[T]) Push(x T) {
	e.own()
	c := e.v.n / chunkLen
	switch {
	case c == len(e.v.chunks):
		e.v.chunks = append(e.v.chunks, make([]T, 0, chunkLen))
		e.owned = append(e.owned, true)
	case !e.owned[c]:
		e.v.chunks[c] = append(make([]T, 0, chunkLen), e.v.chunks[c]...)
		e.owned[c] = true
	}
	e.v.chunks[c] = append(e.v.chunks[c], x)
	e.v.n++
}

func (e *Edit[T]) own() {
	if e.owned == nil {
		e.v.chunks = append(make([][]T, 0, len(e.v.chunks)+1), e.v.chunks...)
		e.owned = make([]bool, len(e.v.chunks), len(e.v.chunks)+1)
	}
}
