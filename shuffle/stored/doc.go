// Package stored keeps the results of BLOCKING edges in files and serves them: written by one attempt of a producer,
// read by any number of consumers, again, and from a position.
//
// A Store is the directory of one worker, or of one embedded process. An Exchange is what the writers and readers of
// one task process share: the store, the account of the network memory, the connections to the agents of other
// workers, and the goroutines that read ahead (Exchange.Run, as shuffle.Network.Run). A Writer is the producing end
// of one edge in one subtask and a Reader the consuming end; their methods are those of shuffle.Writer and
// shuffle.Gate, so that a subtask's loop treats both alike. A Server is the agent's side: it answers reads from the
// store after the task process has gone.
//
// The way of a record: Writer.Add → the run in memory → blocks, subpartition by subpartition → data file; at
// Writer.Close(nil) data and index are synced and the index is renamed into place: an index that exists is a finished
// partition. Back: data file → (on another worker: Server → gRPC, message by message of what the consumer granted) →
// the reader's lane → Reader.Next.
//
// A partition that is missing, shorter than its index says, or fails a checksum is a *LostError, which matches
// ErrLost and carries the partition's name: its producer has to run again. A connection that stays broken is a
// *LinkError: nothing is known to be lost. Reader.Unreadable looks for others that are lost at the same time.
//
// Never here: when a partition is needed, where it lies (facts), positions in checkpoints, routing, watermark
// arithmetic.
//
// # Memory
//
// All of it comes from the account of the network memory: a writer has a run, whose size grows with the number of
// consumers (1 KiB each at least) instead of a buffer for each of them; a reader has chunks of 64 KiB, however many
// producers it reads. A record that is larger than a block takes what it needs while it exists; of those a reader holds
// one at a time. The agent lends chunks from a pool of its own.
//
// # Concurrency
//
// Writers and readers belong to the loop of their subtask. Store, Exchange and Server may be used from any goroutine.
// Goroutines run in the groups of Exchange.Run and Server.Serve only: a lane per partition that is read ahead, with a
// second one for grants while it talks to an agent; gRPC's own for the calls of a server. Writing is done on the
// subtask's loop.
//
// Locks: Exchange.mu before the group's own and budget.Account; conns.mu before budget.Account and gRPC's own;
// intake.mu and Store.mu are leaves. Notify is called, and files are read and written, without any of them.
package stored
