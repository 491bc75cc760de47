// Package values is a source of values that are part of the job: every process has them from its own build, and a split holds
// no more than a position. For tests, examples and small tables.
//
// Concurrency: as package connector says.
package values
