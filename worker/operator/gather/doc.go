// Package gather holds the operator that hands records on by the batch.
//
// What it holds are the records of one batch that is not full yet, for a bounded time by the clock, and behind them the
// watermark that came meanwhile: a batch has the largest time of its records, so it is on time wherever it goes.
//
// Never here: grouping by key or window (worker/operator/window).
//
// Concurrency: everything belongs to the goroutine of one subtask.
package gather
