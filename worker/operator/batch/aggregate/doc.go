// Package aggregate is the aggregation of a bounded keyed input: one result per key, when the input has ended. Distinct
// is its special case that keeps nothing but the key.
//
// Concurrency: everything belongs to the goroutine of one subtask; the functions of an Aggregation are shared by all
// subtasks of a process.
package aggregate
