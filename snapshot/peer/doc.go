// Package peer makes one snapshot.Stores of the directories of a cluster's workers: a task process, a leader or an agent sees
// through it where its objects go and where those of others are.
//
// The way of an object: Create → the own directory (snapshot/fs: the rename is the publication) → Commit streams it to the agents of
// the targets by controlpb.Objects; each syncs before it answers, and its answer's digest is compared. A leader has no directory and
// holds what it writes in memory. Back: Open takes the own copy if its bytes have the digest that the facts know, which is checked once
// per object and process, and else reads by range from the agents, in the order of the places.
//
// Never here: which stores are targets, how many copies are enough (facts), the agents' side (worker/chunks).
//
// Every call to an agent is given up when it has not moved for Config.Stall; there is no other clock. Memory: 256 KiB per upload, a few
// windows of 256 KiB per open reader.
//
// Concurrency: Stores and readers may be used from any goroutine, an Upload by one.
package peer
