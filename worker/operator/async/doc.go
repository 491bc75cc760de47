// Package async holds the operator that calls a slow function for many records at a time.
//
// What lives here: which calls run, how long each may take, how often it is tried, and in which order results go on. What
// never does: what is called.
//
// Records wait in one queue, with the watermarks and the idleness between them in their places. Ordered, a result goes on
// when everything in front of it has; unordered, when nothing but records is in front of it. So no record passes a
// watermark, in either direction.
//
// A barrier passes at once: the records in the queue are state, and are called again after a restore, in front of new input.
//
// Concurrency: the queue belongs to the goroutine of the subtask. Each call runs on a goroutine of its own, which leaves its
// result under a lock and rouses the loop. A call that does not return when its time is over keeps its place among the calls
// until it does, so that a function which ignores its context cannot pile up goroutines.
package async
