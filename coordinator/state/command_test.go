package state

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/sluiceio/sluice/coordinator/state/answer"
	"github.com/sluiceio/sluice/coordinator/state/jobid"
	"github.com/sluiceio/sluice/coordinator/state/status"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

func cancelJob(id string) *commandpb.Command {
	return &commandpb.Command{Command: &commandpb.Command_CancelJob{CancelJob: &commandpb.CancelJob{Job: id}}}
}

func restart(j *Job, kind jobpb.FailureKind, at int64) *commandpb.Command {
	c := &commandpb.RestartRegions{Job: j.ID(), JobEpoch: j.Epoch(), RestartAtUs: at, Cause: &jobpb.Failure{Code: "E050", Kind: kind, Message: "why"}}
	for r := range j.Regions() {
		c.Regions = append(c.Regions, &taskpb.RegionEpoch{Region: r.Index, Epoch: r.Epoch})
	}
	return &commandpb.Command{Command: &commandpb.Command_RestartRegions{RestartRegions: c}}
}

func lose(worker string, incarnation uint64) *commandpb.Command {
	return &commandpb.Command{Command: &commandpb.Command_LoseWorker{LoseWorker: &commandpb.LoseWorker{Worker: worker, Incarnation: incarnation}}}
}

func failJob(j *Job) *commandpb.Command {
	return &commandpb.Command{Command: &commandpb.Command_FailJob{FailJob: &commandpb.FailJob{Job: j.ID(), JobEpoch: j.Epoch(), Cause: &jobpb.Failure{Code: "E050", Message: "why"}}}}
}

func addSplits(j *Job, offset, n int, end bool) *commandpb.Command {
	c := &commandpb.AddSplits{Job: j.ID(), JobEpoch: j.Epoch(), RegionEpoch: j.Region(0).Epoch, Offset: int32(offset), End: end}
	for i := range n {
		c.Splits = append(c.Splits, &jobpb.Split{Id: fmt.Sprint("s", offset+i)})
	}
	return &commandpb.Command{Command: &commandpb.Command_AddSplits{AddSplits: c}}
}

func assign(j *Job, pairs ...int32) *commandpb.Command {
	c := &commandpb.AssignSplits{Job: j.ID(), JobEpoch: j.Epoch(), RegionEpoch: j.Region(0).Epoch}
	for i := 0; i < len(pairs); i += 2 {
		c.Assignments = append(c.Assignments, &jobpb.SplitAssignment{Subtask: pairs[i], Attempt: j.Subtask(0, pairs[i]).Attempt, Split: pairs[i+1]})
	}
	return &commandpb.Command{Command: &commandpb.Command_AssignSplits{AssignSplits: c}}
}

func TestRequestIDIsOneJob(t *testing.T) {
	l := newLog(t)
	l.must(Refused, l.do("r1", submit("a"))) // no artifact
	l.do("", artifact())
	first := l.must(Applied, l.do("r1", submit("a")))
	if again := l.must(Duplicate, l.do("r1", submit("a"))); again.Job != first.Job {
		t.Fatalf("the same request gave %s and %s", first.Job, again.Job)
	}
	if r := l.must(Refused, l.do("r1", submit("b"))); r.Code != CodeRequestReused {
		t.Fatal(r)
	}
	if r := l.must(Refused, l.do("", submit("c"))); r.Code != CodeMalformed {
		t.Fatal("a submit without a request id:", r)
	}
	l.now += RequestMemoryMicros
	l.must(Duplicate, l.do("r1", submit("a"))) // at least 24 hours
	l.now++
	l.must(Applied, l.do("r2", submit("a"))) // makes room
	if next := l.must(Applied, l.do("r1", submit("a"))); next.Job == first.Job {
		t.Fatal("a job id was used again")
	}
}

func TestExpiredRequestIDIsRefusedIfItsAgeShows(t *testing.T) {
	l := newLog(t)
	l.now = 1_700_000_000_000_000
	l.do("", artifact())
	id := func(ms int64) string {
		h := fmt.Sprintf("%012x", ms)
		return h[:8] + "-" + h[8:] + "-7000-8000-000000000000"
	}
	if r := l.must(Refused, l.do(id(l.now/1000-25*3600*1000), submit("a"))); r.Code != CodeRequestExpired {
		t.Fatal(r)
	}
	l.must(Applied, l.do(id(l.now/1000-23*3600*1000), submit("a")))
}

