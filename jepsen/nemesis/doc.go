// Package nemesis injects faults into running processes, on a schedule that one seed reproduces.
//
// A fault has a beginning and, where it heals, an end. What really took effect is counted: a kill that found its
// target dead already has tested nothing.
package nemesis
