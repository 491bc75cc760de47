package state

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

const (
	periodic  = jobpb.CheckpointKind_CHECKPOINT_PERIODIC
	finishing = jobpb.SubtaskState_SUBTASK_FINISHING
	finished  = jobpb.SubtaskState_SUBTASK_FINISHED
)

// streaming is twoStage with checkpoints.
func streaming(n int32) *jobpb.Plan {
	p := twoStage(n)
	p.Regions[0].Checkpointed = true
	return p
}

func startCheckpoint(j *Job, kind jobpb.CheckpointKind) *commandpb.Command {
	return &commandpb.Command{Command: &commandpb.Command_StartCheckpoint{StartCheckpoint: &commandpb.StartCheckpoint{
		Job: j.ID(), JobEpoch: j.Epoch(), Kind: kind, Regions: []*taskpb.RegionEpoch{{Region: 0, Epoch: j.Region(0).Epoch}}}}}
}

func object(name string, stores ...string) *jobpb.StoredObject {
	return &jobpb.StoredObject{Object: &jobpb.Object{Name: name, Size: 7, Digest: make([]byte, jobpb.DigestBytes)}, Stores: stores}
}

// complete ends checkpoint id with one manifest, one segment of its own, and the output of subtask 0.
func complete(j *Job, id uint64, change func(*commandpb.CompleteCheckpoint)) *commandpb.Command {
	m, s := fmt.Sprintf("%s/1/%d-1.manifest", j.ID(), id), fmt.Sprintf("%s/1/1/%d-0.segment", j.ID(), id)
	c := &commandpb.CompleteCheckpoint{
		Job: j.ID(), JobEpoch: j.Epoch(), Checkpoint: id, Manifest: object(m, "s1", "s2"), Segments: []*jobpb.StoredObject{object(s, "s1")},
		Objects: []string{m, s}, Retain: 2,
	}
	if change != nil {
		change(c)
	}
	return &commandpb.Command{Command: &commandpb.Command_CompleteCheckpoint{CompleteCheckpoint: c}}
}

func output(id uint64) *jobpb.Committable {
	return &jobpb.Committable{Sink: "out", Checkpoint: id, Data: []byte("x")}
}

func confirmCommits(j *Job, id uint64) *commandpb.Command {
	return &commandpb.Command{Command: &commandpb.Command_ConfirmCommits{ConfirmCommits: &commandpb.ConfirmCommits{Job: j.ID(), JobEpoch: j.Epoch(), Checkpoint: id}}}
}

func abortCheckpoint(j *Job, id uint64) *commandpb.Command {
	return &commandpb.Command{Command: &commandpb.Command_AbortCheckpoint{AbortCheckpoint: &commandpb.AbortCheckpoint{
		Job: j.ID(), JobEpoch: j.Epoch(), Checkpoint: id, Cause: &jobpb.Failure{Code: "E150", Message: "late"}}}}
}

// checkpointing is a running job that has completed checkpoints 1…n.
func checkpointing(t *testing.T, n uint64) (*log, string) {
	l := newLog(t)
	l.must(Applied, l.do("", register("w1", 1, 4)))
	id := l.running(streaming(2), on("w1"))
	for i := range n {
		l.must(Applied, l.do("", startCheckpoint(l.job(id), periodic)))
		l.must(Applied, l.do("", complete(l.job(id), i+1, nil)))
	}
	return l, id
}

// PROTOCOL 3: of a completion and a restart that were proposed together, the first one counts.
func TestACompletionAndARestartThatRace(t *testing.T) {
	l, id := checkpointing(t, 1)
	l.must(Applied, l.do("", startCheckpoint(l.job(id), periodic)))
	l.must(Stale, l.do("", startCheckpoint(l.job(id), periodic))) // one at a time
	late, again := complete(l.job(id), 2, nil), restart(l.job(id), jobpb.FailureKind_FAILURE_LOSS, 0)
	l.must(Applied, l.do("", again))
	if r := l.job(id).Region(0); r.Restore != 1 {
		t.Fatalf("restored %d", r.Restore)
	}
	if c := l.job(id).Checkpoints(); c.Started != nil || c.Failed != 1 {
		t.Fatalf("what was under way goes on: %v", c)
	}
	said := ""
	for e := range l.s.View().Events(0) {
		if e.Kind == "region-restarted" {
			said = e.Message
		}
	}
	if !strings.HasSuffix(said, "; from checkpoint 1") {
		t.Errorf("the event does not say where it begins: %q", said)
	}
	l.must(Stale, l.do("", late))

	l, id = checkpointing(t, 1)
	l.must(Applied, l.do("", startCheckpoint(l.job(id), periodic)))
	first, then := complete(l.job(id), 2, nil), restart(l.job(id), jobpb.FailureKind_FAILURE_LOSS, 0)
	l.must(Applied, l.do("", first))
	l.must(Applied, l.do("", then))
	if r := l.job(id).Region(0); r.Restore != 2 {
		t.Fatalf("restored %d", r.Restore)
	}
}

