// Package session holds the streams of workers to the leader.
//
// A Book has the sessions of one reign. It turns what workers say into events for the scheduler and carries the
// scheduler's messages to them, in order or not at all: a worker that does not keep up loses its session, never a message
// in the middle of one.
//
// What lives here: admission, outboxes, heartbeats with their samples, dry runs of builds. What never does: decisions; those
// are coordinator/schedule's.
//
// Concurrency: all methods of Book may be called from any goroutine and none of them waits for a worker, except Build,
// Serve and End, which say so.
package session
