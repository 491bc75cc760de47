// Package history records what clients asked, what they were told, and which faults were injected, as one JSON-lines
// file.
//
// Every call has an invocation and at most one completion: ok, fail (it certainly did not happen) or unknown (it may
// have happened, now or later). A checker must treat an invocation without completion like unknown.
//
// Concurrency: a Recorder may be used by any goroutine; the order of lines is the order in which the recorder was
// entered, so that an invocation stands before everything that happened after it.
package history
