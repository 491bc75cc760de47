// Package sample is what a range partitioner stands on: samples of the keys of a bounded input, the quantiles of all
// samples, and a router that says for each record which range it falls into.
//
// The operators in order: Keys (as parallel as its input) → Quantiles (parallelism 1) → broadcast → Router, input 0; the
// records themselves come to its input 1. Its output goes over an exchange with the partitioner Route to a consumer whose
// stage is Unwrap'ed. Boundaries are finer than any parallelism, so that nobody needs to know the number of consumers.
//
// Concurrency: everything belongs to the goroutine of one subtask.
package sample
