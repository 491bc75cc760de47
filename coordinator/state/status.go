package state

import (
	"github.com/sluiceio/sluice/coordinator/state/status"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Terminal reports whether a job in this status never changes again.
func Terminal(s jobpb.JobStatus) bool { return status.Terminal(s) }

// StatusName is the status as people read it: RUNNING.
func StatusName(s jobpb.JobStatus) string { return status.Name(s) }

// nextPartition lists the legal transitions of a stored result. One that was found unreadable is never trusted again, and
// the files of one that is released may be gone at any moment; whoever needs either makes another one, by another attempt.
var nextPartition = map[jobpb.PartitionState][]jobpb.PartitionState{
	jobpb.PartitionState_PARTITION_STORED: {jobpb.PartitionState_PARTITION_LOST, jobpb.PartitionState_PARTITION_RELEASED},
	jobpb.PartitionState_PARTITION_LOST:   {jobpb.PartitionState_PARTITION_RELEASED},
}

// active reports whether an attempt in this state holds its slot and may still act.
func active(s jobpb.SubtaskState) bool {
	return s == jobpb.SubtaskState_SUBTASK_SCHEDULED || s == jobpb.SubtaskState_SUBTASK_RUNNING || s == jobpb.SubtaskState_SUBTASK_FINISHING
}
