// Package snapshot is what checkpoints are made of outside of tasks and leaders: names of objects, manifests, their check,
// and the contract of stores.
//
// What lives here: Name, manifests (compose, validate, encode, check), Store and Stores. What is kept and deleted is decided by
// coordinator/state/ledger.
// Implementations have packages of their own: mem, fs, peer; chunk is the format of state, which worker/task/segment packs into
// objects; bundle is a savepoint in a directory of its own, audit looks at directories that nobody uses. storetest is the suite that
// every store passes.
//
// What never lives here: when a checkpoint begins and whether it has completed (coordinator/checkpoint), what state is
// (worker/state), facts (coordinator/state).
//
// Objects are written once, under names that are never used again. Whoever reads one compares its digest: a digest verifies,
// and never decides that a write can be left out. docs/design/snapshots.md is the contract.
package snapshot
