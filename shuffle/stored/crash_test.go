package stored

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/vfs"
)

// steps is a file system in memory that calls before each operation.
func steps(m *vfs.Mem, before func(op vfs.Operation, path string) vfs.Fault) vfs.FS {
	return vfs.WithFaults(m, before)
}

// crashWorld makes an exchange over fsys that is good for writing and reading here.
func crashWorld(t testing.TB, fsys vfs.FS) *world { return newWorld(t, fsys, "results", 64<<20) }

// readable lists the partitions that a worker finds after a crash, and reads all of them.
func readable(t testing.TB, fsys vfs.FS, want map[Name]got) []Name {
	t.Helper()
	w := crashWorld(t, fsys)
	var names []Name
	for _, f := range w.store.Inventory() {
		names = append(names, f.Name)
		cfg := w.readerConfig(w.here, 0, 1)
		cfg.Producers[0].Name = f.Name
		r := w.reader(cfg)
		have, err := r.drain()
		r.Close(nil)
		if err != nil {
			t.Fatalf("%s exists and cannot be read: %v", f.Name, err)
		}
		if !slices.Equal(have, want[f.Name]) {
			t.Fatalf("%s: %s", f.Name, difference(have, want[f.Name]))
		}
	}
	if bad := w.store.Damaged(); len(bad) > 0 {
		t.Fatalf("after a crash a finished partition is damaged: %v", bad[0])
	}
	for _, path := range filesOf(t, fsys, "results") {
		if strings.HasSuffix(path, vfs.TempSuffix) {
			t.Fatalf("%s was left", path)
		}
	}
	w.group.Stop()
	return names
}

// filesOf lists all files below dir.
func filesOf(t testing.TB, fsys vfs.FS, dir string) (all []string) {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); e.IsDir() {
			all = append(all, filesOf(t, fsys, path)...)
		} else {
			all = append(all, path)
		}
	}
	return all
}

// crashClones are what a machine may find after losing power now.
func crashClones(m *vfs.Mem) []*vfs.Mem {
	clones := []*vfs.Mem{m.CrashClone()}
	for seed := range uint64(24) {
		clones = append(clones, m.TornClone(seed))
	}
	return clones
}

// TestAnIndexThatExistsIsReadableWheneverPowerIsLost: writing two partitions and dropping one, with a crash before every
// single step of it, in every order in which the disk may have kept what was not synced.
func TestAnIndexThatExistsIsReadableWheneverPowerIsLost(t *testing.T) {
	m := vfs.NewMem()
	type moment struct {
		what     string
		clones   []*vfs.Mem
		finished []Name // Close has returned, and no drop has begun
	}
	var moments []moment
	var finished []Name
	want := map[Name]got{}
	recording := true
	fsys := steps(m, func(op vfs.Operation, path string) vfs.Fault {
		if recording && op != vfs.OpRead && op != vfs.OpStat && op != vfs.OpFileStat && op != vfs.OpClose {
			moments = append(moments, moment{fmt.Sprintf("%s %s", op, path), crashClones(m), slices.Clone(finished)})
		}
		return vfs.Fault{}
	})
	w := crashWorld(t, fsys)
	for p := range 2 {
		x := w.write(p, 1, 300, 60)
		want[x.cfg.Name] = testTexts(p, 300, 60)
		finished = append(finished, x.cfg.Name)
	}
	finished = finished[1:]
	if err := w.store.Drop(testName(0)); err != nil {
		t.Fatal(err)
	}
	moments = append(moments, moment{"the drop of one", crashClones(m), slices.Clone(finished)})
	finished = nil
	if err := w.store.DropJob("flights-1"); err != nil {
		t.Fatal(err)
	}
	recording = false
	if len(moments) < 30 {
		t.Fatalf("only %d steps were seen", len(moments))
	}
	for _, at := range moments {
		for i, clone := range at.clones {
			names := readable(t, clone, want)
			for _, n := range at.finished {
				if !slices.Contains(names, n) {
					t.Fatalf("before %s, clone %d: %s was finished and is gone; there are %v", at.what, i, n, names)
				}
			}
		}
	}
	if names := readable(t, m.CrashClone(), want); len(names) != 0 {
		t.Errorf("after everything was dropped there are %v", names)
	}
}

// testTexts is what the only consumer of world.write reads.
func testTexts(producer, n, size int) (all got) {
	for i := range n {
		all = append(all, recordText(0, testRecord(producer, i, size), element.Time(i)))
	}
	return append(all, eventText(0, element.Event{Kind: element.End, Time: element.MaxTime}))
}

