// Package unkeyed is operator state that belongs to no key: a List whose elements are redistributed when the parallelism
// changes, a Union that every subtask reads as a whole after a restore, and a Broadcast that is the same everywhere.
//
// All of them are directories whose keys name their key group, so that barriers, deltas, rewinds and rescaling are those
// of keyed state: the elements of a subtask lie in the key groups of the subtask. They are small, and stay in memory.
//
// Never here: who takes part in a broadcast, and in which order its records come: every subtask must write the same.
//
// Concurrency: everything belongs to the goroutine of one subtask.
package unkeyed
