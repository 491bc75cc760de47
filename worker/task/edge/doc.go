// Package edge is the two ends of an edge between subtasks, as a chain sees them: where records leave it (outlets) and
// where they enter (gates).
//
// What lives here: the partitioners, outlets and gates of PIPELINED edges (package shuffle) and of BLOCKING ones (package
// shuffle/stored), and the head that reads the gates of a chain in the order that phases ask for. What never does: how
// batches travel, how files are laid out (shuffle), the loop that drives a head (task).
//
// Types are erased at Exchange: it is made where the record type is known, and asked for its ends where only the plan
// is. An end asserts the type of its Push once.
//
// Concurrency: everything here belongs to the goroutine of its subtask.
package edge