// TestAFailedStepFailsTheAttemptAndLeavesNothing: every operation fails once, not done, half done, or done and reported
// as failed.
func TestAFailedStepFailsTheAttemptAndLeavesNothing(t *testing.T) {
	errBroken := errors.New("the disk is broken")
	for _, outcome := range []vfs.Outcome{vfs.NotDone, vfs.Half, vfs.Done} {
		for fail := 0; ; fail++ {
			count, hit := 0, ""
			armed := false
			fsys := steps(vfs.NewMem(), func(op vfs.Operation, path string) vfs.Fault {
				if !armed || op == vfs.OpRemove || op == vfs.OpStat {
					return vfs.Fault{}
				}
				if count++; count == fail+1 {
					hit = fmt.Sprintf("%s %s", op, path)
					return vfs.Fault{Err: errBroken, Outcome: outcome}
				}
				return vfs.Fault{}
			})
			w := crashWorld(t, fsys)
			armed = true
			err := tryToWrite(w, w.writerConfig(0, 3), 4000)
			armed = false
			if hit == "" { // every step had its turn
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			var failed *WriteError
			if !errors.Is(err, errBroken) || !errors.As(err, &failed) || failed.Path == "" || !strings.Contains(err.Error(), CodeWrite) {
				t.Fatalf("%s fails: %v", hit, err)
			}
			if files := filesOf(t, fsys, "results"); len(files) > 0 {
				t.Fatalf("after %s has failed %v is left", hit, files)
			}
			if n, bytes := w.store.Usage(); n != 0 || bytes != 0 {
				t.Fatalf("after %s has failed the store knows %d partitions of %d bytes", hit, n, bytes)
			}
			w.group.Stop()
		}
	}
}

// tryToWrite stores n records of 100 bytes.
func tryToWrite(w *world, cfg WriterConfig[rec], n int) error {
	x, err := NewWriter(cfg)
	if err != nil {
		return err
	}
	for i := range n {
		if err := x.Add(i%int(cfg.Consumers), testRecord(0, i, 100), element.Time(i)); err != nil {
			return errors.Join(err, x.Close(err))
		}
	}
	return errors.Join(x.Broadcast(element.Event{Kind: element.End, Time: element.MaxTime}), x.Close(nil))
}

// TestAFullDiskNamesThePathAndTheBytes also shows that the store goes on when there is room again.
func TestAFullDiskNamesThePathAndTheBytes(t *testing.T) {
	full := true
	fsys := steps(vfs.NewMem(), func(op vfs.Operation, path string) vfs.Fault {
		if full && op == vfs.OpWrite {
			return vfs.Fault{Err: &fs.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}, Outcome: vfs.Half}
		}
		return vfs.Fault{}
	})
	w := crashWorld(t, fsys)
	err := tryToWrite(w, w.writerConfig(0, 1), 20_000)
	var failed *WriteError
	if !errors.As(err, &failed) || !errors.Is(err, syscall.ENOSPC) || failed.Bytes <= 0 || !strings.HasSuffix(failed.Path, "flights-1/2-3-4/e5-p0-a6.data") {
		t.Fatalf("a full disk: %v", err)
	}
	for _, want := range []string{"E120", failed.Path, fmt.Sprintf("%d bytes were asked for", failed.Bytes), "no space left"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	full = false
	if err := tryToWrite(w, w.writerConfig(0, 1), 1000); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// TestADirectoryThatCannotBeWrittenFailsTheAttempt uses the system's own file system.
func TestADirectoryThatCannotBeWrittenFailsTheAttempt(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, vfs.OS{}, dir, 64<<20)
	// Root may write everywhere, so something else stands in the way.
	if err := os.WriteFile(filepath.Join(dir, "flights-1"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	err := tryToWrite(w, w.writerConfig(0, 1), 1)
	var failed *WriteError
	if !errors.As(err, &failed) || !strings.HasPrefix(failed.Path, dir) {
		t.Errorf("got %v", err)
	}
}

func TestTheDirectoryOfTheLastPartitionMayVanishWhileAnotherIsBegun(t *testing.T) {
	m := vfs.NewMem()
	var w *world
	vanish := 0
	w = crashWorld(t, steps(m, func(op vfs.Operation, path string) vfs.Fault {
		if op == vfs.OpOpen && strings.HasSuffix(path, ".data.tmp") && vanish > 0 {
			vanish--
			if err := m.Remove(filepath.Dir(path)); err != nil {
				t.Error(err)
			}
		}
		return vfs.Fault{}
	}))
	vanish = 2
	w.write(0, 1, 10, 10)
	vanish = 100
	cfg := w.writerConfig(1, 1)
	cfg.Name.Region++
	var failed *WriteError
	if _, err := NewWriter(cfg); !errors.As(err, &failed) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that never stays: %v", err)
	}
	vanish = 0
}