func TestRequestIDsOfCancelsAreServedOnce(t *testing.T) {
	l := newLog(t)
	l.do("", artifact())
	id := l.do("r1", submit("a")).Job
	l.must(Applied, l.do("r2", cancelJob(id)))
	l.must(Duplicate, l.do("r2", cancelJob(id)))
	l.must(Refused, l.do("r1", cancelJob(id)))
	l.must(Stale, l.do("r3", cancelJob(id)))
}

func TestNewerCommandsHaltLoudly(t *testing.T) {
	newKind := protowire.AppendTag(nil, 999, protowire.BytesType)
	newKind = protowire.AppendBytes(newKind, []byte("x"))
	later, err := proto.Marshal(&commandpb.Command{Version: Version + 1, Command: artifact().Command})
	if err != nil {
		t.Fatal(err)
	}
	for name, entry := range map[string][]byte{"version": later, "kind": newKind} {
		l := newLog(t)
		l.do("", artifact())
		chain := l.s.Chain()
		if r := l.s.ApplyBytes(100, 1, entry); r.Status != Halt || r.Code != CodeNewer {
			t.Fatalf("%s: %s", name, r)
		}
		// Whatever comes next is not applied either: it would diverge from nodes that understand.
		if r := l.s.Apply(101, 1, submit("a")); r.Status != Halt || l.s.Chain() != chain || l.s.View().Index() == 101 {
			t.Fatalf("%s: after the halt: %s", name, r)
		}
	}
}

func TestGarbageIsAResultAndPartOfTheChain(t *testing.T) {
	a, b := New(), New()
	for i, s := range []*State{a, b} {
		if r := s.ApplyBytes(1, 1, []byte{0xff, 0xff, byte(i)}); r.Status != Refused || r.Code != CodeMalformed {
			t.Fatal(r)
		}
	}
	if a.Chain() == b.Chain() || a.Chain() == New().Chain() {
		t.Fatal("the chain does not cover entries that cannot be decoded")
	}
	if r := a.ApplyBytes(1, 1, nil); r.Status != Stale {
		t.Fatal("an entry was applied twice:", r)
	}
	if r := a.ApplyBytes(2, 1, nil); r.Status != Refused {
		t.Fatal("an empty command:", r)
	}
}

func TestChainCoversRecordsAndResults(t *testing.T) {
	chain := func(record *commandpb.Worker, r Result) Chain {
		s := New()
		x := &tx{View: *s.View(), was: s.View(), term: 1, sum: s.sum}
		x.index = 1
		x.sum.Reset()
		x.note(changeWorker, record)
		s.publish(x, []byte("entry"), r)
		return s.Chain()
	}
	w, other := &commandpb.Worker{Id: "w1", Slots: 1}, &commandpb.Worker{Id: "w1", Slots: 2}
	base := chain(w, applied(""))
	if chain(w, applied("")) != base {
		t.Fatal("equal nodes have different chains")
	}
	if chain(other, applied("")) == base {
		t.Fatal("a record that was changed otherwise is not seen")
	}
	if chain(w, stale("", "x")) == base || chain(w, applied("j-1")) == base {
		t.Fatal("another result is not seen")
	}
}

func TestChainIsKnownAtRecentIndexes(t *testing.T) {
	l := newLog(t)
	chains := map[uint64]Chain{0: l.s.Chain()}
	for i := range 50 {
		l.do("", register("w1", uint64(i+1), 1))
		chains[l.index] = l.s.Chain()
	}
	for i := uint64(0); i <= l.index; i++ {
		if c, ok := l.s.ChainAt(i); !ok || c != chains[i-i%2] { // commands have even indexes here
			t.Fatalf("chain at %d: known %t", i, ok)
		}
	}
	if _, ok := l.s.ChainAt(l.index + 1); ok {
		t.Fatal("the chain of an entry that was not applied yet is known")
	}
	for i := range answer.WindowSize {
		l.do("", register("w1", uint64(1000+i), 1))
	}
	if _, ok := l.s.ChainAt(2); ok {
		t.Fatal("values are remembered for ever")
	}
}

