package fs

import (
	"bytes"
	"errors"
	"syscall"
	"testing"

	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/storetest"
)

func open(t *testing.T, fsys vfs.FS, dir string) *Store {
	t.Helper()
	s, err := Open(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func lose(t *testing.T, s snapshot.Store, n snapshot.Name) {
	x := s.(*Store)
	o, err := x.find(n)
	if err == nil {
		err = x.fs.Remove(x.file(o))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestStoreInADirectory(t *testing.T) {
	storetest.Run(t, storetest.Config{Open: func(t *testing.T) snapshot.Store { return open(t, vfs.OS{}, t.TempDir()) }, Lose: lose})
}

func TestStoreInMemory(t *testing.T) {
	storetest.Run(t, storetest.Config{Open: func(t *testing.T) snapshot.Store { return open(t, vfs.NewMem(), "snapshots") }, Lose: lose})
}

// TestACrashAtAnyStep: what was acknowledged is there after a crash, whole; what was not is there whole or not at all; and the
// object can be put then.
func TestACrashAtAnyStep(t *testing.T) {
	name, data := snapshot.Segment("job-1", 1, 2, 3, 0), bytes.Repeat([]byte("segment "), 5000)
	put := func(s *Store) error {
		_, err := s.Put(t.Context(), name, int64(len(data)), bytes.NewReader(data))
		return err
	}
	crashes := 0
	check := func(after *vfs.Mem, acknowledged bool, step int) {
		crashes++
		s := open(t, after, "snapshots")
		n := 0
		if err := s.List(t.Context(), "", func(o *jobpb.Object) error {
			n++
			r, err := s.Open(t.Context(), snapshot.Name(o.Name))
			if err != nil {
				return err
			}
			return errors.Join(snapshot.Verify(t.Context(), r, o, "test"), r.Close())
		}); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if acknowledged && n != 1 {
			t.Fatalf("step %d: %d objects after a crash behind the acknowledgement", step, n)
		}
		if err := put(s); err != nil {
			t.Fatalf("step %d: put again: %v", step, err)
		}
	}
	for _, outcome := range []vfs.Outcome{vfs.NotDone, vfs.Done, vfs.Half} {
		for fault := 1; ; fault++ { // the fault-th operation fails
			m, step := vfs.NewMem(), 0
			armed := false
			s := open(t, vfs.WithFaults(m, func(vfs.Operation, string) vfs.Fault {
				if !armed {
					return vfs.Fault{}
				}
				if step++; step == fault {
					return vfs.Fault{Err: syscall.ENOSPC, Outcome: outcome}
				}
				return vfs.Fault{}
			}), "snapshots")
			armed = true
			err := put(s)
			failed := step >= fault
			armed = false
			for seed := range uint64(4) {
				check(m.TornClone(seed), err == nil, fault)
			}
			check(m.CrashClone(), err == nil, fault)
			if err := put(s); err != nil {
				t.Fatalf("fault %d, outcome %d: repeated: %v", fault, outcome, err)
			}
			check(m.CrashClone(), true, fault)
			if !failed {
				break
			}
		}
	}
	t.Logf("%d crashes", crashes)
}

// TestAFullDiskNamesPathAndBytes: E151 is what an operator has to act on.
func TestAFullDiskNamesPathAndBytes(t *testing.T) {
	full := vfs.WithFaults(vfs.NewMem(), func(op vfs.Operation, _ string) vfs.Fault {
		if op == vfs.OpWrite {
			return vfs.Fault{Err: syscall.ENOSPC}
		}
		return vfs.Fault{}
	})
	s := open(t, full, "snapshots")
	_, err := s.Put(t.Context(), snapshot.Segment("job-1", 1, 2, 3, 0), 1000, bytes.NewReader(make([]byte, 1000)))
	var w *snapshot.WriteError
	if !errors.As(err, &w) || w.Bytes != 1000 || w.Where == "" || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
}

// TestTheOwnerRemovesWhatACrashLeft and nothing else.
func TestTheOwnerRemovesWhatACrashLeft(t *testing.T) {
	m := vfs.NewMem()
	s := open(t, m, "snapshots")
	kept := snapshot.Segment("job-1", 1, 2, 3, 0)
	if _, err := s.Put(t.Context(), kept, 3, bytes.NewReader([]byte("abc"))); err != nil {
		t.Fatal(err)
	}
	d, err := s.Draft(t.Context(), snapshot.Segment("job-2", 1, 9, 3, 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	s = open(t, m, "snapshots") // the writer is no more
	if list, err := m.ReadDir("snapshots"); err != nil || len(list) != 1 || list[0].Name() != "job-1" {
		t.Errorf("left: %v, %v", list, err)
	}
	if r, err := s.Open(t.Context(), kept); err != nil || r.Size() != 3 {
		t.Errorf("%v, %v", r, err)
	}
}

// TestADirectoryThatIsGoneIsNotMadeAgain: an object in a directory that was made anew would say that all others are there as well.
func TestADirectoryThatIsGoneIsNotMadeAgain(t *testing.T) {
	m := vfs.NewMem()
	s := open(t, m, "snapshots")
	put := func() error {
		_, err := s.Put(t.Context(), snapshot.Segment("job-1", 1, 7, 3, 0), 4, bytes.NewReader([]byte("data")))
		return err
	}
	if err := put(); err != nil {
		t.Fatal(err)
	}
	if err := m.RemoveAll("snapshots"); err != nil {
		t.Fatal(err)
	}
	var w *snapshot.WriteError
	if err := put(); !errors.As(err, &w) || w.Where != "snapshots" {
		t.Errorf("put: %v", err)
	}
	if _, err := m.Stat("snapshots"); err == nil {
		t.Error("the directory was made")
	}
	if err := vfs.MakeDir(m, "snapshots"); err != nil {
		t.Fatal(err)
	}
	if err := put(); err != nil {
		t.Errorf("once it is back: %v", err)
	}
}
