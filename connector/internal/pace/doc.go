// Package pace spreads the records of a source over time.
//
// Concurrency: a Pace belongs to the goroutine of one subtask.
package pace
