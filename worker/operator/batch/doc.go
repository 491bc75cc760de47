// Package batch is what the operators of bounded input have in common: their share of the memory, with the place for what
// exceeds it. The operators themselves are its sub-packages, one per noun.
//
// The path of a record through any of them: it is kept in rows (package slab) as long as the budget gives room; when it
// does not, the operator writes a part of what it holds to streams of its own files (worker/spill) and goes on; when the
// input has ended, what was written is read back part by part, each with the whole budget, and if need be the same way
// again, one level deeper.
//
// # Memory
//
// Whatever an operator holds is taken from its budget before it is made: chunks of rows, what rows lead to (strings by
// their length, slices by their capacity, anything else by its encoded size), indexes, and the buffer of each stream that
// is being written or read. The record in flight is not, nor the pair in flight of a join: it belongs to who pushes it, or
// is on its way to who gets it. So the peak is at most the budget and one record (the encoding of one that is larger than
// a block), whatever the data; tests hold every operator to that.
//
// Concurrency: a Memory belongs to the goroutine of one subtask.
package batch
