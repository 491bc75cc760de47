// Package loss is why a channel between two subtasks was lost: as this side names it, as the peer says it, as the meeting of both ends
// decides it.
//
// Never in here: what follows from a loss (shuffle, worker/task).
package loss
