// Package mail is how everything but records reaches the loop of a subtask.
//
// Never here: what a letter means, what the loop does while there is none.
//
// Concurrency: Post, Tick and Wake may be called from any goroutine and do not block; the rest belongs to the loop.
package mail
