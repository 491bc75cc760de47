// Package coordinator is one node of the replicated coordinator: a Raft member that keeps the facts of the cluster,
// answers clients on its API port, and, while it leads, drives the jobs.
//
// What lives here: the embedding of hashicorp/raft with its guards, the life of a leader, the sessions of workers,
// the artifact store and its replication between coordinators, membership, metrics. What never does: decisions about
// jobs (packages state, plan, region and schedule are pure and take them), user code, records.
//
// # Data flow
//
//	client ── coordinator/api ──▶ Node (forwarded to the leader by a follower) ──▶ propose ──▶ Raft ──▶ state.Apply
//	worker ── Control.Attach ──▶ session ──▶ driver ──▶ schedule.Step ──▶ propose, or a message to a session
//	state.Apply ──▶ subscribers: driver, Wait and Events calls
//
// # Concurrency
//
// Run owns a node from start to end; nothing that it starts outlives it. The facts are read through immutable views, by
// anyone, without a lock held. Everything that only a leader may do belongs to one term: it is started by the one
// goroutine that follows leadership, its context ends with the term, and that goroutine waits for all of it before it
// looks at the next term. The scheduler is owned by one loop, the driver; sessions talk to it through bounded queues
// and are closed when they cannot keep up, so that no worker can hold up another one.
package coordinator
