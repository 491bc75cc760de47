// Package nexmark generates NX1, an auction workload in the manner of the Nexmark benchmark: persons, auctions and bids
// in the proportion 1 : 3 : 46.
//
// Event i is a pure function of (seed, microseconds per event, i): no state, no clock, no floating point. So every
// subtask can make any part of the stream, a replay is exact, and the answers of all queries are known beforehand. NX1
// is not Nexmark: its numbers compare with other NX1 numbers only.
//
// # Arithmetic
//
// All words are unsigned 64-bit, all operations modulo 2^64.
//
//	G = 0x9E3779B97F4A7C15
//	mix(z)        = the finaliser of SplitMix64
//	base(i)       = mix(mix(seed + G) XOR (i * G))
//	draw(i, k)    = mix(base(i) + k * G)                    k = 1, 2, …: fixed per field
//	bounded(k, n) = floor(draw(i, k) * n / 2^64)
//
// Draw numbers are fixed per field, so a field that a query does not read is never computed: that is why a Generator
// has a method per field, and a source is made from the function that picks them.
//
// Concurrency: a Generator is a value; everything but a Reader is immutable.
package nexmark
