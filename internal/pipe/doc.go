// Package pipe is the private link between a worker agent and a task process, and the way a data connection finds its
// process through the worker's single data port.
//
// A task process inherits two sockets. On the first (descriptor 3) agent and process exchange protobuf messages in
// frames: Link. On the second (descriptor 4) the agent passes data connections: Sender and Listener. Nobody else can
// speak on either, and end of file on the first means that the other side is gone. Descriptor 5 is the lock of the
// process's directory; it only has to stay open.
//
// Whoever opens a data connection writes a Preface of 64 bytes that names job, epochs and process, and reads one
// Answer: accepted, not yet, gone. From the next byte on the connection belongs to the two task processes. Dialer does
// this from the dialling side; the agent answers with ReadPreface and Sender.Pass. Process number 0 is the agent itself,
// which keeps such a connection: Own.
//
// The formats are described in docs/format/pipe.md and docs/format/preface.md. What the messages mean is not known
// here, nor is any table of processes.
//
// Concurrency: Link.Send and Sender.Pass may be called from any goroutine, Link.Receive and Listener.Accept from one
// at a time. Close of each may be called from any goroutine and ends the calls in progress.
package pipe
