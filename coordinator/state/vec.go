package state

import "iter"

// chunkLen is the number of elements that a change of one of them copies.
const chunkLen = 64

// vec is an immutable vector in chunks: a change copies one chunk and the table of chunks, so that one report about a
// job of ten thousand subtasks does not copy ten thousand entries.
type vec[T any] struct {
	chunks [][]T
	n      int
}

func makeVec[T any](n int) vec[T] {
	v := vec[T]{chunks: make([][]T, 0, (n+chunkLen-1)/chunkLen), n: n}
	for left := n; left > 0; left -= chunkLen {
		v.chunks = append(v.chunks, make([]T, min(left, chunkLen)))
	}
	return v
}

func (v vec[T]) len() int { return v.n }

func (v vec[T]) at(i int) T { return v.chunks[i/chunkLen][i%chunkLen] }

func (v vec[T]) all() iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		for i := range v.n {
			if !yield(i, v.at(i)) {
				return
			}
		}
	}
}

// vecEdit changes a vec without touching the one it began with. It copies each chunk once, however many elements of it
// change.
type vecEdit[T any] struct {
	v     vec[T]
	owned []bool // by chunk; nil: nothing is owned, not even the table
}

func (v vec[T]) edit() vecEdit[T] { return vecEdit[T]{v: v} }

func (e *vecEdit[T]) own() {
	if e.owned == nil {
		e.v.chunks = append(make([][]T, 0, len(e.v.chunks)+1), e.v.chunks...)
		e.owned = make([]bool, len(e.v.chunks), len(e.v.chunks)+1)
	}
}

func (e *vecEdit[T]) set(i int, x T) {
	e.own()
	c := i / chunkLen
	if !e.owned[c] {
		e.v.chunks[c] = append([]T(nil), e.v.chunks[c]...)
		e.owned[c] = true
	}
	e.v.chunks[c][i%chunkLen] = x
}

func (e *vecEdit[T]) push(x T) {
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

func (e *vecEdit[T]) at(i int) T { return e.v.at(i) }
