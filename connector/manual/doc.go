// Package manual has sources and sinks in the hands of a test: what they read is pushed one by one, what they write is seen at
// once. The harness of jobs in flow/flowtest puts them in the place of a job's own.
//
// A Feed keeps what was pushed, so that an attempt that begins anew reads it again. A Basin shows records as they are written:
// it is at-least-once. A Timetable gives records at given moments of the clock, which in a bubble of testing/synctest means:
// in an order that is fixed, whatever the scheduler does.
//
// What it never does: start anything, or know what a job is.
//
// Concurrency: everything may be called from any goroutine.
package manual
