package fs

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/storetest"
)

func TestConformance(t *testing.T) {
	t.Run("disk", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) snapshot.Store { return open(t, vfs.OS{}, t.TempDir()) })
	})
	t.Run("memory", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) snapshot.Store { return open(t, vfs.NewMem(), "/store") })
	})
}

func open(t *testing.T, fsys vfs.FS, dir string) *Store {
	t.Helper()
	s, err := Open(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var name = snapshot.Segment("job-1", 1, 2, 3, 0)

// TestACrashLeavesAnObjectWholeOrAbsent crashes between any two steps of a put: what is there under a name has its digest, and what was
// acknowledged is there.
func TestACrashLeavesAnObjectWholeOrAbsent(t *testing.T) {
	content := strings.Repeat("x", 100_000)
	for step := 0; ; step++ {
		mem, n, done := vfs.NewMem(), 0, false
		crash := errors.New("power cut")
		fsys := vfs.WithFaults(mem, func(vfs.Operation, string) vfs.Fault {
			n++
			if n > step+setup {
				return vfs.Fault{Err: crash}
			}
			return vfs.Fault{}
		})
		s, err := Open(fsys, "/store")
		if err != nil {
			t.Fatal(err)
		}
		o, err := s.Put(t.Context(), name, int64(len(content)), strings.NewReader(content))
		done = err == nil
		for seed := range uint64(4) {
			after := open(t, mem.TornClone(seed), "/store")
			r, err := after.Open(t.Context(), name)
			switch {
			case errors.Is(err, snapshot.ErrNotFound) && !done:
			case err != nil:
				t.Fatalf("step %d: %v", step, err)
			default:
				want := o
				if want == nil {
					want = digestOf(t, content)
				}
				if err := snapshot.Verify(t.Context(), r, want, "after the crash"); err != nil {
					t.Fatalf("step %d: %v", step, err)
				}
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if o := digestOf(t, content); done {
				if again, err := after.Put(t.Context(), name, o.Size, strings.NewReader(content)); err != nil || again.Size != o.Size {
					t.Fatalf("step %d: %v", step, err)
				}
			}
		}
		if done {
			if step < 4 {
				t.Fatalf("a put had %d steps: nothing was interrupted", step)
			}
			return
		}
	}
}

// setup is how many operations opening a store takes, whose crash is not the subject.
const setup = 12

func digestOf(t *testing.T, content string) *jobpb.Object {
	t.Helper()
	o, err := open(t, vfs.NewMem(), "/d").Put(t.Context(), name, int64(len(content)), strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestAFullDiskSaysWhereAndHowMuch: the error names the directory and the bytes.
func TestAFullDiskSaysWhereAndHowMuch(t *testing.T) {
	s := open(t, vfs.WithFaults(vfs.NewMem(), func(op vfs.Operation, _ string) vfs.Fault {
		if op == vfs.OpWrite {
			return vfs.Fault{Err: syscall.ENOSPC}
		}
		return vfs.Fault{}
	}), "/store")
	_, err := s.Put(t.Context(), name, 3, strings.NewReader("abc"))
	e, ok := errors.AsType[*snapshot.WriteError](err)
	if !ok || !strings.HasPrefix(e.Where, "/store/") || e.Bytes != 3 || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("%v", err)
	}
	if r, err := s.Open(t.Context(), name); err == nil {
		t.Errorf("%d bytes are there", r.Size())
	}
}

// TestDamageIsFound: every flipped bit, and every cut, is seen by whoever opens the object to use it.
func TestDamageIsFound(t *testing.T) {
	mem := vfs.NewMem()
	s := open(t, mem, "/store")
	o, err := s.Put(t.Context(), name, 3, strings.NewReader("abc"))
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"abd", "ab", "abcd", ""} {
		f, err := vfs.Create(mem, "/store/"+string(name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(bad)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := s.Open(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if err := snapshot.Verify(t.Context(), r, o, "/store"); !errors.Is(err, snapshot.ErrDamaged) {
			t.Errorf("%q: %v", bad, err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
