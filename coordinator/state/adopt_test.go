package state

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

const rescaling = jobpb.CheckpointKind_CHECKPOINT_RESCALE

func requestRescale(job string, n int32) *commandpb.Command {
	return &commandpb.Command{Command: &commandpb.Command_RequestRescale{RequestRescale: &commandpb.RequestRescale{Job: job, Parallelism: n}}}
}

// adopted is the newest checkpoint of a job as another plan sees it.
func adopted(j *Job, epoch uint64) *commandpb.Adopted {
	d := j.Newest()
	m := fmt.Sprintf("%s/%d/%d-1.manifest", j.ID(), epoch, d.Id)
	a := &commandpb.Adopted{Manifest: object(m, "s1"), Objects: []string{m}}
	for _, name := range d.Objects {
		if name != d.Manifest.Name {
			a.Objects = append(a.Objects, name)
		}
	}
	return a
}

func rescaleJob(j *Job, n int32) *commandpb.Command {
	return &commandpb.Command{Command: &commandpb.Command_RescaleJob{RescaleJob: &commandpb.RescaleJob{
		Job: j.ID(), JobEpoch: j.Epoch(), Plan: streaming(n), Adopted: adopted(j, j.Epoch()+1),
	}}}
}

func abandonRescale(j *Job) *commandpb.Command {
	return &commandpb.Command{Command: &commandpb.Command_AbandonRescale{AbandonRescale: &commandpb.AbandonRescale{
		Job: j.ID(), JobEpoch: j.Epoch(), Cause: &jobpb.Failure{Code: "E061", Message: "no"}}}}
}

// reload takes the facts through a snapshot.
func (l *log) reload() {
	l.t.Helper()
	var b bytes.Buffer
	if err := l.s.View().Save(&b); err != nil {
		l.t.Fatal(err)
	}
	s, err := Load(&b)
	if err != nil {
		l.t.Fatal(err)
	}
	l.s = s
}

// TestAPlanTakesOverOnlyWhenNothingOfTheLastIsOpen plays a change of parallelism step by step, and at each what must not happen yet; a snapshot
// of the facts is taken and loaded in between.
func TestAPlanTakesOverOnlyWhenNothingOfTheLastIsOpen(t *testing.T) {
	l, id := checkpointing(t, 1)
	l.must(Applied, l.do("wish", requestRescale(id, 1)))
	l.must(Duplicate, l.do("wish", requestRescale(id, 1)))
	l.must(Stale, l.do("other", requestRescale(id, 3)))
	l.must(Stale, l.do("", startCheckpoint(l.job(id), periodic)))
	start := startCheckpoint(l.job(id), rescaling)
	start.GetStartCheckpoint().RequestId = "wish"
	l.must(Applied, l.do("", start))
	l.must(Stale, l.do("", rescaleJob(l.job(id), 1)))
	l.must(Applied, l.do("", complete(l.job(id), 2, func(c *commandpb.CompleteCheckpoint) { c.Committables = []*jobpb.Committable{output(2)} })))
	if j := l.job(id); j.Region(0).Epoch != 1 || j.Status() != jobpb.JobStatus_JOB_RUNNING {
		t.Fatalf("the regions stop before the output is visible: %v", j.Region(0))
	}
	l.must(Stale, l.do("", startCheckpoint(l.job(id), periodic)))
	l.must(Stale, l.do("", rescaleJob(l.job(id), 1)))
	l.must(Applied, l.do("", confirmCommits(l.job(id), 2)))
	j := l.job(id)
	if _, stopped := j.Switching(); !stopped || j.Region(0).Restore != 2 || j.Region(0).Epoch != 2 {
		t.Fatalf("%v, %v", j.Head(), j.Region(0))
	}
	l.reload()
	l.must(Stale, l.do("", scheduleAll(l.s.View(), id, on("w1"))))
	l.must(Stale, l.do("", rescaleJob(l.job(id), 1))) // attempts may still act
	l.must(Applied, l.do("", report(l.job(id), jobpb.SubtaskState_SUBTASK_CANCELLED, nil)))
	last, attempts := l.job(id).Region(0).Epoch, l.job(id).Subtask(0, 0).Attempt
	l.must(Applied, l.do("", rescaleJob(l.job(id), 1)))
	j = l.job(id)
	if j.Epoch() != 2 || j.Size() != 2 || j.Rescaling() || j.Head().Spec.Parallelism != 1 || j.Status() != jobpb.JobStatus_JOB_WAITING {
		t.Fatalf("%v, %d subtasks", j.Head(), j.Size())
	}
	if r := j.Region(0); r.Restore != 2 || r.Epoch <= last || j.Subtask(0, 0).Attempt < attempts {
		t.Fatalf("%v, attempt %d: below %d and %d", r, j.Subtask(0, 0).Attempt, last, attempts)
	}
	l.reload()
	l.must(Applied, l.do("", scheduleAll(l.s.View(), id, on("w1"))))
	if s := l.job(id).Subtask(0, 0); s.Attempt <= attempts {
		t.Fatalf("attempt %d is issued twice", s.Attempt)
	}
	l.must(Applied, l.do("later", requestRescale(id, 2)))
}

