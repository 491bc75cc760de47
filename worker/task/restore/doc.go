// Package restore reads a completed checkpoint for the subtasks of a task process: its manifest once, and of its objects what the
// tables of an operator ask for.
//
// What lives here: which parts belong to which operator and key groups, and what a reading error means. Never here: how a table
// takes its entries (worker/state), where objects are (snapshot.Stores), which checkpoint it is (the coordinator).
//
// The invariant: state is never restored in part without anybody noticing. A subtask without an entry is an incomplete
// manifest (E154), what is there and cannot be read is E153 and fails the job, and a type that has changed is for the tables to
// refuse (E143). Only a store that does not answer may answer later: that is a loss, and the region restarts.
//
// Concurrency: all methods may be called from any goroutine. Whatever was opened is closed when the last user has left.
package restore
