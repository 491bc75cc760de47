// Package rollout knows when attempts may be deployed and what they have to be told: the order of a lazy start, which
// sources wait behind a gate, where everybody is with whom a subtask exchanges records.
//
// Workers, sessions and the repetition of messages are the business of coordinator/schedule.
//
// Concurrency: a Plan is immutable; the functions read facts only.
package rollout
