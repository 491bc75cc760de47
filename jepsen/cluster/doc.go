// Package cluster runs a cluster of real processes on this machine and gives tests the means to hurt it.
//
// Every node is one process of the given binary with its own data directory, its own ports on loopback and its own
// log file. Killing is kill -9, pausing is SIGSTOP; a node that is started again finds its old data. A crash ends a
// worker and its task processes at one moment. Only processes that this package started, and what these have started, are
// ever signalled.
//
// Concurrency: a Cluster and its Nodes may be used by any goroutine. Close ends and awaits every process.
package cluster
