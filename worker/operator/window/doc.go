// Package window holds the windowed aggregations.
//
// Each window has a table of its own, from key to accumulator, which is cleared as a whole when the window has fired: two to
// three times cheaper than one table keyed by (key, window), and no record is ever deleted alone. A window fires when
// the watermark has reached its last instant (End − 1 µs); its results have that time. A record whose window has fired
// is late: counted, and given to the side output for late records, if anyone reads it.
//
// The number of windows at a time is bounded by the spread of event time between the watermark and the newest record,
// and by nothing else.
//
// Which windows a record belongs to is flow/window's business; the public API is flow's.
//
// Concurrency: everything belongs to the goroutine of one subtask.
package window
