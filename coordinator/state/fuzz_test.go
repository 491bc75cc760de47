package state

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// busy is a log that leaves jobs in many statuses behind: soil for whatever a fuzzer invents.
func busy(t *testing.T) *log {
	l := newLog(t)
	l.do("", &commandpb.Command{Command: &commandpb.Command_InitCluster{InitCluster: &commandpb.InitCluster{Cluster: "c"}}})
	l.do("", register("w1", 1, 20))
	l.running(twoStage(2), on("w1"))
	half := l.running(twoStage(2), on("w1"))
	l.do("", addSplits(l.job(half), 0, 4, true))
	l.do("", assign(l.job(half), 0, 0, 1, 1))
	finishing := l.running(twoStage(1), on("w1"))
	l.do("", report(l.job(finishing), jobpb.SubtaskState_SUBTASK_FINISHED, func(u *taskpb.SubtaskUpdate) {
		if u.Chain == 1 {
			u.Committables = []*jobpb.Committable{{Sink: "out", Data: []byte("x")}}
		}
	}))
	restarting := l.running(twoStage(2), on("w1"))
	l.do("", restart(l.job(restarting), jobpb.FailureKind_FAILURE_USER, l.now+1000))
	failing := l.running(twoStage(1), on("w1"))
	l.do("", failJob(l.job(failing)))
	l.do("", endJob(l.job(failing), ""))
	cancelling := l.running(twoStage(1), on("w1"))
	l.do("r-cancel", cancelJob(cancelling))
	l.do("r-created", submit("created"))
	storing := l.running(stages(2), on("w1"))
	l.chainDone(storing, 0)
	l.do("", only(report(l.job(storing), jobpb.SubtaskState_SUBTASK_FAILED, func(u *taskpb.SubtaskUpdate) {
		u.Failure = &jobpb.Failure{Code: "E121", Kind: jobpb.FailureKind_FAILURE_LOSS, Lost: []*jobpb.PartitionRef{ref(0, 1, 1)}}
	}), 1, 0))
	lost := restartOf(l.job(storing), []int32{1, 2}, ref(0, 0, 1))
	lost.GetRestartRegions().Reordered = []int32{0}
	l.do("", lost)
	return l
}

// FuzzApplyBytes: whatever stands in the log, nodes answer alike, do not panic, and can save and load what comes of it.
func FuzzApplyBytes(f *testing.F) {
	t := &testing.T{}
	for _, entry := range busy(t).data {
		f.Add(entry)
	}
	for _, c := range []*commandpb.Command{
		lose("w1", 1), endJob(busy(t).job("two-1"), "note"), restart(busy(t).job("two-1"), jobpb.FailureKind_FAILURE_LOSS, 0),
		scheduleAll(busy(t).s.View(), "two-4", on("w1")), assign(busy(t).job("two-2"), 0, 2), addSplits(busy(t).job("two-1"), 0, 1, true),
		release(busy(t).job("two-8"), ref(0, 0, 1)), restartOf(busy(t).job("two-8"), []int32{0}, ref(0, 1, 1)),
		report(busy(t).job("two-8"), jobpb.SubtaskState_SUBTASK_FINISHED, nil), scheduleAll(busy(t).s.View(), "two-8", on("w1")),
	} {
		b, err := proto.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, entry []byte) {
		a, b := busy(t), busy(t)
		ra, rb := a.s.ApplyBytes(a.index+1, 1, entry), b.s.ApplyBytes(b.index+1, 1, entry)
		if ra != rb || a.s.Chain() != b.s.Chain() {
			t.Fatalf("two nodes differ: %s and %s", ra, rb)
		}
		if ra.Status != Halt && a.s.View().Index() != a.index+1 {
			t.Fatalf("%s did not advance the index", ra)
		}
		var saved, again bytes.Buffer
		if err := a.s.View().Save(&saved); err != nil {
			t.Fatal(err)
		}
		loaded, err := Load(bytes.NewReader(saved.Bytes()))
		if err != nil {
			t.Fatalf("after %s: %v", ra, err)
		}
		if err := loaded.View().Save(&again); err != nil || !bytes.Equal(saved.Bytes(), again.Bytes()) {
			t.Fatalf("after %s: the round trip changed the facts (%v)", ra, err)
		}
	})
}

