// Package endtoend tests what only whole processes can show: batch and mixed jobs on a real cluster, and what becomes of
// jobs, workers and neighbours when input, disk or user code is bad.
//
// It holds tests only. They build the binaries that a user has, type the commands that a user types, and compare files:
// nothing of the engine is linked in. Faults are injected from outside; internal/trial has the jobs that are wrong on
// purpose. Kills, and everything that needs a schedule of faults, are jepsen's business.
package endtoend
