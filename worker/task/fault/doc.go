// Package fault is how a failure at run time becomes a report: its kind, which decides whether and how the job
// restarts, its code, and the place that helps the user to find the cause.
//
// Never here: what is done about a failure (the coordinator), texts of plan-time errors.
//
// Concurrency: functions of values.
package fault
