// Package credit is the book-keeping of a gate's buffers: which channel may have how many of them in flight.
//
// Invariant: the buffers of all channels together never exceed channels × exclusive + floating, and a channel that has
// none of its own in flight or in hand can always get `exclusive`. So a channel can neither be starved nor take the
// memory of the others, whatever its producer does.
//
// Never here: who the channels are, how a grant reaches a producer, waiting.
//
// Concurrency: a Ledger is guarded by its owner.
package credit
