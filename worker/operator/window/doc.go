// Package window holds the windowed operators.
//
// Tumbling, Sliding and Gather are for windows that lie on the axis of time, the same for all keys, and fire at their end. Each
// window, or pane, is a namespace of keyed state that is dropped as a whole: two to three times cheaper than one table keyed
// by (key, window), and no record is ever deleted alone. Aggregated and Gathered are for windows that belong to a key:
// sessions, and whatever a trigger fires. They keep the windows of a key in a map of it, and have one timer per key;
// many sessions of a key are kept in order beside it.
//
// A window fires when time has reached its last instant (End − 1 µs); its results have that time. Time is that of the
// watermark, or the clock of the machine. A record whose windows are over is late: counted, and given to the side output for
// late records, if anyone reads it. What a window holds is freed at its end and the allowed lateness, whatever a trigger does.
//
// Everything that operators keep beside their tables is derived from those, and is made again after a restore or a rewind.
// What had been late before stays late after it: see package progress.
//
// The number of windows at a time is bounded by the spread of event time between the watermark and the newest record,
// and by nothing else.
//
// Which windows a record belongs to is flow/window's business; the public API is flow's.
//
// Concurrency: everything belongs to the goroutine of one subtask.
package window
