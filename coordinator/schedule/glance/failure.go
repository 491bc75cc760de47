package glance

import (
	"slices"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// FailureOf is the reason of an attempt that ended without finishing.
func FailureOf(facts *state.Job, t *jobpb.Subtask) *jobpb.Failure {
	for _, f := range slices.Backward(facts.Failures()) {
		if f.Chain == t.Chain && f.Index == t.Index && f.Attempt == t.Attempt {
			return f
		}
	}
	return LossOf(t, CodeVanished, "worker "+t.Worker+" cancelled the attempt")
}

// LossOf is the loss of an attempt.
func LossOf(t *jobpb.Subtask, code, message string) *jobpb.Failure {
	return &jobpb.Failure{Kind: jobpb.FailureKind_FAILURE_LOSS, Code: code, Message: message, Chain: t.Chain, Index: t.Index, Attempt: t.Attempt, Worker: t.Worker}
}

// UpdateOf is the report of an attempt that cannot report any more.
func UpdateOf(t *jobpb.Subtask, r *jobpb.RegionState, s jobpb.SubtaskState, f *jobpb.Failure) *taskpb.SubtaskUpdate {
	return &taskpb.SubtaskUpdate{Chain: t.Chain, Index: t.Index, Attempt: t.Attempt, Region: t.Region, RegionEpoch: r.Epoch, State: s, Failure: f}
}

// CancelMessage ends attempts of regions; of all if none is named.
func CancelMessage(facts *state.Job, regions []*taskpb.RegionEpoch) *controlpb.CoordinatorMessage {
	return &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_Cancel{Cancel: &taskpb.Cancel{
		Job: facts.ID(), JobEpoch: facts.Epoch(), Regions: regions,
	}}}
}
