// Package recovery decides what follows a failure: whether the job restarts and after which pause, and which regions do.
//
// Pure: functions of the committed history of a job. Jitter comes from the job's id and the number of its restarts, so
// every leader decides alike.
package recovery
