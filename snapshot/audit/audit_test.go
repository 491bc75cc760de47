package audit

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/bundle"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/snapshot/fs"
)

const job = "clicks-7"

// disk is a worker's data directory.
func disk(t *testing.T) (string, *fs.Store) {
	t.Helper()
	dir := t.TempDir()
	s, err := fs.Open(vfs.OS{}, filepath.Join(dir, "snapshots"))
	if err != nil {
		t.Fatal(err)
	}
	return dir, s
}

func put(t *testing.T, name snapshot.Name, data []byte, stores ...*fs.Store) (o *jobpb.Object) {
	t.Helper()
	var err error
	for _, s := range stores {
		if o, err = s.Put(t.Context(), name, int64(len(data)), bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

func chunkOf(t *testing.T) []byte {
	t.Helper()
	w, err := chunk.NewWriter(chunk.Header{MaxParallelism: 8, Table: "t", Scope: chunk.Keyed, Key: "i64", States: []chunk.State{{Name: "n", Kind: chunk.Value, Value: "i64"}}})
	if err != nil {
		t.Fatal(err)
	}
	for g := range 8 {
		if err := w.Add(&chunk.Entry{Group: g, Key: []byte{byte(g)}, Value: bytes.Repeat([]byte{2}, 200)}); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// checkpoint stores a checkpoint of two segments, of which the first lies in one[0:] and the second in two[0:], its manifest in both.
func checkpoint(t *testing.T, id uint64, kind jobpb.CheckpointKind, one, two []*fs.Store) *jobpb.Object {
	t.Helper()
	state := &snapshotpb.SubtaskState{Status: snapshotpb.SubtaskStatus_RUNNING, Operators: []*snapshotpb.OperatorState{{Operator: "count"}}}
	m := &snapshotpb.Manifest{
		Version: snapshot.ManifestVersion, Job: job, JobEpoch: 1, Checkpoint: id, Kind: kind, Subtasks: []*snapshotpb.SubtaskState{state},
		Plan: &jobpb.Plan{
			Graph:   &jobpb.Graph{MaxParallelism: 8, Operators: []*jobpb.Operator{{Id: "count"}}},
			Chains:  []*jobpb.Chain{{Operators: []int32{0}, Parallelism: 1}},
			Regions: []*jobpb.Region{{Checkpointed: true, Subtasks: []*jobpb.SubtaskRange{{Count: 1}}}},
		},
	}
	for n, stores := range [][]*fs.Store{one, two} {
		o := put(t, snapshot.Segment(job, 1, 4, id, n), chunkOf(t), stores...)
		m.Objects = append(m.Objects, o)
		state.Operators[0].Parts = append(state.Operators[0].Parts, &snapshotpb.Part{Segment: o.Name, Size: o.Size, Table: "t", End: 8})
	}
	data, err := snapshot.EncodeManifest(m)
	if err != nil {
		t.Fatal(err)
	}
	return put(t, snapshot.Manifest(job, 1, id, 2), data, append(slices.Clone(one), two...)...)
}

const periodic, savepoint = jobpb.CheckpointKind_CHECKPOINT_PERIODIC, jobpb.CheckpointKind_CHECKPOINT_SAVEPOINT

// file finds the file of an object.
func file(t *testing.T, dir string, name snapshot.Name) string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "snapshots", string(name)+"@*"))
	if err != nil || len(list) != 1 {
		t.Fatal(name, list, err)
	}
	return list[0]
}

func change(t *testing.T, file string, f func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, f(b), 0o644); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, dirs ...string) *Report {
	t.Helper()
	r, err := Run(t.Context(), vfs.OS{}, dirs)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// find is what the report says of an object in a directory.
func find(t *testing.T, r *Report, dir string, name snapshot.Name) Object {
	t.Helper()
	for _, o := range r.Objects {
		if o.Name == string(name) && o.Directory == dir {
			return o
		}
	}
	t.Fatalf("nothing is said of %s in %s", name, dir)
	return Object{}
}

func TestDirectoriesTogetherHaveTheCheckpoint(t *testing.T) {
	a, sa := disk(t)
	b, sb := disk(t)
	checkpoint(t, 5, periodic, []*fs.Store{sa}, []*fs.Store{sb})
	put(t, snapshot.Segment(job, 1, 4, 6, 0), chunkOf(t), sa) // of a checkpoint that has not completed
	r := run(t, a, b)
	if !r.Sound() || len(r.Checkpoints) != 1 || r.Checkpoints[0].Outcome != Whole || r.Checkpoints[0].Subtasks != 1 || r.Checkpoints[0].Objects != 2 {
		t.Errorf("together: %+v", r)
	}
	o := find(t, r, a, snapshot.Segment(job, 1, 4, 5, 0))
	if o.Verdict != snapshot.Intact || o.Parts != 1 || o.Entries != 8 || !o.Named {
		t.Errorf("an object of the checkpoint: %+v", o)
	}
	if o := find(t, r, a, snapshot.Segment(job, 1, 4, 6, 0)); o.Verdict != snapshot.Intact || o.Named {
		t.Errorf("an object of no checkpoint: %+v", o)
	}
	r = run(t, a)
	if r.Sound() || r.Broken != 1 || r.Damaged != 0 || r.Checkpoints[0].Outcome != Incomplete || r.Checkpoints[0].Code != snapshot.CodeFormat ||
		!slices.Equal(r.Checkpoints[0].Lacks, []string{string(snapshot.Segment(job, 1, 4, 5, 1))}) {
		t.Errorf("one alone: %+v", r)
	}
}

// TestEveryDamageIsToldWhereItIs: each kind of damage to each kind of object is found, and a second copy keeps the checkpoint whole.
func TestEveryDamageIsToldWhereItIs(t *testing.T) {
	segment, manifest := snapshot.Segment(job, 1, 4, 5, 0), snapshot.Manifest(job, 1, 5, 2)
	short := func(b []byte) []byte { return b[:len(b)-1] }
	flip := func(b []byte) []byte { b[len(b)/2] ^= 4; return b }
	for _, c := range []struct {
		name    string
		object  snapshot.Name
		change  func([]byte) []byte
		verdict snapshot.Verdict
		outcome Outcome
	}{
		{"segment cut short", segment, short, snapshot.Short, Incomplete}, {"segment flipped", segment, flip, snapshot.Damaged, Incomplete},
		{"segment emptied", segment, func([]byte) []byte { return nil }, snapshot.Short, Incomplete},
		{"manifest cut short", manifest, short, snapshot.Damaged, Unreadable}, {"manifest flipped", manifest, flip, snapshot.Damaged, Unreadable},
		{"manifest emptied", manifest, func([]byte) []byte { return nil }, snapshot.Damaged, Unreadable},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, sa := disk(t)
			b, sb := disk(t)
			checkpoint(t, 5, periodic, []*fs.Store{sa, sb}, []*fs.Store{sa, sb})
			change(t, file(t, a, c.object), c.change)
			r := run(t, a)
			o := find(t, r, a, c.object)
			if r.Sound() || o.Verdict != c.verdict || o.Code != snapshot.CodeDamaged || o.Error == "" || r.Checkpoints[0].Outcome != c.outcome {
				t.Errorf("alone: %+v, %+v", o, r.Checkpoints)
			}
			r = run(t, a, b)
			if r.Damaged != 1 || r.Broken != 0 || r.Checkpoints[0].Outcome != Whole || find(t, r, b, c.object).Verdict != snapshot.Intact {
				t.Errorf("with a sound copy: %+v", r)
			}
		})
	}
}

