// Package sort is the external merge sort of a bounded input, stable by arrival.
//
// Concurrency: everything belongs to the goroutine of one subtask; the functions of a Spec are shared by all subtasks of
// a process.
package sort
