// Package event is what the scheduler and its driver say to each other: what has happened, what has to be done, and the limits that
// hold between them.
//
// Never in here: decisions (coordinator/schedule), and how an action is performed (coordinator, flow/launch).
package event
