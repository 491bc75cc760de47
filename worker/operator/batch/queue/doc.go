// Package queue keeps records that have come too early for their operator, in the order of arrival: in memory, and from
// the moment when memory is short on disk.
//
// Concurrency: a Queue belongs to the goroutine of one subtask.
package queue
