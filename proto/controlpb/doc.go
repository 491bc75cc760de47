// Package controlpb is what coordinators and workers say to each other: one stream per worker, opened by the worker to
// the leader, and the calls that an agent answers.
//
// Messages may come late, twice or from a leader that is no more; each carries the term and the epochs by which its
// receiver judges it. No logic lives here beyond Validate. Messages are values; whoever holds one may read it from any
// goroutine as long as nobody writes.
package controlpb