func TestViewsNeverChange(t *testing.T) {
	l := newLog(t)
	l.must(Applied, l.do("", register("w1", 1, 4)))
	id := l.running(twoStage(2), on("w1"))
	l.must(Applied, l.do("", addSplits(l.job(id), 0, 3, true)))
	before := l.s.View()
	var saved bytes.Buffer
	if err := before.Save(&saved); err != nil {
		t.Fatal(err)
	}
	l.must(Applied, l.do("", assign(l.job(id), 0, 0, 1, 1)))
	l.must(Applied, l.do("", report(l.job(id), jobpb.SubtaskState_SUBTASK_FINISHED, nil)))
	l.must(Applied, l.do("", lose("w1", 1)))
	l.must(Applied, l.do("", endJob(l.job(id), "")))
	var again bytes.Buffer
	if err := before.Save(&again); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(saved.Bytes(), again.Bytes()) {
		t.Fatal("a view changed while later commands were applied")
	}
}

func TestWorkersAndIncarnations(t *testing.T) {
	l := newLog(t)
	l.must(Refused, l.do("", register("w1", 0, 1)))
	l.must(Refused, l.do("", lose("w1", 1)))
	l.must(Applied, l.do("", register("w1", 2, 1)))
	l.must(Stale, l.do("", register("w1", 2, 1)))
	l.must(Refused, l.do("", register("w1", 1, 1)))
	l.must(Stale, l.do("", lose("w1", 1))) // of another incarnation
	l.must(Applied, l.do("", lose("w1", 2)))
	l.must(Stale, l.do("", lose("w1", 2)))
	l.must(Applied, l.do("", register("w1", 2, 1))) // it was only cut off
	l.must(Applied, l.do("", register("w1", 3, 2)))
	l.must(Stale, l.do("", lose("w1", 2)))
	if w := l.s.View().Worker("w1"); w.Slots != 2 || w.Health != commandpb.WorkerHealth_WORKER_ALIVE {
		t.Fatal(w)
	}
	l.must(Applied, l.do("", lose("w1", 3)))
	l.now += LostWorkerMicros + 1
	l.must(Applied, l.do("", register("w2", 1, 1)))
	if l.s.View().Worker("w1") != nil {
		t.Fatal("lost workers are remembered for ever")
	}
}

func TestDrains(t *testing.T) {
	l := newLog(t)
	drain := func(on bool, incarnation uint64) *commandpb.Command {
		return &commandpb.Command{Command: &commandpb.Command_SetDrain{SetDrain: &commandpb.SetDrain{Worker: "w1", Drain: on, Incarnation: incarnation, DeadlineUs: 5}}}
	}
	l.must(Refused, l.do("", drain(true, 0)))
	l.must(Applied, l.do("", register("w1", 1, 1)))
	l.must(Stale, l.do("", drain(true, 7)))
	l.must(Applied, l.do("", drain(true, 1)))
	l.must(Applied, l.do("", register("w1", 2, 1)))
	if l.s.View().Worker("w1").Draining {
		t.Fatal("a worker's own drain outlives its incarnation")
	}
	l.must(Applied, l.do("", drain(true, 0)))
	l.must(Applied, l.do("", register("w1", 3, 1)))
	if w := l.s.View().Worker("w1"); !w.Draining || w.DrainDeadlineUs != 5 {
		t.Fatal("an operator's drain is forgotten with the incarnation")
	}
	l.must(Applied, l.do("", drain(false, 0)))
	l.must(Stale, l.do("", drain(false, 0)))
}

func TestArtifactsThatAreNeededStay(t *testing.T) {
	remove := &commandpb.Command{Command: &commandpb.Command_RemoveArtifact{RemoveArtifact: &commandpb.RemoveArtifact{Digest: digest}}}
	l := newLog(t)
	l.must(Stale, l.do("", remove))
	l.must(Applied, l.do("", artifact()))
	l.must(Stale, l.do("", artifact()))
	other := proto.CloneOf(artifact())
	other.GetPutArtifact().Size = 99
	l.must(Refused, l.do("", other)) // a digest stands for one content
	id := l.must(Applied, l.do("r", submit("a"))).Job
	if r := l.must(Refused, l.do("", remove)); r.Code != CodeInUse {
		t.Fatal(r)
	}
	l.must(Applied, l.do("", cancelJob(id)))
	l.must(Applied, l.do("", endJob(l.job(id), "")))
	l.must(Applied, l.do("", remove))
}

