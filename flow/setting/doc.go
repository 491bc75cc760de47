// Package setting is the one list of names that a job can be configured by, their types, defaults and meanings, and how
// a worker's memory is divided.
//
// Pure; imported by flow, coordinator/plan, worker and the command line, so that all of them know the same names and
// give the same error for a wrong one.
package setting
