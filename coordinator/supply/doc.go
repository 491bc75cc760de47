// Package supply follows which stored results of a job can be read, and so which of the regions that wait have all of
// their inputs.
//
// It counts: what a new fact about one result costs does not depend on the number of its consumers, except when an edge
// becomes complete, or is no longer, which concerns each region that reads it once. 10,000 producers with 10,000
// consumers are 10,000 holdings and never 100,000,000 pairs.
//
// What makes a result readable (facts, sessions, inventories, reports of readers) is judged in coordinator/schedule,
// which tells it here.
//
// Concurrency: a Supply belongs to one goroutine.
package supply