func TestSlotsAreGrantedAllOrNothing(t *testing.T) {
	l := newLog(t)
	l.must(Applied, l.do("", register("w1", 1, 2)))
	l.must(Applied, l.do("", register("w2", 1, 2)))
	l.do("", artifact())
	planned := func() string {
		id := l.must(Applied, l.do(fmt.Sprint(l.index), submit("j"))).Job
		l.must(Applied, l.do("", startPlanning(id, 1, "w1")))
		l.must(Applied, l.do("", planJob(id, 1, twoStage(3))))
		return id
	}
	a, b := planned(), planned()
	try := func(id string, place func(int) string, change func(*commandpb.ScheduleRegions)) Result {
		c := scheduleAll(l.s.View(), id, place)
		if change != nil {
			change(c.GetScheduleRegions())
		}
		return l.do("", c)
	}
	over := func(i int) string { return []string{"w1", "w2", "w2"}[i] }
	l.must(Stale, try(a, on("w1"), nil))                                                                      // 3 slots on a worker with 2
	l.must(Stale, try(a, on("w9"), nil))                                                                      // no such worker
	l.must(Stale, try(a, over, func(c *commandpb.ScheduleRegions) { c.Assignments[0].Incarnation = 9 }))      // not this incarnation
	l.must(Refused, try(a, over, func(c *commandpb.ScheduleRegions) { c.Assignments[0].Worker = "w2" }))      // slot 0 on two workers
	l.must(Refused, try(a, over, func(c *commandpb.ScheduleRegions) { c.Assignments = c.Assignments[:5] }))   // a region in part
	l.must(Refused, try(a, over, func(c *commandpb.ScheduleRegions) { c.Assignments[0] = c.Assignments[1] })) // one subtask twice
	l.must(Stale, try(a, over, func(c *commandpb.ScheduleRegions) { c.Regions[0].Epoch = 2 }))                // of another epoch
	l.must(Stale, try(a, over, func(c *commandpb.ScheduleRegions) { c.JobEpoch = 2 }))                        // of another epoch
	l.must(Refused, try(a, over, func(c *commandpb.ScheduleRegions) { c.Regions[0].Region = 7 }))             // no such region
	if v := l.s.View(); v.UsedSlots("w1")+v.UsedSlots("w2") != 0 || l.job(a).Subtask(0, 0).Attempt != 0 {
		t.Fatal("a refused grant left something behind")
	}
	l.must(Applied, try(a, over, nil))
	l.must(Stale, try(a, over, func(c *commandpb.ScheduleRegions) { // scheduled already
		c.Regions = append(c.Regions, &taskpb.RegionEpoch{Epoch: 1})
		c.Assignments = append(c.Assignments, &commandpb.Assignment{Worker: "w1", Incarnation: 1})
	}))
	l.must(Stale, try(b, over, nil)) // one free slot
	if v := l.s.View(); v.UsedSlots("w1") != 1 || v.UsedSlots("w2") != 2 {
		t.Fatalf("%d and %d slots", v.UsedSlots("w1"), v.UsedSlots("w2"))
	}
	p := l.job(a)
	if p.Subtask(0, 0).Process == p.Subtask(0, 1).Process || p.Subtask(0, 1).Process != p.Subtask(1, 2).Process {
		t.Fatal("task processes are not one per worker")
	}
}

