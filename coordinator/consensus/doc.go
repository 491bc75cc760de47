// Package consensus embeds hashicorp/raft: the transport, the log store and the snapshot store, each behind the guard
// that its public history asks for.
//
// What lives here knows Raft and files, and nothing of jobs. What never does: the state machine, leadership, anything
// that draws a conclusion from an entry.
//
//   - Transport answers heartbeats on Raft's main goroutine, sends one request at a time to each follower, and reports
//     a follower that needs one snapshot after the other.
//   - The log store ends the process when a write hangs, because Raft itself never notices.
//   - The snapshot store knows only the newest snapshot: data older than the newest are no replacement for it.
//
// Concurrency: everything is called from Raft's goroutines. Callbacks run there too, or on a timer's goroutine, and must
// not block.
package consensus
