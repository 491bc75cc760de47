// Package source reads the splits of a source in one subtask, and discovers them.
//
// What lives here: the head of a chain that begins with a source (polls, event times, watermarks per split, requests for
// splits), and the enumerator's reports. What never does: who gets which split (the coordinator), what a split is (the
// connector), the loop that drives the head (task).
//
// Concurrency: a head belongs to the goroutine of its subtask, an enumerator to one of its own. What arrives from
// elsewhere comes as letters; only the gate of Config is asked across goroutines.
package source
