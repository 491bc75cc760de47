// Package barrier is the alignment of a subtask: which barriers have come, which channels rest until the others have brought
// theirs, and when the state of a checkpoint has to be frozen.
//
// The invariant, per channel: of what stands behind the barrier of a checkpoint nothing is read before that checkpoint is
// frozen, or given up. Channels that have ended count as having brought every barrier.
//
// What lives here: a state machine without clock, lock or input of its own. Never here: who holds a channel (shuffle.Gate),
// what is frozen (task), when a checkpoint begins (the coordinator).
//
// Concurrency: an Aligner belongs to the goroutine of its subtask.
package barrier
