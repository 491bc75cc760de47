// Package run is the only place that starts goroutines.
//
// A Group is a set of named tasks with one lifetime: they share a context, the first error ends them all, and Wait
// returns when the last one has returned. Nothing is started by a constructor, and every Close of the project waits
// for its group, so that no goroutine outlives what it works on.
//
// Concurrency: all methods of Group may be called from any goroutine; Go after Wait has returned is a bug and panics.
package run