// FuzzLoad: bytes that are no snapshot are an error; those that are one are saved as they were.
func FuzzLoad(f *testing.F) {
	var b bytes.Buffer
	if err := busy(&testing.T{}).s.View().Save(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(b.Bytes()[:b.Len()/2])
	f.Add([]byte("SLUICEST"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Load(bytes.NewReader(data))
		if err != nil {
			return
		}
		s.Apply(s.View().Index()+1, 1, register("w7", 1, 1))
	})
}

// FuzzRecords goes past checksums and digest: records are taken as they are.
func FuzzRecords(f *testing.F) {
	l := busy(&testing.T{})
	v := l.s.View()
	for j := range v.Jobs() {
		for _, r := range append([]*commandpb.Record{{Record: &commandpb.Record_Job{Job: j.Proto()}}}, sources(j)...) {
			b, err := proto.Marshal(r)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &commandpb.Record{}
		if proto.Unmarshal(data, r) != nil {
			return
		}
		ld := &loader{v: View{nextJob: 100, index: 1000}}
		if ld.take(r) != nil {
			return
		}
		if p := r.GetJob(); p != nil {
			if ld.take(&commandpb.Record{Record: &commandpb.Record_Source{Source: &jobpb.SourceState{Job: p.Id, Splits: []*jobpb.Split{{Id: "s"}}}}}) == nil {
				s := from(&ld.v)
				s.Apply(2000, 1, cancelJob(p.Id))
				s.Apply(2001, 1, endJob(s.View().Job(p.Id), "note"))
			}
		}
	})
}

func sources(j *Job) (rs []*commandpb.Record) {
	for _, s := range j.Sources() {
		rs = append(rs, &commandpb.Record{Record: &commandpb.Record_Source{Source: s.Proto()}})
	}
	return rs
}

func TestDamagedSnapshotIsRefused(t *testing.T) {
	l := busy(t)
	var b bytes.Buffer
	if err := l.s.View().Save(&b); err != nil {
		t.Fatal(err)
	}
	good := b.Bytes()
	for i := 0; i < len(good); i += max(1, len(good)/199) {
		bad := bytes.Clone(good)
		bad[i] ^= 0x40
		if _, err := Load(bytes.NewReader(bad)); err == nil {
			t.Fatalf("a flipped bit in byte %d of %d was not noticed", i, len(good))
		}
		if _, err := Load(bytes.NewReader(good[:i])); err == nil {
			t.Fatalf("a snapshot cut after %d of %d bytes was taken", i, len(good))
		}
	}
	if _, err := Load(bytes.NewReader(append(bytes.Clone(good), 0))); err == nil {
		t.Fatal("a snapshot with something behind it was taken")
	}
	loaded, err := Load(bytes.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Chain() != l.s.Chain() || loaded.View().Index() != l.index {
		t.Fatal("chain or index were lost")
	}
	// Both go on alike.
	next := register("w9", 1, 3)
	if loaded.Apply(l.index+1, 1, next) != l.s.Apply(l.index+1, 1, next) || loaded.Chain() != l.s.Chain() {
		t.Fatal("a loaded node differs from one that never stopped")
	}
}

func BenchmarkUpdateOneOfTenThousand(b *testing.B) {
	t := &testing.T{}
	l := newLog(t)
	l.do("", register("w1", 1, 4096))
	id := l.running(twoStage(4096), on("w1"))
	l.do("", restart(l.job(id), jobpb.FailureKind_FAILURE_LOSS, 0))
	l.do("", scheduleAll(l.s.View(), id, on("w1")))
	i := int32(0)
	for b.Loop() {
		if i == 4096 {
			b.StopTimer()
			l.do("", restart(l.job(id), jobpb.FailureKind_FAILURE_LOSS, 0))
			l.do("", scheduleAll(l.s.View(), id, on("w1")))
			i = 0
			b.StartTimer()
		}
		j := l.job(id)
		s := j.Subtask(1, i)
		l.index++
		r := l.s.Apply(l.index, 1, &commandpb.Command{TimeUs: l.now, Command: &commandpb.Command_UpdateSubtasks{UpdateSubtasks: &commandpb.UpdateSubtasks{
			Job: id, JobEpoch: 1, Updates: []*taskpb.SubtaskUpdate{{Chain: 1, Index: i, Attempt: s.Attempt, RegionEpoch: j.Region(0).Epoch, State: jobpb.SubtaskState_SUBTASK_RUNNING}}}}})
		if r.Status != Applied {
			b.Fatal(r)
		}
		i++
	}
}

// A view costs nothing, however much it holds; the alternative copies every map.
func BenchmarkView(b *testing.B) {
	l := busy(&testing.T{})
	for b.Loop() {
		if l.s.View().Index() == 0 {
			b.Fatal("no view")
		}
	}
}

func BenchmarkSaveTenThousandSubtasks(b *testing.B) {
	l := newLog(&testing.T{})
	l.do("", register("w1", 1, 4096))
	l.running(twoStage(4096), on("w1"))
	for b.Loop() {
		var w bytes.Buffer
		if err := l.s.View().Save(&w); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(w.Len()))
	}
}
