// Package results is what a worker keeps of jobs' stored results after the task processes that made them have gone: the
// directory, its inventory, its service for readers, and the deletions that the leader plans.
//
// Nothing is deleted by age or on the worker's own judgement: what no leader names stays, across restarts of the agent
// and for as long as no leader is found. Files of unfinished attempts are no results; they go when the agent starts.
//
// Task processes write into the directory themselves and the agent hears of it from their reports, which pass through
// it before any reader can know of the result.
//
// Never here: when a result is needed (the coordinators' facts), how it is written and read (shuffle/stored), and
// which messages say so (package worker).
//
// When a result is found to be lost, by a reader of this worker or of another one, all of its job are looked at (Audit),
// and the leader is told what else is gone.
//
// Concurrency: a Keeper may be used from any goroutine. It starts nothing: Serve, Delete and Audit are tasks of the
// worker.
package results
