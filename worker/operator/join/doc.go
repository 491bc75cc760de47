// Package join holds the joins of two keyed streams of which none has to end: by an interval of event time, with everything
// that is not older than a time to live, and with the newest record of the other side.
//
// What lives here: which records are kept, how long, and which pairs they make. What never does: windows
// (worker/operator/window), joins of bounded input (worker/operator/batch/join).
//
// Records of both inputs arrive in any order, on the goroutine of their subtask, and the operator sees one watermark, the
// lower one of its inputs. A pair is emitted by the later one of its records, once, with the later one of the two event times.
//
// Concurrency: everything belongs to the goroutine of one subtask; the functions of a specification are shared by all
// subtasks of a process.
package join
