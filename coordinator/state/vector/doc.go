// Package vector is an immutable vector in chunks: one change copies a chunk, not the vector. A View and every older one share
// what did not change.
//
// Invariant: what a Vec holds never changes; an Edit owns the chunks that it has copied and no others.
//
// Concurrency: a Vec may be read from anywhere; an Edit belongs to one goroutine. Never in here: what the elements mean.
package vector
