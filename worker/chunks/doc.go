// Package chunks is the store of a worker: objects of snapshots in a directory of its data directory, served to task processes, leaders
// and other workers.
//
// What lives here: the service (controlpb.Objects), the inventory, the deletions and copies that the leader has planned, and scrubbing, which
// reads every object once per interval and removes what is not what was written. What never does: which object is needed, where copies
// belong (facts), how a task process writes (snapshot/peer; it shares the directory).
//
// Nothing is deleted by age or on the worker's own judgement but what is damaged. What has changed is told to the leader as it happens
// (Reports), and by the inventory of the next session.
//
// Concurrency: a Keeper may be used from any goroutine. It starts nothing: Work and Scrub are tasks of the worker. Obeying never blocks.
package chunks
