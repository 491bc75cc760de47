package snapshot_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/snapshot/mem"
)

const goldenJob = "golden-1"

// states has a state of every kind.
func states() chunk.Header {
	return chunk.Header{MaxParallelism: 8, Table: "t", Scope: chunk.Keyed, Space: "i64", Key: "i64", States: []chunk.State{
		{Name: "value", Kind: chunk.Value, Value: "i64"}, {Name: "list", Kind: chunk.List, Sub: "u32", Value: "str", TTL: time.Hour},
		{Name: "map", Kind: chunk.Map, Sub: "str", Value: "i64"}, {Name: "event", Kind: chunk.EventTimer, Value: `{"At":i64,"Seq":u64,"Cover":u64}`},
		{Name: "proc", Kind: chunk.ProcTimer, Value: `{"At":i64,"Seq":u64,"Cover":u64}`}, {Name: "events", Kind: chunk.EventTimers, Sub: "i64", Value: "u64"},
		{Name: "procs", Kind: chunk.ProcTimers, Sub: "i64", Value: "u64"},
	}}
}

func chunkOf(t *testing.T, scope chunk.Scope) *chunk.Writer {
	t.Helper()
	h := states()
	h.Scope = scope
	w, err := chunk.NewWriter(h)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range h.States {
		e := &chunk.Entry{Group: i, State: i, Space: []byte{1}, Key: []byte{2}, Value: []byte{84}}
		if s.Sub != "" {
			e.Sub = []byte{1}
		}
		if err := w.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Add(&chunk.Entry{Group: 7, Op: chunk.Drop, Space: []byte{7}}),
		w.Add(&chunk.Entry{Group: 7, Op: chunk.Delete, Space: []byte{7}, Key: []byte{3}})); err != nil {
		t.Fatal(err)
	}
	return w
}

const scopes = 4

// write makes a snapshot with a chunk of every scope, each in a segment of its own or all in one.
func write(t *testing.T, stores snapshot.Stores, each bool) (*snapshotpb.Manifest, []*jobpb.StoredObject) {
	t.Helper()
	state := &snapshotpb.SubtaskState{Status: snapshotpb.SubtaskStatus_RUNNING, Operators: []*snapshotpb.OperatorState{{Operator: "count"}}}
	var objects []*jobpb.StoredObject
	var open bytes.Buffer
	for s := chunk.Keyed; s <= chunk.Broadcast; s++ {
		name := snapshot.Segment(goldenJob, 1, 7, 3, len(objects))
		p := &snapshotpb.Part{Segment: string(name), Offset: int64(open.Len()), Table: fmt.Sprint("t", s), First: 0, End: 8}
		var err error
		if p.Size, err = chunkOf(t, s).WriteTo(&open); err != nil {
			t.Fatal(err)
		}
		state.Operators[0].Parts = append(state.Operators[0].Parts, p)
		if !each && s < chunk.Broadcast {
			continue
		}
		u, err := stores.Create(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := open.WriteTo(u); err != nil {
			t.Fatal(err)
		}
		o, err := u.Commit(t.Context(), nil, 1)
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	m, err := snapshot.Compose(nil, snapshot.ComposeInput{
		Job: goldenJob, JobEpoch: 1, Checkpoint: 3, Kind: jobpb.CheckpointKind_CHECKPOINT_PERIODIC, TimeUs: 1, Regions: []int32{0},
		Plan: &jobpb.Plan{
			Graph:   &jobpb.Graph{Name: "golden", MaxParallelism: 8, Operators: []*jobpb.Operator{{Id: "count"}}},
			Chains:  []*jobpb.Chain{{Operators: []int32{0}, Parallelism: 1}},
			Regions: []*jobpb.Region{{Checkpointed: true, Subtasks: []*jobpb.SubtaskRange{{Count: 1}}}},
		},
		Acks: []snapshot.Acknowledged{{Process: 7, Ack: &snapshotpb.Ack{Checkpoint: 3, Attempt: 1, State: state, Segments: objects}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m, objects
}

func TestCheckTellsWhatIsWrongWithEachObject(t *testing.T) {
	store := mem.New()
	m, objects := write(t, snapshot.Shared(store), true)
	check := func() []snapshot.Finding {
		f, err := snapshot.Check(t.Context(), []*snapshotpb.Manifest{m}, snapshot.Shared(store), objects, nil)
		if err != nil || len(f) != scopes {
			t.Fatalf("%d findings, %v", len(f), err)
		}
		return f
	}
	for _, f := range check() {
		if f.Verdict != snapshot.Intact || f.Parts != 1 || f.Entries != 9 || f.Store != snapshot.SharedStore {
			t.Errorf("%+v", f)
		}
	}
	change := func(i int, f func([]byte) []byte) {
		name := snapshot.Name(m.Objects[i].Name)
		r, err := store.Open(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, r.Size())
		if _, err := r.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
		if err := store.Delete(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if b = f(b); b == nil {
			return
		}
		if _, err := store.Put(t.Context(), name, int64(len(b)), bytes.NewReader(b)); err != nil {
			t.Fatal(err)
		}
	}
	change(0, func([]byte) []byte { return nil })
	change(1, func(b []byte) []byte { return b[:len(b)-1] })
	change(2, func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
	for i, want := range []snapshot.Verdict{snapshot.Missing, snapshot.Short, snapshot.Damaged, snapshot.Intact} {
		if f := check()[i]; f.Verdict != want {
			t.Errorf("%s is %s (%v), want %s", f.Object.Name, f.Verdict, f.Cause, want)
		}
	}
}

var golden = flag.Bool("golden", false, "rewrite the golden snapshot")

// TestGolden: a snapshot of this version stays readable, byte for byte. The files are rewritten by
//
//	go test ./snapshot -run TestGolden -golden
//
// when a format of a new version gets files of its own; the old ones stay.
func TestGolden(t *testing.T) {
	store := mem.New()
	m, objects := write(t, snapshot.Shared(store), false)
	encoded, err := snapshot.EncodeManifest(m)
	if err != nil {
		t.Fatal(err)
	}
	r, err := store.Open(t.Context(), snapshot.Name(objects[0].Object.Name))
	if err != nil {
		t.Fatal(err)
	}
	written := make([]byte, r.Size())
	if _, err := r.ReadAt(written, 0); err != nil {
		t.Fatal(err)
	}
	for file, now := range map[string][]byte{"v1.manifest": encoded, "v1.segment": written} {
		file = filepath.Join("testdata", file)
		if *golden {
			if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(file, now, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		stored, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(stored, now) {
			t.Errorf("%s: the format changed without a new version", file)
		}
	}
	stored, err := os.ReadFile("testdata/v1.manifest")
	if err != nil {
		t.Fatal(err)
	}
	again, err := snapshot.DecodeManifest(stored)
	if err != nil {
		t.Fatal(err)
	}
	segment, err := os.ReadFile("testdata/v1.segment")
	if err != nil {
		t.Fatal(err)
	}
	kept := mem.New()
	if _, err := kept.Put(t.Context(), snapshot.Name(again.Objects[0].Name), int64(len(segment)), bytes.NewReader(segment)); err != nil {
		t.Fatal(err)
	}
	f, err := snapshot.Check(t.Context(), []*snapshotpb.Manifest{again}, snapshot.Shared(kept), nil, nil)
	if err != nil || len(f) != 1 || f[0].Verdict != snapshot.Intact || f[0].Parts != scopes || f[0].Entries != 9*scopes {
		t.Errorf("the golden snapshot: %+v, %v", f, err)
	}
}
