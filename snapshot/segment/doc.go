// Package segment packs the parts of the subtasks of one task process into few objects, and finds them again.
//
// A segment is chunks one behind the other, nothing between them: each has magic, version and checksums of its own
// (docs/format/chunk.md), and the digest of the whole stands in manifest and facts. Where a chunk begins and ends is said by the
// snapshotpb.Part that names it.
//
// Never here: which parts a checkpoint consists of (snapshot.Compose), what is in a chunk (worker/state).
//
// Concurrency: a Writer may be used from any goroutine; parts are written one after the other. A Set may be used from any goroutine.
package segment
