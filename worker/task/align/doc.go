// Package align keeps the splits of sources together in event time: where the groups of a process stand, and who waits for
// them to move on.
//
// A group stands at the lowest watermark of its active splits, here and, as the leader tells it, in the other processes of the
// job. Nothing is promised by it and nothing is state: what is read too early is right, too, and only takes memory until time
// has come so far. So whatever is not known holds nobody: splits that have no watermark yet, and other processes that were not
// heard for StaleAfter, because what runs goes on without a leader.
//
// What lives here: the arithmetic, and the waking of those who wait. Never here: which splits a reader leaves alone (package
// source).
//
// Concurrency: all methods may be called from any goroutine. Those who wait are woken outside the lock.
package align
