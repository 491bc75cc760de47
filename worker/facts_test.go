package worker

import (
	"testing"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

func newFacts() *facts { return &facts{attempts: map[subtaskKey]attempt{}} }

func oneDeployed(epoch uint64, attempt uint32) *taskpb.Deployment {
	return &taskpb.Deployment{
		Job: "j", JobEpoch: epoch, Process: 1, Plan: &jobpb.Plan{},
		Subtasks: []*taskpb.SubtaskDeployment{{Attempt: attempt, RegionEpoch: uint64(attempt)}},
	}
}

func update(attempt uint32, s jobpb.SubtaskState) *taskpb.SubtaskUpdate {
	return &taskpb.SubtaskUpdate{Attempt: attempt, RegionEpoch: uint64(attempt), State: s}
}

func TestInventoryShowsTheNewestAttemptAndForgetsOnlyWhatIsCommitted(t *testing.T) {
	f := newFacts()
	key := processKey{"j", 1}
	state := func() (uint32, jobpb.SubtaskState) {
		t.Helper()
		inv := f.inventory(key)
		if len(inv.Subtasks) != 1 {
			t.Fatalf("inventory: %v", inv)
		}
		return inv.Subtasks[0].Attempt, inv.Subtasks[0].State
	}
	f.deployed(oneDeployed(1, 1))
	if a, s := state(); a != 1 || s != jobpb.SubtaskState_SUBTASK_SCHEDULED {
		t.Errorf("deployed: attempt %d %v", a, s)
	}
	f.updated(update(1, jobpb.SubtaskState_SUBTASK_RUNNING), 1)
	f.deployed(oneDeployed(1, 1)) // repeated: changes nothing
	if a, s := state(); a != 1 || s != jobpb.SubtaskState_SUBTASK_RUNNING {
		t.Errorf("running: attempt %d %v", a, s)
	}
	f.acknowledged(1) // a running attempt stays, committed or not
	state()
	f.deployed(oneDeployed(1, 2))
	f.updated(update(1, jobpb.SubtaskState_SUBTASK_CANCELLED), 2) // the older one ends late
	if a, s := state(); a != 2 || s != jobpb.SubtaskState_SUBTASK_SCHEDULED {
		t.Errorf("superseded: attempt %d %v", a, s)
	}
	f.updated(update(2, jobpb.SubtaskState_SUBTASK_FINISHED), 5)
	f.acknowledged(4)
	if a, s := state(); a != 2 || s != jobpb.SubtaskState_SUBTASK_FINISHED {
		t.Errorf("finished, not committed: attempt %d %v", a, s)
	}
	f.acknowledged(5)
	if inv := f.inventory(key); len(inv.Subtasks) > 0 {
		t.Errorf("committed: %v", inv)
	}
	if f.deployed(oneDeployed(0, 3)) {
		t.Error("a deployment of an older job epoch was taken")
	}
}
