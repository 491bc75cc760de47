package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/fs"
	"github.com/sluiceio/sluice/snapshot/mem"
)

// origin is a store with a checkpoint of three objects, the manifest included.
func origin(t *testing.T) (*mem.Store, *jobpb.Object) {
	t.Helper()
	s := mem.New()
	m := &snapshotpb.Manifest{
		Version: snapshot.ManifestVersion, Job: "clicks-7", JobEpoch: 2, Checkpoint: 12, Kind: jobpb.CheckpointKind_CHECKPOINT_SAVEPOINT,
		Plan: &jobpb.Plan{
			Graph: &jobpb.Graph{MaxParallelism: 8, Operators: []*jobpb.Operator{{Id: "count"}}}, Chains: []*jobpb.Chain{{Operators: []int32{0}, Parallelism: 1}},
			Regions: []*jobpb.Region{{Checkpointed: true, Subtasks: []*jobpb.SubtaskRange{{Count: 1}}}},
		},
		Subtasks: []*snapshotpb.SubtaskState{{Status: snapshotpb.SubtaskStatus_RUNNING}},
	}
	for n, name := range []snapshot.Name{snapshot.Segment("clicks-3", 1, 2, 9, 0), snapshot.Segment("clicks-7", 2, 5, 12, 0)} { // the first is of the job that it began with
		data := bytes.Repeat([]byte{byte(n + 1)}, 100_000)
		o, err := s.Put(t.Context(), name, int64(len(data)), bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		m.Objects = append(m.Objects, o)
	}
	data, err := snapshot.EncodeManifest(m)
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.Put(t.Context(), snapshot.Manifest("clicks-7", 2, 12, 3), int64(len(data)), bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return s, o
}

func from(s snapshot.Store) Source {
	return func(ctx context.Context, o *jobpb.Object, copy int, to io.Writer) error {
		if copy > 0 {
			return ErrNoCopy
		}
		r, err := s.Open(ctx, snapshot.Name(o.Name))
		if err != nil {
			return err
		}
		_, err = io.Copy(to, io.NewSectionReader(r, 0, r.Size()))
		return errors.Join(err, r.Close())
	}
}

// zeros is a source of copies that have n bytes too many each, all of them zero.
func zeros(n int64, copies int) Source {
	return func(_ context.Context, o *jobpb.Object, copy int, to io.Writer) error {
		if copy >= copies {
			return ErrNoCopy
		}
		_, err := to.Write(make([]byte, o.Size+n))
		return err
	}
}

func TestADirectoryHasEverythingAndCanBeMoved(t *testing.T) {
	s, m := origin(t)
	fsys := vfs.NewMem()
	r, err := Write(t.Context(), fsys, "out", m, from(s))
	if err != nil || r.Job != "clicks-7" || r.Checkpoint != 12 || r.Objects != 2 || r.Bytes != 200_000+m.Size {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := Write(t.Context(), fsys, "out", m, from(s)); !errors.Is(err, ErrTaken) {
		t.Errorf("written again: %v", err)
	}
	fsys = fsys.CrashClone() // everything was durable
	if err := fsys.Rename("out", "elsewhere"); err != nil {
		t.Fatal(err)
	}
	read, err := Read(fsys, "elsewhere")
	if err != nil || fmt.Sprint(read) != fmt.Sprint(r) {
		t.Fatalf("%+v, %v", read, err)
	}
	store, err := fs.View(fsys, "elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	got, err := snapshot.ReadManifest(t.Context(), snapshot.Shared(store), &jobpb.StoredObject{Object: read.Object()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range got.Objects {
		x, err := store.Open(t.Context(), snapshot.Name(o.Name))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(snapshot.Verify(t.Context(), x, o, "elsewhere"), x.Close()); err != nil {
			t.Error(err)
		}
	}
	if r, err := Read(fsys, "."); r != nil || err != nil {
		t.Errorf("of a directory without a record: %v, %v", r, err)
	}
}

// TestWhatCannotBeFinishedLeavesNothing: whatever breaks, there is no directory of that name, and nothing beside it.
func TestWhatCannotBeFinishedLeavesNothing(t *testing.T) {
	s, m := origin(t)
	for what, source := range map[string]Source{"other bytes": zeros(0, 3), "too few": zeros(-1, 1), "too many": zeros(1, 2)} {
		fsys := vfs.NewMem()
		if _, err := Write(t.Context(), fsys, "out", m, source); !errors.Is(err, snapshot.ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
		nothing(t, what, fsys)
	}
	for _, op := range []vfs.Operation{vfs.OpWrite, vfs.OpSync, vfs.OpRename, vfs.OpMkdir} {
		for step := 1; ; step++ { // each of the calls of this kind fails once
			n := 0
			plain := vfs.NewMem()
			fsys := vfs.WithFaults(plain, func(x vfs.Operation, path string) vfs.Fault {
				if x == op && strings.HasPrefix(path, "out") {
					if n++; n == step {
						return vfs.Fault{Err: syscall.ENOSPC}
					}
				}
				return vfs.Fault{}
			})
			_, err := Write(t.Context(), fsys, "out", m, from(s))
			if err == nil {
				if step == 1 {
					t.Errorf("%s never happens", op)
				}
				break
			}
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "E151") {
				t.Errorf("%s %d: %v", op, step, err)
			}
			nothing(t, fmt.Sprint(op, step), plain)
		}
	}
}

func nothing(t *testing.T, what string, fsys vfs.FS) {
	t.Helper()
	list, err := fsys.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		t.Errorf("%s: %s is left", what, e.Name())
	}
}

// TestAnotherCopyIsReadForOneThatIsDamaged: the damage of copies costs nothing while one is sound.
func TestAnotherCopyIsReadForOneThatIsDamaged(t *testing.T) {
	s, m := origin(t)
	asked := 0
	source := func(ctx context.Context, o *jobpb.Object, copy int, to io.Writer) error {
		if asked++; copy < 2 {
			return zeros(int64(-copy), 2)(ctx, o, copy, to)
		}
		return from(s)(ctx, o, 0, to)
	}
	if r, err := Write(t.Context(), vfs.NewMem(), "out", m, source); err != nil || r.Objects != 2 || asked != 9 {
		t.Errorf("%+v, %v, %d copies were asked for", r, err, asked)
	}
}

func FuzzRecord(f *testing.F) {
	b, err := encode(&Record{Job: "a-1", Checkpoint: 3, Manifest: "a-1/1/3-2.manifest", Size: 9, Digest: make([]byte, 32), Objects: 1, Bytes: 10})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("sluice-savepoint 2\n{}\ncrc32c 00000000\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decode(b)
		if err != nil {
			return
		}
		again, err := encode(r)
		if err != nil {
			t.Fatal(err)
		}
		if r2, err := decode(again); err != nil || fmt.Sprint(r) != fmt.Sprint(r2) {
			t.Errorf("%v, %v", r2, err)
		}
	})
}

func TestEveryDamageOfARecordIsSeen(t *testing.T) {
	b, err := encode(&Record{Job: "a-1", Checkpoint: 3, Manifest: "a-1/1/3-2.manifest", Size: 9, Digest: make([]byte, 32), Objects: 1, Bytes: 10})
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		x := bytes.Clone(b)
		x[i] ^= 1
		if r, err := decode(x); !errors.Is(err, snapshot.ErrDamaged) {
			t.Errorf("byte %d: %v, %v", i, r, err)
		}
		if r, err := decode(b[:i]); !errors.Is(err, snapshot.ErrDamaged) {
			t.Errorf("cut at %d: %v, %v", i, r, err)
		}
	}
}
