// Package shuffle moves records between the subtasks of a job: credit, channels, local hand-over and the exchange
// over gRPC.
//
// A Writer is the producing end of one edge in one subtask, a Gate the consuming end. Each pair of them is a channel,
// with its own order, credit and fence; a channel between two subtasks of this process hands batches over as they
// are, any other encodes them into frames (docs/format/frame.md) that travel on the one stream from the producer's
// process to the consumer's. A Network holds what the channels of a process share: the registry where ends meet, the
// sessions with other processes, and the memory for buffers.
//
// Never here: routing (the caller says to whom a record goes), watermark arithmetic, barriers' meaning, connections
// and their preface (the caller dials and accepts).
package shuffle
