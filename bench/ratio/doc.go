// Package ratio compares the speed of two pieces of work in one process, so that tests can protect speed on machines
// whose speed nobody knows and that do other things meanwhile.
//
// A goal is a ratio: the engine against the plain loop that does the same. Baseline and subject run in turns, many
// short rounds, so that a slow phase of the machine hits both; the ratio of a comparison is the smaller one of
// minimum over minimum (what the code can do) and of the median of the rounds' own ratios (what drift cannot move).
// AtMost repeats a comparison that exceeds its limit a few times and takes the best: noise only ever adds. A real
// regression exceeds the limit every time.
//
// Wall time is right for one goroutine and for pipelines that must overlap; CPU time, of the whole process, is
// steadier when other processes use the machine, but blind to waiting.
//
// Under the race detector times mean nothing, so AtMost runs both functions once, for the detector's sake, and skips.
// The tests are named TestSpeed… so that they can be run alone, without it: make speed.
//
// Concurrency: one comparison at a time; a test that compares must not be parallel.
package ratio
