// Package glance reads facts and reports for the scheduler: small questions that need no memory of a leader.
//
// Pure, and without state of its own. Never in here: what is done about an answer (coordinator/schedule).
package glance
