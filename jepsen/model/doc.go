// Package model says what a cluster may do, in the simplest words that are exact, so that scenarios can compare it with
// what a cluster did.
//
// What lives here: which subtasks run again after a loss. It is written from the rules, with sets and pairs and no regard
// to speed, and shares no code with the scheduler that it judges. What a model cannot judge it refuses; it never guesses.
//
// A scenario sees a cluster from outside, a moment too late. So a model works on what is possible: each subtask is in one
// of several states, and the answer is the set of what may run again, or of what must. If all states are known, both are
// the same.
//
// Pure: no clock, no I/O, no goroutine. A Plan may be used from any goroutine.
package model
