// Package bounded holds whole experiments: a workload, the faults that it runs under, and a verdict with its reasons.
//
// A scenario fails when an invariant is broken, and also when it could not find out: an unknown outcome is no pass.
// It keeps the data directories, the logs and the history of a failed run.
package bounded
