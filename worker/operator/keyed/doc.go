// Package keyed holds the rolling aggregations of a keyed stream: count, reduce, fold.
//
// On unbounded input every update is emitted, with the time of its record. On bounded input the final value of each key is
// emitted when the input has ended, with the time element.MaxTime: downstream nothing has been promised about that time
// yet, so that it is late for no window.
//
// The state is a directory of worker/state with one value per key. It lives as long as the attempt.
//
// Concurrency: everything belongs to the goroutine of one subtask; the functions of an Aggregation are shared by all
// subtasks of a process.
package keyed
