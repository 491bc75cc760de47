// Package outbox keeps what a worker has to tell a leader until a leader has committed it.
//
// What never lives here: what a report means, and the session that sends it.
//
// Concurrency: all methods may be called from any goroutine. The lock is held over memory only.
package outbox