func TestReportsOfDeadAttemptsChangeNothing(t *testing.T) {
	l := newLog(t)
	l.must(Applied, l.do("", register("w1", 1, 2)))
	id := l.running(twoStage(2), on("w1"))
	old := report(l.job(id), jobpb.SubtaskState_SUBTASK_FINISHED, nil)
	l.must(Applied, l.do("", restart(l.job(id), jobpb.FailureKind_FAILURE_USER, 0)))
	// Fenced: whatever it says, its work is void.
	one := proto.CloneOf(old)
	one.GetUpdateSubtasks().Updates = one.GetUpdateSubtasks().Updates[:1]
	l.must(Applied, l.do("", one))
	if s := l.job(id).Subtask(0, 0); s.State != jobpb.SubtaskState_SUBTASK_CANCELLED {
		t.Fatal("a fenced attempt finished:", s)
	}
	l.must(Applied, l.do("", scheduleAll(l.s.View(), id, on("w1"))))
	r := l.must(Stale, l.do("", old))
	if j := l.job(id); j.Subtask(0, 1).Attempt != 2 || j.Subtask(0, 1).State != jobpb.SubtaskState_SUBTASK_SCHEDULED {
		t.Fatal(r, j.Subtask(0, 1))
	}
	// One live report among dead ones is taken.
	mixed := report(l.job(id), jobpb.SubtaskState_SUBTASK_RUNNING, nil)
	for _, u := range mixed.GetUpdateSubtasks().Updates[1:] {
		u.Attempt = 1
	}
	if r := l.must(Applied, l.do("", mixed)); r.Dropped != 3 {
		t.Fatal(r)
	}
}

func TestFailureHistoryKeepsTheCauseAmongItsEchoes(t *testing.T) {
	l := newLog(t)
	l.must(Applied, l.do("", register("w1", 1, 64)))
	id := l.running(twoStage(60), on("w1"))
	i := 0
	l.must(Applied, l.do("", report(l.job(id), jobpb.SubtaskState_SUBTASK_FAILED, func(u *taskpb.SubtaskUpdate) {
		u.Failure = &jobpb.Failure{Code: "E057", Kind: jobpb.FailureKind_FAILURE_LOSS, Message: "the other end is gone"}
		if i++; i == 40 {
			u.Failure = &jobpb.Failure{Code: "E051", Kind: jobpb.FailureKind_FAILURE_USER, Message: "panic", Position: "f.csv:3"}
		}
	})))
	fs := l.job(id).Failures()
	if len(fs) != MaxFailures || !slices.ContainsFunc(fs, func(f *jobpb.Failure) bool { return f.Code == "E051" && f.Position == "f.csv:3" && f.Worker == "w1" }) {
		t.Fatalf("%d failures, none of them the cause", len(fs))
	}
}

func TestOutputThatCannotBeKeptFailsLoudly(t *testing.T) {
	for name, c := range map[string]*jobpb.Committable{
		"of another sink":    {Sink: "elsewhere"},
		"of another subtask": {Sink: "out", Subtask: 1},
		"of the source":      {Sink: "in"},
	} {
		l := newLog(t)
		l.must(Applied, l.do("", register("w1", 1, 2)))
		id := l.running(twoStage(1), on("w1"))
		l.must(Applied, l.do("", report(l.job(id), jobpb.SubtaskState_SUBTASK_FINISHED, func(u *taskpb.SubtaskUpdate) {
			if u.Chain == 1 {
				u.Committables = []*jobpb.Committable{c}
			}
		})))
		j := l.job(id)
		if s := j.Subtask(1, 0); s.State != jobpb.SubtaskState_SUBTASK_FAILED || j.Failures()[0].Kind != jobpb.FailureKind_FAILURE_FATAL || len(j.Committables()) != 0 {
			t.Errorf("%s: %v", name, s)
		}
	}
	l := newLog(t)
	l.must(Applied, l.do("", register("w1", 1, 2)))
	id := l.running(twoStage(1), on("w1"))
	l.must(Applied, l.do("", report(l.job(id), jobpb.SubtaskState_SUBTASK_FINISHED, func(u *taskpb.SubtaskUpdate) {
		for range MaxOutputBytes/jobpb.MaxCommittable + 1 {
			if u.Chain == 1 {
				u.Committables = append(u.Committables, &jobpb.Committable{Sink: "out", Data: make([]byte, jobpb.MaxCommittable)})
			}
		}
	})))
	if j := l.job(id); j.Subtask(1, 0).State != jobpb.SubtaskState_SUBTASK_FAILED || len(j.Committables()) != 0 {
		t.Error("more output than can be kept was taken")
	}
}

