package slab

import (
	"unsafe"

	"github.com/sluiceio/sluice/worker/spill"
)

// Shape is how rows of a type are cut into chunks.
type Shape struct {
	shift uint  // log2 of the rows of a chunk
	row   int64 // bytes
}

// most bytes of a chunk.
const maxChunk = 64 << 10

// ShapeFor is the shape of rows R of which many Rows share limit bytes (zero or less: no limit): none of them should waste
// much in its last chunk.
func ShapeFor[R any](limit int64, sharers int) Shape {
	var r R
	s := Shape{row: max(1, int64(unsafe.Sizeof(r)))}
	chunk := int64(maxChunk)
	if limit > 0 {
		chunk = min(chunk, limit/int64(8*sharers))
	}
	for s.row<<(s.shift+1) <= chunk {
		s.shift++
	}
	return s
}

// Row is the size of a row.
func (s Shape) Row() int64 { return s.row }

// Chunk is the size of a chunk, the least that rows take at once.
func (s Shape) Chunk() int64 { return s.row << s.shift }

// Rows is a list of rows. The zero Rows cannot be used; Make makes one.
type Rows[R any] struct {
	shape  Shape
	budget *spill.Budget
	chunks [][]R
	n      int
	room   int // rows that fit into the chunks
	expect int // rows that are likely to come
	taken  int64
}

// Make makes an empty list.
func Make[R any](s Shape, b *spill.Budget) Rows[R] { return Rows[R]{shape: s, budget: b} }

// Expect says how many rows are likely to come, so that the first chunk need not grow.
func (r *Rows[R]) Expect(n int) { r.expect = n }

// headers is the size of the reference to a chunk.
const headers = int64(unsafe.Sizeof([]byte{}))

// first is the number of rows of the smallest first chunk: lists that stay short are many.
const first = 16

// Add makes a new row, the last one. nil: the budget does not allow it.
func (r *Rows[R]) Add() *R {
	if r.n == r.room && !r.grow((*spill.Budget).Take) {
		return nil
	}
	p := &r.chunks[r.n>>r.shape.shift][r.n&(1<<r.shape.shift-1)]
	r.n++
	return p
}

// Force is Add whatever the budget says.
func (r *Rows[R]) Force() *R {
	if r.n == r.room {
		r.grow(func(b *spill.Budget, n int64) bool { b.Force(n); return true })
	}
	return r.Add()
}

// Full reports that the next row needs a new chunk.
func (r *Rows[R]) Full() bool { return r.n == r.room }

// grow makes room for more rows: a new chunk, or a larger first one.
func (r *Rows[R]) grow(take func(*spill.Budget, int64) bool) bool {
	whole := 1 << r.shape.shift
	if r.n >= whole || r.n == 0 {
		size := whole
		if r.n == 0 {
			size = min(whole, max(first, r.expect))
		}
		bytes := int64(size)*r.shape.row + headers
		if !take(r.budget, bytes) {
			return false
		}
		r.taken += bytes
		r.chunks = append(r.chunks, make([]R, size))
		r.room += size
		return true
	}
	size := min(whole, 2*r.n)
	bytes := int64(size) * r.shape.row
	if !take(r.budget, bytes) { // both exist for a moment
		return false
	}
	chunk := make([]R, size)
	copy(chunk, r.chunks[0])
	r.chunks[0] = chunk
	r.budget.Give(int64(r.n) * r.shape.row)
	r.taken += bytes - int64(r.n)*r.shape.row
	r.room = size
	return true
}

// At is row i.
func (r *Rows[R]) At(i uint32) *R {
	shift := r.shape.shift & 31 // so that the compiler knows
	return &r.chunks[i>>shift][i&(1<<shift-1)]
}

// Len is the number of rows.
func (r *Rows[R]) Len() int { return r.n }

// Bytes is the memory of the rows, without what they point to.
func (r *Rows[R]) Bytes() int64 { return r.taken }

// Chunks are the rows in order.
func (r *Rows[R]) Chunks(yield func([]R) bool) {
	left := r.n
	for _, c := range r.chunks {
		if left <= 0 {
			return
		}
		if !yield(c[:min(left, len(c))]) {
			return
		}
		left -= len(c)
	}
}

// Drop forgets the last row.
func (r *Rows[R]) Drop() {
	r.n--
	var zero R
	*r.At(uint32(r.n)) = zero
}

// Release forgets all rows and gives the memory back.
func (r *Rows[R]) Release() {
	r.budget.Give(r.taken)
	r.chunks, r.n, r.room, r.taken = nil, 0, 0, 0
}
