package state

import (
	"bytes"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// endless is twoStage over a source that never ends: its readers are one region.
func endless(n int32) *jobpb.Plan {
	p := twoStage(n)
	p.Graph.Operators[0].Bounded = false
	return p
}

func TestSplitsOfABoundedSourceAreGivenAwayWhenAllAreKnown(t *testing.T) {
	l, id := staged(t, 2)
	l.must(Applied, l.do("", addSplits(l.job(id), 0, 3, false)))
	l.must(Stale, l.do("", assign(l.job(id), 0, 0)))
	l.must(Applied, l.do("", addSplits(l.job(id), 3, 1, true)))
	l.must(Applied, l.do("", assign(l.job(id), 0, 0)))
	if s := l.job(id).Source(0); !s.Bounded() || s.Len() != 4 || s.Assigned() != 1 {
		t.Fatal(s.Proto())
	}
	// An endless source never knows all.
	other := newLog(t)
	other.must(Applied, other.do("", register("w1", 1, 2)))
	id = other.running(endless(2), on("w1"))
	other.must(Applied, other.do("", addSplits(other.job(id), 0, 3, false)))
	other.must(Applied, other.do("", assign(other.job(id), 0, 0)))
}

func TestASplitOfABoundedSourceBelongsToItsSubtaskForGood(t *testing.T) {
	l, id := staged(t, 2)
	l.must(Applied, l.do("", addSplits(l.job(id), 0, 4, true)))
	l.must(Applied, l.do("", assign(l.job(id), 1, 0, 0, 1, 1, 2)))
	old := assign(l.job(id), 1, 3)
	// The reader restarts, in a region of its own: it gets the same splits again, in the same order.
	l.must(Applied, l.do("", restartOf(l.job(id), []int32{1})))
	l.must(Stale, l.do("", old)) // its attempt is fenced
	l.must(Applied, l.do("", only(report(l.job(id), jobpb.SubtaskState_SUBTASK_CANCELLED, nil), 0, 1)))
	l.must(Applied, l.do("", scheduleAll(l.s.View(), id, on("w1"))))
	l.must(Stale, l.do("", old)) // its attempt is over
	if s := l.job(id).Source(0); !slices.Equal(s.Of(1), []int32{0, 2}) || !slices.Equal(s.Of(0), []int32{1}) || s.RegionEpoch() != 1 {
		t.Fatal(s.Proto())
	}
	// The enumerator's region restarts. What it found stays, and so do all assignments; a reader elsewhere gets more.
	l.must(Applied, l.do("", restartOf(l.job(id), []int32{0})))
	if s := l.job(id).Source(0); s.Len() != 4 || s.Assigned() != 3 || !s.Complete() || s.RegionEpoch() != 2 {
		t.Fatal(s.Proto())
	}
	more := assign(l.job(id), 1, 3)
	more.GetAssignSplits().RegionEpoch = 77 // the attempt says it all
	l.must(Applied, l.do("", more))
	if s := l.job(id).Source(0); !slices.Equal(s.Of(1), []int32{0, 2, 3}) {
		t.Fatal(s.Proto())
	}
	var saved bytes.Buffer
	if err := l.s.View().Save(&saved); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(&saved)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := loaded.View().Source(id, 0), l.s.View().Source(id, 0); !proto.Equal(a.Proto(), b.Proto()) || a.Bounded() != b.Bounded() {
		t.Fatal("a snapshot forgot assignments")
	}
}

func TestAnUnfinishedListIsForgottenWithItsEnumeratorAndReadersWaitOn(t *testing.T) {
	l, id := staged(t, 2)
	l.must(Applied, l.do("", addSplits(l.job(id), 0, 2, false)))
	late := addSplits(l.job(id), 2, 1, true)
	l.must(Applied, l.do("", restartOf(l.job(id), []int32{1}))) // a reader's region concerns nobody
	if n := l.job(id).Source(0).Len(); n != 2 {
		t.Fatalf("%d splits are known", n)
	}
	l.must(Applied, l.do("", restartOf(l.job(id), []int32{0})))
	if s := l.job(id).Source(0); s.Len() != 0 || s.Bytes() != 0 || s.RegionEpoch() != 2 {
		t.Fatal(s.Proto())
	}
	l.must(Stale, l.do("", late))
	l.must(Applied, l.do("", scheduleAll(l.s.View(), id, on("w1"))))
	l.must(Stale, l.do("", late)) // of an enumerator that is no more
	l.must(Applied, l.do("", addSplits(l.job(id), 0, 1, true)))
	l.must(Applied, l.do("", assign(l.job(id), 1, 0)))
}

func TestAnEndlessSourceTakesItsSplitsBackAtARestart(t *testing.T) {
	l := newLog(t)
	l.must(Applied, l.do("", register("w1", 1, 2)))
	id := l.running(endless(2), on("w1"))
	l.must(Applied, l.do("", addSplits(l.job(id), 0, 2, false)))
	l.must(Applied, l.do("", assign(l.job(id), 0, 0, 1, 1)))
	old := addSplits(l.job(id), 2, 1, false)
	l.must(Applied, l.do("", restart(l.job(id), jobpb.FailureKind_FAILURE_LOSS, 0)))
	if s := l.job(id).Source(0); s.Len() != 0 || s.Assigned() != 0 || len(s.Of(0)) != 0 {
		t.Fatal(s.Proto())
	}
	l.must(Applied, l.do("", scheduleAll(l.s.View(), id, on("w1"))))
	l.must(Stale, l.do("", old))
	l.must(Applied, l.do("", addSplits(l.job(id), 0, 1, false)))
	void := assign(l.job(id), 0, 0)
	void.GetAssignSplits().RegionEpoch = 1
	l.must(Stale, l.do("", void))
	l.must(Applied, l.do("", assign(l.job(id), 0, 0)))
}

func TestPhasesOfSplitsAreKept(t *testing.T) {
	l, id := staged(t, 1)
	c := addSplits(l.job(id), 0, 2, true)
	c.GetAddSplits().Splits[1].Phase = 3
	l.must(Applied, l.do("", c))
	if s := l.job(id).Source(0); s.Split(0).Phase != 0 || s.Split(1).Phase != 3 {
		t.Fatal(s.Proto())
	}
}

func TestSnapshotsWithSplitsAssignedTooEarlyAreRefused(t *testing.T) {
	l, id := staged(t, 1)
	l.must(Applied, l.do("", addSplits(l.job(id), 0, 1, true)))
	l.must(Applied, l.do("", assign(l.job(id), 0, 0)))
	for _, complete := range []bool{true, false} {
		ld := &loader{v: View{nextJob: 100, index: 1 << 20}}
		if err := ld.takeJob(l.job(id).Proto()); err != nil {
			t.Fatal(err)
		}
		p := l.job(id).Source(0).Proto()
		p.Complete = complete
		if err := ld.take(&commandpb.Record{Record: &commandpb.Record_Source{Source: p}}); (err == nil) != complete {
			t.Errorf("complete: %t: %v", complete, err)
		}
	}
}