func TestRestartTakesBackWhatAttemptsAchieved(t *testing.T) {
	l := newLog(t)
	l.must(Applied, l.do("", register("w1", 1, 4)))
	id := l.running(twoStage(2), on("w1"))
	l.must(Applied, l.do("", addSplits(l.job(id), 0, 3, true)))
	l.must(Applied, l.do("", assign(l.job(id), 0, 0, 0, 1)))
	finished := report(l.job(id), jobpb.SubtaskState_SUBTASK_FINISHED, func(u *taskpb.SubtaskUpdate) {
		if u.Chain == 1 {
			u.Committables = []*jobpb.Committable{{Sink: "out", Subtask: u.Index}}
		}
	})
	finished.GetUpdateSubtasks().Updates = finished.GetUpdateSubtasks().Updates[1:]
	l.must(Applied, l.do("", finished))
	if j := l.job(id); len(j.Committables()) != 2 || l.s.View().UsedSlots("w1") != 1 {
		t.Fatalf("%d parts, %d slots", len(j.Committables()), l.s.View().UsedSlots("w1"))
	}
	l.must(Applied, l.do("", restart(l.job(id), jobpb.FailureKind_FAILURE_USER, l.now+100)))
	j := l.job(id)
	src := j.Source(0)
	if len(j.Committables()) != 0 || j.Region(0).Epoch != 2 || j.Head().Restarts != 1 || src.Len() != 3 || src.Assigned() != 2 || !src.Complete() || len(src.Of(0)) != 2 {
		t.Fatalf("%d parts, epoch %d, %d restarts, %d of %d splits assigned", len(j.Committables()), j.Region(0).Epoch, j.Head().Restarts, src.Assigned(), src.Len())
	}
	if j.Subtask(1, 1).State != jobpb.SubtaskState_SUBTASK_CREATED || j.Subtask(0, 0).State != jobpb.SubtaskState_SUBTASK_RUNNING {
		t.Fatal("ended attempts must be forgotten, running ones must stay until they report")
	}
	l.must(Stale, l.do("", scheduleAll(l.s.View(), id, on("w1")))) // before the back-off has ended
	l.now += 100
	l.must(Applied, l.do("", scheduleAll(l.s.View(), id, on("w1"))))
	// An unfinished enumeration starts again from nothing.
	l.must(Stale, l.do("", addSplits(l.job(id), 3, 1, true)))
}

func TestUnfinishedEnumerationIsForgottenAtARestart(t *testing.T) {
	l := newLog(t)
	l.must(Applied, l.do("", register("w1", 1, 4)))
	id := l.running(twoStage(2), on("w1"))
	l.must(Applied, l.do("", addSplits(l.job(id), 0, 3, false)))
	late := addSplits(l.job(id), 3, 1, true)
	l.must(Stale, l.do("", addSplits(l.job(id), 1, 1, false)))
	l.must(Applied, l.do("", restart(l.job(id), jobpb.FailureKind_FAILURE_LOSS, 0)))
	if n := l.job(id).Source(0).Len(); n != 0 {
		t.Fatalf("%d splits of an unfinished enumeration are kept", n)
	}
	l.must(Stale, l.do("", late))
	l.must(Applied, l.do("", scheduleAll(l.s.View(), id, on("w1"))))
	l.must(Stale, l.do("", late)) // of an earlier epoch of the region
	l.must(Applied, l.do("", addSplits(l.job(id), 0, 1, true)))
}

func TestSplitHasOneOwner(t *testing.T) {
	l := newLog(t)
	l.must(Applied, l.do("", register("w1", 1, 4)))
	id := l.running(twoStage(2), on("w1"))
	l.must(Applied, l.do("", addSplits(l.job(id), 0, 3, true)))
	l.must(Stale, l.do("", assign(l.job(id), 0, 1))) // not the next one
	l.must(Applied, l.do("", assign(l.job(id), 0, 0)))
	l.must(Stale, l.do("", assign(l.job(id), 1, 0)))
	if r := l.must(Applied, l.do("", assign(l.job(id), 1, 0, 1, 1))); r.Dropped != 1 {
		t.Fatal(r)
	}
	dead := assign(l.job(id), 0, 2)
	dead.GetAssignSplits().Assignments[0].Attempt = 9
	l.must(Stale, l.do("", dead))
	l.must(Stale, l.do("", assign(l.job(id), 0, 3))) // there is none
	if s := l.job(id).Source(0); !slices.Equal(s.Of(0), []int32{0}) || !slices.Equal(s.Of(1), []int32{1}) {
		t.Fatal(s.Proto())
	}
	many := addSplits(l.job(id), 0, 1, false)
	many.GetAddSplits().Operator = 1
	l.must(Refused, l.do("", many)) // not a source
}

