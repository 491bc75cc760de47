package state

import (
	"testing"

	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
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
