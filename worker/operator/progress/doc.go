// Package progress is what an operator remembers of event time across a restore.
//
// The watermark of an attempt begins at the beginning of time again, although windows have fired and ended before the
// checkpoint. Records that were late then must not open them a second time. So the watermark is state, one per key group,
// because after a change of parallelism a subtask has the key groups of several, which had come to different times. What
// is judged is the later of the restored watermark of the key group and that of the attempt; soon the latter has passed
// all of the former, and costs are those of one comparison.
//
// Never here: watermarks themselves (worker/task/mark), and what is done with late records.
//
// Concurrency: everything belongs to the goroutine of one subtask.
package progress