// newer makes of a manifest one of the next version, whole and with the digest of its bytes in its name.
func newer(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint16(b[8:], snapshot.ManifestVersion+1)
	table := crc32.MakeTable(crc32.Castagnoli)
	binary.LittleEndian.PutUint32(b[18:], crc32.Update(crc32.Checksum(b[:18], table), table, b[22:]))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs(filepath.Join(filepath.Dir(path), "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	s, err := fs.Join(vfs.OS{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	put(t, snapshot.Manifest(job, 1, 5, 2), b, s)
}

func TestANewerFormatIsNoDamage(t *testing.T) {
	a, sa := disk(t)
	checkpoint(t, 5, periodic, []*fs.Store{sa}, []*fs.Store{sa})
	newer(t, file(t, a, snapshot.Manifest(job, 1, 5, 2)))
	r := run(t, a)
	o := find(t, r, a, snapshot.Manifest(job, 1, 5, 2))
	if r.Sound() || o.Verdict != snapshot.Unfit || o.Code != snapshot.CodeFormat || !strings.Contains(o.Error, "version 2, this program reads 1") || r.Checkpoints[0].Outcome != Unreadable {
		t.Errorf("%+v, %+v", o, r.Checkpoints)
	}
}

// TestWhatADeletionHasBegunIsNoDamage: of older checkpoints of the cluster's own, objects may be gone; of the newest, and of a savepoint, never.
func TestWhatADeletionHasBegunIsNoDamage(t *testing.T) {
	for kind, outcome := range map[jobpb.CheckpointKind]Outcome{periodic: Superseded, savepoint: Incomplete} {
		a, sa := disk(t)
		both := []*fs.Store{sa}
		checkpoint(t, 5, kind, both, both)
		checkpoint(t, 6, periodic, both, both)
		if err := os.Remove(file(t, a, snapshot.Segment(job, 1, 4, 5, 1))); err != nil {
			t.Fatal(err)
		}
		r := run(t, a)
		if r.Checkpoints[0].Outcome != outcome || r.Checkpoints[1].Outcome != Whole || r.Sound() != (outcome == Superseded) {
			t.Errorf("%s: %+v", kind, r)
		}
	}
}

func TestWhatCannotBeLookedAt(t *testing.T) {
	empty, _ := disk(t)
	plain := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		dirs []string
		want error
	}{
		"missing": {[]string{filepath.Join(empty, "nowhere")}, os.ErrNotExist}, "empty": {[]string{empty}, ErrEmpty}, "file": {[]string{plain}, nil}, "twice": {[]string{empty, empty}, nil},
	} {
		_, err := Run(t.Context(), vfs.OS{}, c.dirs)
		var d *DirectoryError
		if !errors.As(err, &d) || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// One that was wiped beside one that has everything is no error.
	a, sa := disk(t)
	checkpoint(t, 5, periodic, []*fs.Store{sa}, []*fs.Store{sa})
	if r := run(t, empty, a); !r.Sound() {
		t.Errorf("%+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, vfs.OS{}, []string{a}); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
}

func TestFilesThatAreNoObjectsAreTold(t *testing.T) {
	a, sa := disk(t)
	checkpoint(t, 5, periodic, []*fs.Store{sa}, []*fs.Store{sa})
	moved := file(t, a, snapshot.Segment(job, 1, 4, 5, 0))
	if err := os.Rename(moved, filepath.Join(a, "snapshots", "lost+found")); err != nil {
		t.Fatal(err)
	}
	r := run(t, a)
	if !slices.Equal(r.Directories[0].Others, []string{"lost+found"}) || r.Checkpoints[0].Outcome != Incomplete {
		t.Errorf("%+v", r)
	}
}

// TestAnExportedSavepointIsHeldToItsRecord: moved it is sound; without its manifest, or with a broken record, it is not.
func TestAnExportedSavepointIsHeldToItsRecord(t *testing.T) {
	_, sa := disk(t)
	m := checkpoint(t, 5, savepoint, []*fs.Store{sa}, []*fs.Store{sa})
	export := func() string {
		dir := filepath.Join(t.TempDir(), "out")
		_, err := bundle.Write(t.Context(), vfs.OS{}, dir, m, func(ctx context.Context, o *jobpb.Object, _ int, to io.Writer) error {
			r, err := sa.Open(ctx, snapshot.Name(o.Name))
			if err != nil {
				return err
			}
			_, err = io.Copy(to, io.NewSectionReader(r, 0, r.Size()))
			return errors.Join(err, r.Close())
		})
		if err != nil {
			t.Fatal(err)
		}
		moved := dir + "-moved"
		if err := os.Rename(dir, moved); err != nil {
			t.Fatal(err)
		}
		return moved
	}
	dir := export()
	if r := run(t, dir); !r.Sound() || r.Directories[0].Savepoint != "clicks-7:5" || len(r.Directories[0].Others) != 0 || r.Checkpoints[0].Outcome != Whole {
		t.Errorf("%+v", r)
	}
	list, err := filepath.Glob(filepath.Join(dir, m.Name+"@*"))
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if err := os.Remove(list[0]); err != nil {
		t.Fatal(err)
	}
	if r := run(t, dir); r.Sound() || r.Checkpoints[0].Outcome != Unreadable || find(t, r, dir, snapshot.Name(m.Name)).Verdict != snapshot.Missing {
		t.Errorf("without its manifest: %+v", r)
	}
	dir = export()
	change(t, filepath.Join(dir, bundle.RecordFile), func(b []byte) []byte { b[30] ^= 1; return b })
	if r := run(t, dir); r.Sound() || find(t, r, dir, bundle.RecordFile).Code != snapshot.CodeDamaged {
		t.Errorf("with a broken record: %+v", r)
	}
}
