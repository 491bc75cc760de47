// Package jobpb is the job in all its forms: the logical graph that a user's build function makes, the physical plan made
// from it, and the record that Raft keeps of its execution.
//
// It is read on both sides of every wall, so nothing of either side lives here: no planning, no scheduling, no typed
// operator, and no logic beyond Validate. Records kept in the replicated state are immutable; whoever changes one makes
// a copy.
package jobpb
