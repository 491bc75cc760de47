// Package timer keeps the times at which a scheduler wants to look at something again, and the pauses between
// repetitions of a message. It reads no clock: whoever uses it says what time it is.
//
// Concurrency: none of its types is safe for concurrent use.
package timer
