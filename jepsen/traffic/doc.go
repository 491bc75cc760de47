// Package traffic is what clients of a cluster under torment do, and what its jobs compute.
//
//	Client   one client, which asks any coordinator and asks again while the cluster is at fault
//	Load     several clients that submit, ask and cancel at once, and record every call for the model of the API
//	Ledger   the workload: a job whose every row tells which records came before it, and its oracle, a plain loop
//	Reader   follows what a sink has committed, as a consumer that trusts it would, and records it
//	Auditor  reads the checkpoints that the ledger keeps, from the files of the workers
//	Observer looks at the cluster from outside: progress, attempts, terms, chains, clocks
//
// The job of the ledger is built into the sluice binary. Nothing of it is shared with the oracle here: both are written from
// one sentence, that record i of n belongs to partition (i / 256) mod P and is the next one of it.
//
// Concurrency: a Client belongs to one goroutine, an Oracle is a value; Load, Reader and Observer run in a group of their
// caller's.
package traffic
