package state

import (
	"slices"
	"testing"

	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

func TestOnlyIdleSlotsAreGivenBack(t *testing.T) {
	l := newLog(t)
	l.must(Applied, l.do("", register("w1", 1, 4)))
	id := l.running(twoStage(2), on("w1"))
	give := func(slots ...int32) *commandpb.Command {
		j := l.job(id)
		return &commandpb.Command{Command: &commandpb.Command_ReleaseSlots{ReleaseSlots: &commandpb.ReleaseSlots{Job: id, JobEpoch: j.Epoch(), Slots: slots}}}
	}
	l.must(Stale, l.do("", give(0, 1))) // attempts run in them
	if r := l.must(Refused, l.do("", give(7))); r.Code != CodeMalformed {
		t.Fatal(r)
	}
	l.must(Applied, l.do("", restart(l.job(id), jobpb.FailureKind_FAILURE_USER, l.now+100)))
	l.must(Stale, l.do("", give(0, 1))) // they may still act
	l.must(Applied, l.do("", report(l.job(id), jobpb.SubtaskState_SUBTASK_CANCELLED, nil)))
	if n := l.s.View().UsedSlots("w1"); n != 2 {
		t.Fatalf("%d used slots through the back-off", n)
	}
	wrong := give(0)
	wrong.GetReleaseSlots().JobEpoch = 9
	l.must(Stale, l.do("", wrong))
	if r := l.must(Applied, l.do("", give(1, 1))); r.Dropped != 1 || l.s.View().UsedSlots("w1") != 1 {
		t.Fatalf("%v, %d used slots", r, l.s.View().UsedSlots("w1"))
	}
	l.must(Applied, l.do("", cancelJob(id)))
	l.must(Stale, l.do("", give(0)))
}

// Each region waits out its own back-off; the others are given attempts meanwhile.
func TestABackOffIsThatOfItsRegions(t *testing.T) {
	l, id := staged(t, 2)
	again := func(delay int64, regions ...int32) {
		c := restartOf(l.job(id), regions)
		c.GetRestartRegions().RestartAtUs = l.now + delay
		l.must(Applied, l.do("", c))
	}
	again(300, 0, 2, 4) // everything in slot 0
	again(100, 1)
	if at := l.job(id).Head().RestartAtUs; at != l.job(id).Region(0).RestartAtUs || at == 0 {
		t.Fatalf("the last back-off ends at %d", at)
	}
	schedule := func(region int32) *commandpb.Command {
		c := scheduleAll(l.s.View(), id, on("w1"))
		s := c.GetScheduleRegions()
		s.Regions = slices.DeleteFunc(s.Regions, func(r *taskpb.RegionEpoch) bool { return r.Region != region })
		s.Assignments = slices.DeleteFunc(s.Assignments, func(a *commandpb.Assignment) bool {
			pos, _ := l.job(id).Position(a.Chain, a.Index)
			return l.job(id).At(pos).Region != region
		})
		return c
	}
	l.must(Stale, l.do("", schedule(1)))
	l.now += 100
	l.must(Stale, l.do("", scheduleAll(l.s.View(), id, on("w1")))) // all of it or nothing, as always
	l.must(Applied, l.do("", schedule(1)))
	if j := l.job(id); j.Status() != jobpb.JobStatus_JOB_RUNNING || j.Region(1).RestartAtUs != 0 || j.Head().RestartAtUs != j.Region(0).RestartAtUs {
		t.Fatalf("%v: %v %v", j.Status(), j.Region(0), j.Region(1))
	}
	l.must(Stale, l.do("", schedule(0)))
	// A job of which something runs gives back the slots in which nothing does, and stays what it is.
	used := l.s.View().UsedSlots("w1")
	for chain := range int32(3) {
		cancelled := only(report(l.job(id), jobpb.SubtaskState_SUBTASK_CANCELLED, nil), chain, 0)
		cancelled.GetUpdateSubtasks().Updates[0].RegionEpoch = 1
		l.must(Applied, l.do("", cancelled))
	}
	l.must(Applied, l.do("", &commandpb.Command{Command: &commandpb.Command_HoldJob{HoldJob: &commandpb.HoldJob{Job: id, JobEpoch: 1, Message: "room", Release: true}}}))
	if j := l.job(id); j.Status() != jobpb.JobStatus_JOB_RUNNING || l.s.View().UsedSlots("w1") != used-1 {
		t.Fatalf("%v, %d of %d slots used", j.Status(), l.s.View().UsedSlots("w1"), used)
	}
	l.now += 200
	for _, r := range []int32{0, 2, 4} {
		l.must(Applied, l.do("", schedule(r)))
	}
	if at := l.job(id).Head().RestartAtUs; at != 0 {
		t.Fatalf("a back-off until %d, and nobody waits", at)
	}
}
