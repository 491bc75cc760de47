// Package tally counts of a job what would otherwise cost a pass over its subtasks: attempts by process, slots by worker,
// subtasks of a chain that have produced something. It follows the facts change by change, so one report about a job of
// ten thousand subtasks costs what that report changed.
//
// Everything here could be computed from the facts at any time, and is, when a Tally looks for the first time; that makes
// it safe to throw away. Nothing here is decided.
//
// Concurrency: a Tally belongs to one goroutine.
package tally