// PROTOCOL 9: a finish holds relative to a checkpoint.
func TestASubtaskFinishesByACheckpointAlone(t *testing.T) {
	l, id := checkpointing(t, 1)
	l.must(Stale, l.do("", report(l.job(id), finished, nil)))
	l.must(Applied, l.do("", only(report(l.job(id), finishing, nil), 0, 0)))
	if j := l.job(id); j.Subtask(0, 0).State != finishing || j.Active() != 4 || l.s.View().UsedSlots("w1") != 2 {
		t.Fatalf("%s, %d active", j.Subtask(0, 0).State, j.Active())
	}
	// Without a checkpoint that contains it, it runs again.
	l.must(Applied, l.do("", restart(l.job(id), jobpb.FailureKind_FAILURE_LOSS, 0)))
	l.must(Applied, l.do("", scheduleAll(l.s.View(), id, on("w1"))))
	if s := l.job(id).Subtask(0, 0); s.Attempt != 2 {
		t.Fatal(s)
	}
	l.must(Applied, l.do("", report(l.job(id), jobpb.SubtaskState_SUBTASK_RUNNING, nil)))
	l.must(Applied, l.do("", report(l.job(id), finishing, nil)))
	l.must(Stale, l.do("", only(report(l.job(id), jobpb.SubtaskState_SUBTASK_RUNNING, nil), 0, 0)))
	l.must(Applied, l.do("", startCheckpoint(l.job(id), jobpb.CheckpointKind_CHECKPOINT_FINAL)))
	l.must(Applied, l.do("", complete(l.job(id), 2, func(c *commandpb.CompleteCheckpoint) {
		c.Finished = []*commandpb.SubtaskRef{{Chain: 0, Index: 0, Attempt: 2}, {Chain: 0, Index: 1, Attempt: 2}}
	})))
	// With one, it does not.
	l.must(Applied, l.do("", restart(l.job(id), jobpb.FailureKind_FAILURE_LOSS, 0)))
	c := scheduleAll(l.s.View(), id, on("w1"))
	l.must(Refused, l.do("", c))
	s := c.GetScheduleRegions()
	s.Assignments = s.Assignments[2:]
	l.must(Applied, l.do("", c))
	j := l.job(id)
	if a, b := j.Subtask(0, 0), j.Subtask(1, 0); a.State != finished || a.Attempt != 2 || b.Attempt != 3 {
		t.Fatalf("%v\n%v", a, b)
	}
	l.must(Applied, l.do("", report(j, finishing, nil)))
	l.must(Applied, l.do("", startCheckpoint(l.job(id), jobpb.CheckpointKind_CHECKPOINT_FINAL)))
	l.must(Applied, l.do("", complete(l.job(id), 3, func(c *commandpb.CompleteCheckpoint) {
		c.Finished = []*commandpb.SubtaskRef{{Chain: 1, Index: 0, Attempt: 3}, {Chain: 1, Index: 1, Attempt: 3}}
		c.Committables = []*jobpb.Committable{output(3)}
	})))
	if j := l.job(id); j.Status() != jobpb.JobStatus_JOB_FINISHING || l.s.View().UsedSlots("w1") != 0 {
		t.Fatalf("%s with %d slots", j.Status(), l.s.View().UsedSlots("w1"))
	}
	l.must(Stale, l.do("", endJob(l.job(id), "")))
	l.must(Applied, l.do("", confirmCommits(l.job(id), 3)))
	l.must(Applied, l.do("", endJob(l.job(id), "")))
}

// A last checkpoint is one only if nothing runs that may still write.
func TestTheLastCheckpointWaitsForEverySubtask(t *testing.T) {
	l, id := checkpointing(t, 0)
	l.must(Applied, l.do("", only(report(l.job(id), finishing, nil), 0, 0)))
	l.must(Stale, l.do("", startCheckpoint(l.job(id), jobpb.CheckpointKind_CHECKPOINT_FINAL)))
}

