// Package chunk is the file format of keyed state in a snapshot: the entries of one table of one operator of one
// subtask, bucketed by key group, so that a restore at another parallelism reads only the key groups that it needs.
//
// A Writer collects entries in memory, already encoded, in any order; WriteTo lays them out. A Stream writes entries
// that come group by group, and holds one block. A Reader checks every byte before it believes it. None of them knows
// types: keys and values are bytes, the header carries their schemas (flow/codec) and the names of states.
//
// Chunks form chains: a base and the deltas after it, oldest first. Merge makes one chunk of a chain. The format is
// docs/format/chunk.md.
//
// Never here: names of files, manifests, stores.
//
// Concurrency: a Writer belongs to one goroutine at a time; filling it and writing it out may be different ones, one
// after the other. A Reader may be used by several goroutines if its io.ReaderAt may; a Cursor belongs to one.
package chunk
