// Package status is the table of the legal transitions of a job.
//
// Pure. Never in here: what a transition does (coordinator/state).
package status
