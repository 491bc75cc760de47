// Package snapshotpb holds what a checkpoint consists of: acknowledgements of subtasks and manifests. Objects and the facts
// about checkpoints are in jobpb, because a job's record has them.
package snapshotpb
