// Package snapshot is what checkpoints are made of outside of tasks and leaders: names of objects, manifests, the rules of
// keeping and deleting, and the contract of stores.
//
// What lives here: Name, manifests (compose, validate, encode), retention and deletion as pure functions, Store and Stores.
// Implementations have packages of their own: mem, fs, peer; chunk is the format of state, segment that of the files that
// chunks are put into. storetest is the suite that every store passes.
//
// What never lives here: when a checkpoint begins and whether it has completed (coordinator/checkpoint), what state is
// (worker/state), facts (coordinator/state).
//
// Objects are written once, under names that are never used again. Whoever reads one compares its digest: a digest verifies,
// and never decides that a write can be left out. docs/design/snapshots.md is the contract.
package snapshot
