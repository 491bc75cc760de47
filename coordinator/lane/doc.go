// Package lane keeps what a leader has proposed and does not know the outcome of. A lane is a subject on which at most one
// proposal is under way: what arrives meanwhile is folded into the next one, so a proposal is never repeated while it is in
// flight. An outcome that stays unknown, or decisions that lead to nothing again and again, close the lane for a pause;
// preconditions in the commands make it harmless that both may apply.
//
// Never here: what is proposed and why (coordinator/schedule), and clocks; whoever owns the lanes sets the timers.
//
// Concurrency: Lanes belong to the loop of their leader.
package lane
