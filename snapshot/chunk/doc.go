// Package chunk is the file format of keyed state in a snapshot: the entries of one operator of one subtask, bucketed
// by key group, so that a restore at another parallelism reads only the key groups that it needs.
//
// A Writer collects entries in memory, already encoded, in any order; WriteTo lays them out. A Reader checks every byte
// before it believes it. Neither knows types: keys and values are bytes, the header carries their schemas
// (flow/codec) and names of states. The format is docs/format/chunk.md.
//
// Never here: names of files, manifests, stores, and the merging of chunks.
//
// Concurrency: a Writer belongs to one goroutine at a time; filling it and writing it out may be different ones, one
// after the other. A Reader may be used by several goroutines if its io.ReaderAt may.
package chunk
