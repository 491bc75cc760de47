// Package job holds the jobs that are built into the command line: sluice is itself a job binary, so that a cluster can be
// tried, measured and tested with nothing but the one file.
//
// A job here is an ordinary one: it uses the public API alone, as any user's does, and is chosen by the parameter job.
// `sluice job NAME` runs it embedded; `sluice submit $(which sluice) -p job=NAME` on a cluster, whose workers start this
// binary as a task process.
//
// Concurrency: Main is called once per process and does not return.
package job
