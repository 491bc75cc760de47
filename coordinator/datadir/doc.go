// Package datadir is the coordinator's data directory apart from its Raft files and artifacts: who the node is, whether it
// may be started, who owns the directory at the moment, and room for streams that have to be read twice.
//
// The layout and the formats are described in docs/format/coordinator-dir.md. Nothing here knows Raft.
//
// Concurrency: the functions belong to the process that holds Lock; within it, Store and Halt are called by one
// goroutine each. A Spool may be read by several.
package datadir