// TestAChangeOfParallelismThatFailsLeavesTheJobAsItWas: a checkpoint that fails by itself ends it, one lost with a region does not; and a plan
// that cannot adopt the checkpoint lets the old one go on.
func TestAChangeOfParallelismThatFailsLeavesTheJobAsItWas(t *testing.T) {
	l, id := checkpointing(t, 1)
	begin := func(request string) {
		t.Helper()
		c := startCheckpoint(l.job(id), rescaling)
		c.GetStartCheckpoint().RequestId = request
		l.must(Applied, l.do("", c))
	}
	l.must(Applied, l.do("one", requestRescale(id, 1)))
	begin("one")
	l.must(Applied, l.do("", abortCheckpoint(l.job(id), 2)))
	if r := l.job(id).Head().Rescale; !r.Ended || r.Failure.GetCode() != "E150" {
		t.Fatal(r)
	}
	l.must(Applied, l.do("two", requestRescale(id, 1)))
	begin("two")
	lost := abortCheckpoint(l.job(id), 3)
	lost.GetAbortCheckpoint().Cause.Kind = jobpb.FailureKind_FAILURE_LOSS
	l.must(Applied, l.do("", lost))
	if !l.job(id).Rescaling() {
		t.Fatal("a loss ends it")
	}
	begin("two")
	l.must(Applied, l.do("", complete(l.job(id), 4, nil)))
	l.must(Applied, l.do("", abandonRescale(l.job(id))))
	l.must(Stale, l.do("", abandonRescale(l.job(id))))
	if r := l.job(id).Head().Rescale; !r.Ended || r.Failure.GetCode() != "E061" {
		t.Fatal(r)
	}
	l.must(Applied, l.do("", report(l.job(id), jobpb.SubtaskState_SUBTASK_CANCELLED, nil)))
	l.must(Applied, l.do("", scheduleAll(l.s.View(), id, on("w1"))))
	if j := l.job(id); j.Epoch() != 1 || j.Size() != 4 || j.Region(0).Restore != 4 {
		t.Fatalf("%v, %d subtasks", j.Region(0), j.Size())
	}
	l.must(Applied, l.do("three", requestRescale(id, 1)))
	l.must(Applied, l.do("", cancelJob(id)))
	if l.job(id).Rescaling() {
		t.Fatal("a cancelled job goes on at another parallelism")
	}
}

// TestAJobThatBeginsWithACheckpointKeepsItsObjects: whatever becomes of the other job. The last of the two deletes them.
func TestAJobThatBeginsWithACheckpointKeepsItsObjects(t *testing.T) {
	l, old := checkpointing(t, 2)
	from := func(job string, id uint64) *commandpb.Command {
		c := submit("next")
		c.GetSubmitJob().Spec.Origin = &jobpb.Origin{Job: job, Checkpoint: id}
		return c
	}
	l.must(Refused, l.do("none", from(old, 7)))
	l.must(Refused, l.do("nobody", from("nobody-9", 0)))
	id := l.must(Applied, l.do("begin", from(old, 0))).Job
	if o := l.job(id).Head().Spec.Origin; o.Job != old || o.Checkpoint != 2 {
		t.Fatal(o)
	}
	l.reload()
	segment := fmt.Sprintf("%s/1/1/2-0.segment", old)
	for i := uint64(3); i < 6; i++ { // the other job needs it no more
		l.must(Applied, l.do("", startCheckpoint(l.job(old), periodic)))
		l.must(Applied, l.do("", complete(l.job(old), i, nil)))
	}
	remove := func(job string) *commandpb.Command {
		return &commandpb.Command{Command: &commandpb.Command_DeleteObjects{DeleteObjects: &commandpb.DeleteObjects{Job: job, Names: []string{segment}}}}
	}
	l.must(Applied, l.do("", remove(old)))
	if c := l.job(old).Checkpoints(); len(c.Deleting) != 0 {
		t.Fatalf("it is deleted: %v", c.Deleting)
	}
	l.must(Applied, l.do("", startPlanning(id, 1, "w1")))
	l.must(Refused, l.do("", planJob(id, 1, streaming(1)))) // without the checkpoint
	plan := planJob(id, 1, streaming(1))
	plan.GetPlanJob().Adopted = adopted(l.job(id), 1)
	l.must(Applied, l.do("", plan))
	if r := l.job(id).Region(0); r.Restore != 2 {
		t.Fatal(r)
	}
	l.must(Stale, l.do("", remove(id)))
	for i := uint64(3); i < 6; i++ {
		if i == 3 {
			l.must(Applied, l.do("", cancelJob(old)))
			l.must(Applied, l.do("", report(l.job(old), jobpb.SubtaskState_SUBTASK_CANCELLED, nil)))
			l.must(Applied, l.do("", scheduleAll(l.s.View(), id, on("w1"))))
			l.must(Applied, l.do("", report(l.job(id), jobpb.SubtaskState_SUBTASK_RUNNING, nil)))
		}
		l.must(Applied, l.do("", startCheckpoint(l.job(id), periodic)))
		l.must(Applied, l.do("", complete(l.job(id), i, nil)))
	}
	l.must(Applied, l.do("", remove(id)))
	if c := l.job(id).Checkpoints(); len(c.Deleting) != 1 {
		t.Fatalf("nobody deletes it: %v", c.Deleting)
	}
}
