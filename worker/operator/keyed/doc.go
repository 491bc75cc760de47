// Package keyed holds the rolling aggregations of a keyed stream: count, sum, least and greatest, reduce, fold.
//
// Every update is emitted, with the time of its record. Bounded input, of which only the final values count, is aggregated by
// worker/operator/batch/aggregate.
//
// The state is a directory of worker/state with one value per key. It lives as long as the attempt.
//
// Concurrency: everything belongs to the goroutine of one subtask; the functions of an Aggregation are shared by all
// subtasks of a process.
package keyed
