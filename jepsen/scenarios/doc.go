// Package scenarios is the list of named experiments, and what runs one: a cluster, a workload, clients, faults, quiet, a verdict.
//
// A scenario is a number, a name and a function that does its faults; everything else is the same for all of them. It says which
// invariants it must show, and is skipped, with the reason, where what it needs is missing. Its verdict is read from the history alone
// (package validate). Those with bounded jobs of their own stand in package bounded.
//
// Exit of a run: valid; invalid, when an invariant is broken; unknown, when one that must be shown was not, or when the harness itself
// failed. Unknown is no pass.
package scenarios