// PROTOCOL 5: output outlives its checkpoint, and every attempt.
func TestOutputOfACompletedCheckpointIsNeverDropped(t *testing.T) {
	l, id := checkpointing(t, 0)
	for i := range uint64(4) {
		l.must(Applied, l.do("", startCheckpoint(l.job(id), periodic)))
		l.must(Applied, l.do("", complete(l.job(id), i+1, func(c *commandpb.CompleteCheckpoint) {
			c.Committables = []*jobpb.Committable{output(i + 1)}
			if i > 0 {
				c.Committables = append([]*jobpb.Committable{output(i)}, c.Committables...) // carried on: not doubled
			}
		})))
	}
	l.must(Applied, l.do("", restart(l.job(id), jobpb.FailureKind_FAILURE_LOSS, 0)))
	if j := l.job(id); len(j.Committables()) != 4 || len(j.Checkpoints().Completed) != 2 {
		t.Fatalf("%d parts, %d checkpoints", len(j.Committables()), len(j.Checkpoints().Completed))
	}
	l.must(Applied, l.do("", confirmCommits(l.job(id), 2)))
	l.must(Stale, l.do("", confirmCommits(l.job(id), 2)))
	if j := l.job(id); len(j.Committables()) != 2 || j.Checkpoints().Confirmed != 2 {
		t.Fatalf("%d parts, %d confirmed", len(j.Committables()), j.Checkpoints().Confirmed)
	}
	l.must(Applied, l.do("", cancelJob(id)))
	removed := confirmCommits(l.job(id), 9)
	removed.GetConfirmCommits().Removed = true
	l.must(Stale, l.do("", removed)) // none of it may be removed
	l.must(Stale, l.do("", endJob(l.job(id), "")))
	l.must(Applied, l.do("", confirmCommits(l.job(id), 9)))
	if c := l.job(id).Checkpoints(); c.Confirmed != 4 {
		t.Fatal(c.Confirmed)
	}
}

// PROTOCOL 21, decision 8: what was assigned is known to readers that start from a checkpoint.
func TestSplitsAreKeptByARestartFromACheckpoint(t *testing.T) {
	for _, n := range []uint64{0, 1} {
		p := streaming(2)
		p.Graph.Operators[0].Bounded = false
		l := newLog(t)
		l.must(Applied, l.do("", register("w1", 1, 4)))
		id := l.running(p, on("w1"))
		add := addSplits(l.job(id), 0, 3, false)
		add.GetAddSplits().Enumerator = []byte("after 3")
		l.must(Applied, l.do("", add))
		l.must(Applied, l.do("", assign(l.job(id), 0, 0, 1, 1)))
		if n == 1 {
			l.must(Applied, l.do("", startCheckpoint(l.job(id), periodic)))
			l.must(Applied, l.do("", complete(l.job(id), 1, nil)))
		}
		l.must(Applied, l.do("", restart(l.job(id), jobpb.FailureKind_FAILURE_LOSS, 0)))
		s := l.job(id).Source(0)
		if kept := s.Len() == 3 && s.Assigned() == 2 && string(s.Enumerator()) == "after 3"; kept != (n == 1) || s.RegionEpoch() != 2 {
			t.Errorf("with %d checkpoints: %v", n, s.Proto())
		}
	}
}

func TestAProcessIsKeptOnlyForARewind(t *testing.T) {
	for n := range uint64(2) {
		l, id := checkpointing(t, n)
		before := l.job(id).Subtask(0, 0).Process
		l.must(Applied, l.do("", restart(l.job(id), jobpb.FailureKind_FAILURE_LOSS, 0)))
		c := scheduleAll(l.s.View(), id, on("w1"))
		c.GetScheduleRegions().Keep = []string{"w1"}
		l.must(Applied, l.do("", c))
		if kept := l.job(id).Subtask(0, 0).Process == before; kept != (n == 1) {
			t.Errorf("with %d checkpoints the process is kept: %t", n, kept)
		}
	}
}

func TestSavepointsGoFirstAndStay(t *testing.T) {
	l, id := checkpointing(t, 0)
	want := &commandpb.Command{Command: &commandpb.Command_RequestSavepoint{RequestSavepoint: &commandpb.RequestSavepoint{Job: id, Kind: jobpb.CheckpointKind_CHECKPOINT_SAVEPOINT}}}
	l.must(Applied, l.do("wish", want))
	l.must(Duplicate, l.do("wish", want))
	l.must(Stale, l.do("", startCheckpoint(l.job(id), periodic)))
	c := startCheckpoint(l.job(id), jobpb.CheckpointKind_CHECKPOINT_SAVEPOINT)
	c.GetStartCheckpoint().RequestId = "wish"
	l.must(Applied, l.do("", c))
	l.must(Applied, l.do("", complete(l.job(id), 1, nil)))
	for i := uint64(2); i < 6; i++ {
		l.must(Applied, l.do("", startCheckpoint(l.job(id), periodic)))
		l.must(Applied, l.do("", abortCheckpoint(l.job(id), i*2-2)))
		l.must(Applied, l.do("", startCheckpoint(l.job(id), periodic)))
		l.must(Applied, l.do("", complete(l.job(id), i*2-1, nil)))
	}
	var ids []uint64
	for _, d := range l.job(id).Checkpoints().Completed {
		ids = append(ids, d.Id)
	}
	if fmt.Sprint(ids) != "[1 7 9]" {
		t.Fatal(ids)
	}
}
