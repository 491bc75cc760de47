// Package splits is the record of one source of a job: the splits that its enumerator has found, what that goes on from, and which
// subtask reads which.
//
// A record is immutable: a transition returns the next one. The invariants: splits are given away in the order in which they were
// found, so those that have an owner are always the first ones; nothing that was given away for good is given to another one.
//
// Pure. Never in here: whether an attempt may get splits, and whose enumerator still counts (coordinator/state), who gets how many
// (coordinator/split).
package splits
