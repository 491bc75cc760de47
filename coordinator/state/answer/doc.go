// Package answer is what applying a command says: its result, with the codes that clients see, and the hash chain that results and
// changed records are folded into, so that coordinators can tell whether they have the same facts.
//
// Never in here: facts and commands (coordinator/state).
//
// Concurrency: a Window may be used by several goroutines.
package answer
