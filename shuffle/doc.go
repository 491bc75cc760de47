// Package shuffle moves records between the subtasks of a job: channels, credit, local hand-over, and the exchange
// over gRPC.
//
// A Writer is the producing end of one edge in one subtask, a Gate the consuming end. Each pair of them is a channel,
// with its own order, credit and fence. A channel between two subtasks of this process hands batches over as they
// are; any other encodes them into frames (docs/format/frame.md). A Network holds what the channels of a process
// share: the meetings where ends find each other, the sessions with other processes, and the account of the memory.
//
// The way of a record: Writer.Add → buffer of the consumer → (local) the gate's inbox, or (remote) the channel's
// queue → the stream's sender → gRPC → the session's receiver → the gate's inbox → Gate.Next. The way back of credit:
// Gate.Release → ledger → (local) the producer is woken, or (remote) the session's sender → the stream's receiver →
// the channel's queue.
//
// Who may hold how much: a channel has as many buffers under way as its gate has granted, exclusive ones and those
// lent for a backlog (package credit); at the producer one more is being filled and one may wait for credit. A buffer
// that was granted has its place at the consumer, so the receiver of a stream never waits and no channel can hold up
// another. Everything is reserved from the network's memory when a writer or gate is made (package budget).
//
// What is lost: a stream that breaks fails the channels that were open on it, an end that closes with an error fails
// the other, an end that is older than what was here before is refused (package meet). All of it is a LossError, at
// both ends, once. A producer whose end has arrived is not lost, whatever happens to it then.
//
// Never here: routing (the caller says to whom a record goes), watermark arithmetic, the meaning of barriers,
// connections and their preface (the caller dials and accepts), files.
//
// # Concurrency
//
// Writers and gates belong to the loop of their subtask. Network may be used by any goroutine. Goroutines run in the
// group of Network.Run only: one that starts sessions and watches deadlines, one that accepts, a sender and a receiver
// per stream on either side.
//
// Locks, outermost first: Network.mu, then session.mu or inbox.mu. All others (localOut, remoteOut, serverStream,
// framePool, budget.Account) are never held together with another of this package, but budget.Account under
// Network.mu. Nothing is sent, called back or waited for while a lock is held: what a locked section decides (effects,
// ring, displaced ends) is done after it.
package shuffle