func TestTerminalJobIsNeverReanimated(t *testing.T) {
	l := newLog(t)
	l.must(Applied, l.do("", register("w1", 1, 4)))
	id := l.running(twoStage(2), on("w1"))
	commands := []*commandpb.Command{
		startPlanning(id, 2, "w1"), planJob(id, 1, twoStage(1)), report(l.job(id), jobpb.SubtaskState_SUBTASK_FINISHED, nil),
		restart(l.job(id), jobpb.FailureKind_FAILURE_USER, 0), failJob(l.job(id)), cancelJob(id), addSplits(l.job(id), 0, 1, false),
		{Command: &commandpb.Command_HoldJob{HoldJob: &commandpb.HoldJob{Job: id, JobEpoch: 1, Message: "x"}}},
		{Command: &commandpb.Command_RejectPlan{RejectPlan: &commandpb.RejectPlan{Job: id, Attempt: 1, Failure: &jobpb.Failure{}}}},
		{Command: &commandpb.Command_DeployCommitter{DeployCommitter: &commandpb.DeployCommitter{Job: id, JobEpoch: 1, Worker: "w1", Incarnation: 1}}},
		{Command: &commandpb.Command_ConfirmCommits{ConfirmCommits: &commandpb.ConfirmCommits{Job: id, JobEpoch: 1}}},
		scheduleAll(l.s.View(), id, on("w1")),
	}
	l.must(Applied, l.do("", failJob(l.job(id))))
	l.must(Stale, l.do("", endJob(l.job(id), ""))) // attempts can act
	l.must(Applied, l.do("", report(l.job(id), jobpb.SubtaskState_SUBTASK_CANCELLED, nil)))
	l.must(Applied, l.do("", endJob(l.job(id), "")))
	want := l.job(id).Proto()
	commands = append(commands, endJob(l.job(id), ""))
	for _, c := range commands {
		if r := l.do("", c); r.Status == Applied {
			t.Fatalf("%T was applied to a failed job", c.Command)
		}
	}
	if !proto.Equal(want, l.job(id).Proto()) {
		t.Fatal("a failed job changed")
	}
	forget := &commandpb.Command{Command: &commandpb.Command_ForgetJobs{ForgetJobs: &commandpb.ForgetJobs{Jobs: []string{id, "nobody-9"}}}}
	if r := l.must(Applied, l.do("", forget)); r.Dropped != 1 {
		t.Fatal(r)
	}
	if r := l.must(Refused, l.do("", cancelJob(id))); r.Code != CodeNoJob {
		t.Fatal(r)
	}
}

func TestTransitions(t *testing.T) {
	all := []jobpb.JobStatus{}
	for n := range jobpb.JobStatus_name {
		all = append(all, jobpb.JobStatus(n))
	}
	for _, from := range all {
		for _, to := range all {
			if err := status.Move(from, to); Terminal(from) && err == nil {
				t.Errorf("a terminal job moves: %s to %s", from, to)
			}
		}
	}
	err := status.Move(jobpb.JobStatus_JOB_RUNNING, jobpb.JobStatus_JOB_CREATED)
	if err == nil || !strings.Contains(err.Error(), "RUNNING") || !strings.Contains(err.Error(), "CREATED") {
		t.Error("an illegal transition does not name both statuses:", err)
	}
}

func TestCommittedTimeNeverFalls(t *testing.T) {
	l := newLog(t)
	l.do("", register("w1", 1, 1))
	l.now -= 500_000
	l.do("", register("w1", 2, 1))
	if got := l.s.View().TimeMicros(); got != 1_000_000 {
		t.Fatalf("committed time fell to %d", got)
	}
}

