package restore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"testing"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/snapshot/mem"
	"github.com/sluiceio/sluice/worker/state"
)

const groups = 8

// table takes what is imported: of each key group the value that came last.
type table struct {
	state.Table
	got map[int]byte
}

func (x *table) Import(_ context.Context, chain []*chunk.Reader, first, end int) error {
	for _, r := range chain {
		for e, err := range r.Read(first, end) {
			if err != nil {
				return err
			}
			x.got[e.Group] = e.Value[0]
		}
	}
	return nil
}

// chunkOf has one key in each key group of [first, end), with this value.
func chunkOf(t *testing.T, first, end int, value byte) []byte {
	t.Helper()
	w, err := chunk.NewWriter(chunk.Header{MaxParallelism: groups, Table: "t", Scope: chunk.Keyed, Key: "i64", States: []chunk.State{{Name: "n", Kind: chunk.Value, Value: "i64"}}})
	if err != nil {
		t.Fatal(err)
	}
	for g := first; g < end; g++ {
		if err := w.Add(&chunk.Entry{Group: g, Key: []byte{byte(g)}, Value: []byte{value}}); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestAnOlderPartOfANeighbourHidesNothing restores what a change of parallelism has left behind: two subtasks name the chunk of the
// one that was there before, each for its half, and each has written since.
func TestAnOlderPartOfANeighbourHidesNothing(t *testing.T) {
	store := mem.New()
	var objects []*jobpb.StoredObject
	put := func(n int, data []byte) string {
		name := snapshot.Segment("job-1", 1, 7, 3, n)
		o, err := store.Put(t.Context(), name, int64(len(data)), bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, &jobpb.StoredObject{Object: o, Stores: []string{snapshot.SharedStore}})
		return string(name)
	}
	part := func(segment string, first, end int32) *snapshotpb.Part {
		for _, o := range objects {
			if o.Object.Name == segment {
				return &snapshotpb.Part{Segment: segment, Size: o.Object.Size, Table: "t", First: first, End: end, Scope: int32(chunk.Keyed)}
			}
		}
		t.Fatal(segment)
		return nil
	}
	before := put(0, chunkOf(t, 0, groups, 1))
	left, right := put(1, chunkOf(t, 0, 4, 2)), put(2, chunkOf(t, 4, groups, 3))
	m := &snapshotpb.Manifest{
		Version: snapshot.ManifestVersion, Job: "job-1", JobEpoch: 1, Checkpoint: 3,
		Plan: &jobpb.Plan{
			Graph:   &jobpb.Graph{MaxParallelism: groups, Operators: []*jobpb.Operator{{Id: "count"}}},
			Chains:  []*jobpb.Chain{{Operators: []int32{0}, Parallelism: 2}},
			Regions: []*jobpb.Region{{Checkpointed: true, Subtasks: []*jobpb.SubtaskRange{{Count: 2}}}},
		},
		Subtasks: []*snapshotpb.SubtaskState{
			{Index: 0, Status: snapshotpb.SubtaskStatus_RUNNING, Operators: []*snapshotpb.OperatorState{{Operator: "count", Parts: []*snapshotpb.Part{part(before, 0, 4), part(left, 0, 4)}}}},
			{Index: 1, Status: snapshotpb.SubtaskStatus_RUNNING, Operators: []*snapshotpb.OperatorState{{Operator: "count", Parts: []*snapshotpb.Part{part(before, 4, groups), part(right, 4, groups)}}}},
		},
	}
	for _, o := range objects {
		m.Objects = append(m.Objects, o.Object)
	}
	data, err := snapshot.EncodeManifest(m)
	if err != nil {
		t.Fatal(err)
	}
	name := snapshot.Manifest("job-1", 1, 3, 1)
	if _, err := store.Put(t.Context(), name, int64(len(data)), bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	from := &taskpb.Restore{Checkpoint: 3, Manifest: &jobpb.StoredObject{Object: &jobpb.Object{Name: string(name), Size: int64(len(data)), Digest: sum[:]}}, Objects: objects}
	for _, own := range [][2]int{{0, groups}, {0, 4}, {4, groups}, {2, 6}} {
		c := New(snapshot.Shared(store), from)
		x := &table{got: map[int]byte{}}
		if err := errors.Join(c.Tables(t.Context(), "count", own[0], own[1], []state.Table{x}), c.Close()); err != nil {
			t.Fatal(err)
		}
		for g := own[0]; g < own[1]; g++ {
			want := byte(2)
			if g >= 4 {
				want = 3
			}
			if x.got[g] != want {
				t.Errorf("restored [%d, %d): key group %d has value %d, want %d", own[0], own[1], g, x.got[g], want)
			}
		}
		if len(x.got) != own[1]-own[0] {
			t.Errorf("restored [%d, %d): %d key groups", own[0], own[1], len(x.got))
		}
	}
}
