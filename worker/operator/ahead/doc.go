// Package ahead finds the keys of records in batches, for operators that keep their state by key.
//
// Never here: which state a key leads to. Concurrency: what Keys returns belongs to the goroutine of one subtask.
package ahead
