// Package join is the equi-join of two bounded inputs: inner, left, right and full.
//
// Concurrency: everything belongs to the goroutine of one subtask; the functions of a Spec are shared by all subtasks of
// a process.
package join
