// Package sample is what a range partitioner stands on: samples of the keys of a bounded input, the quantiles of all
// samples, and a router that says for each record which range it falls into.
//
// The operators in order: Keys (as parallel as its input) → Quantiles (parallelism 1) → broadcast → Router, input 0; the
// records themselves come to its input 1. Its output goes over an exchange with the partitioner Route to a consumer whose
// stage stands behind Unwrap. Boundaries are finer than any parallelism that a sample can serve, and Route cuts them to
// the number of consumers, so that nobody else needs to know it.
//
// Concurrency: everything belongs to the goroutine of one subtask; the functions of an order are shared by all subtasks of
// a process.
package sample
