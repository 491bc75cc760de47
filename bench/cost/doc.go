// Package cost answers queries of the NX1 workload by plain loops: one goroutine, no exchange, no watermark, no checkpoint. They
// are the honest limit that the engine is measured against.
//
// The rules of the game. A loop gets the events that the engine's sources make, from the same generator, in the order of their
// index, and makes those fields only that the query needs. It may rely on that order, which is that of time, and on ids that are
// unique; not on how the generator chooses ids, times of expiry or prices: keys go through a hash table of its own (Table), as the
// keys of any other stream would have to. What can be given up it gives up. Rows are added up where they arise, by the field digest
// (nexmark.Fields) in a timed run; with Answer.Canon by the canonical digest of the workload, which other programs have computed.
//
// Concurrency: none.
package cost
