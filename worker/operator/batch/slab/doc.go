// Package slab keeps the rows of batch operators in memory: in chunks that are never moved, found by number, or by hash
// through an index. All of it is taken from the operator's budget before it is made.
//
// A chunk has no pointer that the package itself adds, so a million rows of plain numbers are a few hundred objects that
// the garbage collector does not look into.
//
// Never here: what rows mean, keys, files.
//
// Concurrency: everything belongs to the goroutine of one subtask.
package slab
