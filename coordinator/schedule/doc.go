// Package schedule decides. Step looks at the facts (coordinator/state) and at what only the leader knows (sessions,
// inventories, reports on their way into the log, timers) and answers with actions.
//
// It is level-triggered: after any event it asks of each job concerned "what is missing between the facts and the
// world?", so a message that is lost, late or repeated changes nothing, and a new leader needs no memory of the old
// one.
//
// The driver is the same loop in a cluster (package coordinator) and in an embedded job (flow/launch):
//
//	for e := range events {
//		for _, a := range leader.Step(state.View(), e, now()) {
//			perform(a)
//		}
//	}
//
// It performs Propose by applying the command and answers with ProposalDone, whose Step must be given a view that
// contains the command; Send by the worker's session, in order, ending the session (Detached) if it cannot deliver;
// WakeAt by a Tick at that time.
//
// Concurrency: a Leader belongs to one goroutine, lives for one term, and is thrown away at its end.
package schedule
