// Package telemetry is the coordinator's metrics in the Prometheus format, named sluice_….
//
// Most of them are read from the facts, from Raft and from the newest samples of task processes at the moment of a
// scrape, so that they cannot drift from what the API says. Nothing here decides anything or keeps state of a job.
//
// Concurrency: everything may be called from any goroutine; a scrape reads immutable views and takes no lock for long.
package telemetry
