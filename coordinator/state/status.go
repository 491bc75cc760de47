package state

import (
	"fmt"
	"strings"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// Terminal reports whether a job in this status never changes again.
func Terminal(s jobpb.JobStatus) bool {
	switch s {
	case jobpb.JobStatus_JOB_FINISHED, jobpb.JobStatus_JOB_FAILED, jobpb.JobStatus_JOB_CANCELLED, jobpb.JobStatus_JOB_STOPPED:
		return true
	}
	return false
}

// StatusName is the status as people read it: RUNNING.
func StatusName(s jobpb.JobStatus) string { return strings.TrimPrefix(s.String(), "JOB_") }

// next lists the legal transitions of a job. Terminal statuses have none: a terminal job is never re-animated.
var next = map[jobpb.JobStatus][]jobpb.JobStatus{
	jobpb.JobStatus_JOB_CREATED: {
		jobpb.JobStatus_JOB_PLANNING, jobpb.JobStatus_JOB_FAILING, jobpb.JobStatus_JOB_CANCELLING,
	},
	jobpb.JobStatus_JOB_PLANNING: {
		jobpb.JobStatus_JOB_PLANNING, // on another worker
		jobpb.JobStatus_JOB_WAITING, jobpb.JobStatus_JOB_FAILED, jobpb.JobStatus_JOB_FAILING, jobpb.JobStatus_JOB_CANCELLING,
	},
	jobpb.JobStatus_JOB_WAITING: {
		jobpb.JobStatus_JOB_RUNNING, jobpb.JobStatus_JOB_RESTARTING, jobpb.JobStatus_JOB_FAILING, jobpb.JobStatus_JOB_CANCELLING,
	},
	jobpb.JobStatus_JOB_RUNNING: {
		jobpb.JobStatus_JOB_RESTARTING, jobpb.JobStatus_JOB_FINISHING, jobpb.JobStatus_JOB_FAILING, jobpb.JobStatus_JOB_CANCELLING,
	},
	jobpb.JobStatus_JOB_RESTARTING: {
		jobpb.JobStatus_JOB_RESTARTING, // another region, or again
		jobpb.JobStatus_JOB_WAITING, jobpb.JobStatus_JOB_RUNNING, jobpb.JobStatus_JOB_FAILING, jobpb.JobStatus_JOB_CANCELLING,
	},
	jobpb.JobStatus_JOB_FINISHING: {
		jobpb.JobStatus_JOB_FINISHED,
		jobpb.JobStatus_JOB_FAILING,   // the output can never be committed
		jobpb.JobStatus_JOB_CANCELLED, // a cancel gave up on output that could not be committed
	},
	jobpb.JobStatus_JOB_FAILING:    {jobpb.JobStatus_JOB_FAILED},
	jobpb.JobStatus_JOB_CANCELLING: {jobpb.JobStatus_JOB_CANCELLED},
}

// move checks one transition of a job.
func move(from, to jobpb.JobStatus) error {
	for _, s := range next[from] {
		if s == to {
			return nil
		}
	}
	return fmt.Errorf("a job that is %s cannot become %s", StatusName(from), StatusName(to))
}

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
