// Package split decides who reads which splits of a source, and when: bounded sources when all splits are known, phases
// one after the other, a few at a time or a fair part for good.
//
// What it decides is proposed by coordinator/schedule and becomes a fact before a reader hears of it. What it remembers
// (questions without an answer, how far readers have come) readers say again, so a new leader learns the same.
//
// Concurrency: a Desk belongs to one goroutine.
package split
