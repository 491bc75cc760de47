// Package commit makes prepared sink output visible, or removes it, by the committers of a job's sinks.
//
// The order of things: a sink prepares output and a subtask reports it; the coordinators store it; only then a task
// process of the job, perhaps another one, is told to commit. What is told may be told again, late, and to two
// processes at once, so everything here is as idempotent as the committers have to be.
//
// Never here: when to commit (the coordinator), how a sink prepares (its connector).
//
// Concurrency: functions without state of their own; the caller runs one commit at a time.
package commit