func TestLeadersAndNodes(t *testing.T) {
	l := newLog(t)
	elected := func(id string, term uint64) *commandpb.Command {
		return &commandpb.Command{Command: &commandpb.Command_LeaderElected{LeaderElected: &commandpb.LeaderElected{Id: id, Term: term}}}
	}
	l.must(Applied, l.do("", elected("c1", 2)))
	l.must(Stale, l.do("", elected("c2", 2)))
	l.must(Stale, l.do("", elected("c2", 1)))
	l.must(Applied, l.do("", elected("c2", 3)))
	if v := l.s.View(); v.Leader() != "c2" || v.Term() != 3 {
		t.Fatal(v.Leader(), v.Term())
	}
	node := &commandpb.Command{Command: &commandpb.Command_PutNode{PutNode: &commandpb.PutNode{Node: &commandpb.Node{Id: "c1", ApiAddress: "a:1"}}}}
	l.must(Applied, l.do("", node))
	l.must(Stale, l.do("", node))
	remove := &commandpb.Command{Command: &commandpb.Command_RemoveNode{RemoveNode: &commandpb.RemoveNode{Id: "c1"}}}
	l.must(Applied, l.do("", remove))
	l.must(Stale, l.do("", remove))
	initial := &commandpb.Command{Command: &commandpb.Command_InitCluster{InitCluster: &commandpb.InitCluster{Cluster: "x"}}}
	l.must(Applied, l.do("", initial))
	l.must(Stale, l.do("", initial))
}

func TestEventsAreBounded(t *testing.T) {
	l := newLog(t)
	for i := range MaxEvents + 10 {
		l.do("", register("w1", uint64(i+1), 1))
	}
	n, last := 0, uint64(0)
	for e := range l.s.View().Events(0) {
		if e.Index <= last {
			t.Fatal("events are out of order")
		}
		n, last = n+1, e.Index
	}
	if n != MaxEvents || last != l.index {
		t.Fatalf("%d events, newest at %d of %d", n, last, l.index)
	}
	for e := range l.s.View().Events(l.index - 2) {
		if e.Index != l.index {
			t.Fatal("an older event")
		}
	}
}

func TestHeadIsCopiedWhole(t *testing.T) {
	apart := []string{"plan", "regions", "subtasks", "failures", "committables", "history", "slots", "checkpoints"} // kept beside the head
	h := &jobpb.Job{}
	fields := h.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if slices.Contains(apart, string(f.Name())) {
			continue
		}
		m := h.ProtoReflect()
		switch f.Kind() {
		case protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString("x"))
		case protoreflect.Int64Kind:
			m.Set(f, protoreflect.ValueOfInt64(1))
		case protoreflect.Int32Kind:
			m.Set(f, protoreflect.ValueOfInt32(1))
		case protoreflect.Uint64Kind:
			m.Set(f, protoreflect.ValueOfUint64(1))
		case protoreflect.Uint32Kind:
			m.Set(f, protoreflect.ValueOfUint32(1))
		case protoreflect.EnumKind:
			m.Set(f, protoreflect.ValueOfEnum(1))
		case protoreflect.MessageKind:
			m.Mutable(f)
		default:
			t.Fatalf("field %s has kind %s", f.Name(), f.Kind())
		}
	}
	if c := copyHead(h); !proto.Equal(c, h) {
		t.Errorf("copyHead loses fields:\n%v\n%v", h, c)
	}
	s := &jobpb.Subtask{Chain: 1, Index: 2, Attempt: 3, Worker: "w", Incarnation: 4, Process: 5, State: 6, Region: 7, StartedUs: 8, EndedUs: 9,
		Counters: &jobpb.Counters{RecordsIn: 10}, Partitions: []*jobpb.Partition{{Edge: 11}}, Produced: true, Loaded: true, Settled: true}
	if n := s.ProtoReflect().Descriptor().Fields().Len(); n != 15 || !proto.Equal(copySubtask(s), s) {
		t.Errorf("copySubtask loses fields of %d", n)
	}
}

func TestJobNames(t *testing.T) {
	for in, want := range map[string]string{
		"wordcount": "wordcount", "My Job!": "my-job", "../../etc": "etc", "": "job", "ÄÖ": "job", "a--b": "a-b", "-x-": "x",
		strings.Repeat("long", 30): strings.Repeat("long", 10),
	} {
		if got := jobid.Name(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
