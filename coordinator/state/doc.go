// Package state is the replicated facts of a cluster and the only code that changes them.
//
// Commands (proto/commandpb) come in the order of the Raft log. Apply checks each command's own precondition against
// the facts and either changes them or answers with a typed result; the same log gives the same facts, results and
// hash chain on every coordinator. Nothing here reads a clock, draws a number, depends on the order of a map, or
// touches a disk: time and identities come with the command.
//
// Data flow: Raft (or the embedded driver) → ApplyBytes → facts → View → coordinator/schedule, the API, snapshots.
//
// Records are immutable: a change replaces the record and everything on the path to it, so a View is one pointer and
// stays valid for ever, also while later commands are applied or while a snapshot is being written from it.
//
// Concurrency: Apply and ApplyBytes are called by one goroutine at a time. View, Chain and ChainAt may be called from
// any goroutine. Everything that a View hands out is shared and must not be changed by the reader.
//
// Never in here: decisions (coordinator/schedule), Raft, gRPC, files.
package state
