// Package taskpb is what a worker's agent and its task processes say to each other over their private link: building,
// deploying, cancelling, committing, and the reports that come back.
//
// The job's binary may be older or newer than the agent, within a window of protocol versions that is checked before
// anything else is said. No logic lives here beyond Validate. Messages are values; whoever holds one may read it from
// any goroutine as long as nobody writes.
package taskpb
