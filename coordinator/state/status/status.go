package status

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

// Ending reports whether a job in this status stops its attempts and then ends, with what it has.
func Ending(s jobpb.JobStatus) bool {
	return s == jobpb.JobStatus_JOB_FAILING || s == jobpb.JobStatus_JOB_CANCELLING || s == jobpb.JobStatus_JOB_STOPPING
}

// Name is the status as people read it: RUNNING.
func Name(s jobpb.JobStatus) string { return strings.TrimPrefix(s.String(), "JOB_") }

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
		jobpb.JobStatus_JOB_RUNNING, jobpb.JobStatus_JOB_RESTARTING, jobpb.JobStatus_JOB_FAILING, jobpb.JobStatus_JOB_CANCELLING, jobpb.JobStatus_JOB_STOPPING,
	},
	jobpb.JobStatus_JOB_RUNNING: {
		jobpb.JobStatus_JOB_RESTARTING, jobpb.JobStatus_JOB_FINISHING, jobpb.JobStatus_JOB_FAILING, jobpb.JobStatus_JOB_CANCELLING, jobpb.JobStatus_JOB_STOPPING,
	},
	jobpb.JobStatus_JOB_RESTARTING: {
		jobpb.JobStatus_JOB_RESTARTING, // another region, or again
		jobpb.JobStatus_JOB_WAITING, jobpb.JobStatus_JOB_RUNNING, jobpb.JobStatus_JOB_FAILING, jobpb.JobStatus_JOB_CANCELLING, jobpb.JobStatus_JOB_STOPPING,
	},
	jobpb.JobStatus_JOB_FINISHING: {
		jobpb.JobStatus_JOB_FINISHED,
		jobpb.JobStatus_JOB_FAILING,   // the output can never be committed
		jobpb.JobStatus_JOB_CANCELLED, // a cancel gave up on output that could not be committed
	},
	jobpb.JobStatus_JOB_FAILING:    {jobpb.JobStatus_JOB_FAILED},
	jobpb.JobStatus_JOB_CANCELLING: {jobpb.JobStatus_JOB_CANCELLED},
	jobpb.JobStatus_JOB_STOPPING:   {jobpb.JobStatus_JOB_STOPPED},
}

// Move checks one transition of a job.
func Move(from, to jobpb.JobStatus) error {
	for _, s := range next[from] {
		if s == to {
			return nil
		}
	}
	return fmt.Errorf("a job that is %s cannot become %s", Name(from), Name(to))
}
