package workdir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/internal/vfs"
)

func maker(t *testing.T, fsys vfs.FS) *Maker {
	t.Helper()
	if err := fsys.Mkdir("/tmp", 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	return &Maker{FS: fsys, Parent: "/tmp", Owner: func(fs.FileInfo) bool { return true }}
}

func makeDir(t *testing.T, m *Maker) *Dir {
	t.Helper()
	d, err := m.Make()
	if err != nil {
		t.Fatal(err)
	}
	if err := vfs.Publish(m.FS, filepath.Join(d.Path, "file"), []byte("x")); err != nil {
		t.Fatal(err)
	}
	return d
}

func names(t *testing.T, m *Maker) (out []string) {
	t.Helper()
	list, err := m.FS.ReadDir(m.Parent)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		out = append(out, filepath.Join(m.Parent, e.Name()))
	}
	return out
}

func TestARunRemovesItsDirectory(t *testing.T) {
	m := maker(t, vfs.NewMem())
	d := makeDir(t, m)
	if err := d.Remove(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, m); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
}

func TestTheNextStartRemovesWhatACrashedRunHasLeft(t *testing.T) {
	m := maker(t, vfs.NewMem())
	crashed, alive := makeDir(t, m), makeDir(t, m)
	if err := crashed.lock.Close(); err != nil { // what the system does when a process ends
		t.Fatal(err)
	}
	half := filepath.Join("/tmp", m.prefix()+"1"+dead) // a removal that was cut short
	other := filepath.Join("/tmp", "somebody-elses")
	for _, dir := range []string{half, other} {
		if err := m.FS.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	next := makeDir(t, m)
	want := []string{alive.Path, next.Path, other}
	slices.Sort(want)
	if got := names(t, m); !slices.Equal(got, want) {
		t.Errorf("there is %q, want %q", got, want)
	}
	if b, err := vfs.ReadFile(m.FS, filepath.Join(alive.Path, "file")); err != nil || string(b) != "x" {
		t.Errorf("the file of a run that lives: %q %v", b, err)
	}
}

func TestDirectoriesOfOthersAreLeftAlone(t *testing.T) {
	m := maker(t, vfs.NewMem())
	crashed := makeDir(t, m)
	_ = crashed.lock.Close()
	m.Owner = func(fs.FileInfo) bool { return false }
	makeDir(t, m)
	if got := names(t, m); !slices.Contains(got, crashed.Path) {
		t.Errorf("%s was removed", crashed.Path)
	}
}

// Somebody sweeps between the making of the directory and its lock.
func TestADirectoryThatIsSweptBeforeItIsLockedIsMadeAgain(t *testing.T) {
	mem := vfs.NewMem()
	other := maker(t, mem)
	swept := 0
	m := maker(t, vfs.WithFaults(mem, func(op vfs.Operation, path string) vfs.Fault {
		if op == vfs.OpLock && swept < 3 && strings.HasSuffix(path, lockName) {
			swept++
			other.sweep()
		}
		return vfs.Fault{}
	}))
	d := makeDir(t, m)
	if swept != 3 {
		t.Errorf("swept %d times", swept)
	}
	other.sweep()
	if got := names(t, m); !slices.Equal(got, []string{d.Path}) {
		t.Errorf("there is %q, want %q", got, d.Path)
	}
}

func TestWithoutLocksARunWorksAndRemovesNobody(t *testing.T) {
	mem := vfs.NewMem()
	m := maker(t, vfs.WithFaults(mem, func(op vfs.Operation, _ string) vfs.Fault {
		if op == vfs.OpLock {
			return vfs.Fault{Err: errors.ErrUnsupported}
		}
		return vfs.Fault{}
	}))
	a, b := makeDir(t, m), makeDir(t, m)
	if got := names(t, m); len(got) != 2 {
		t.Errorf("there is %q", got)
	}
	for _, d := range []*Dir{a, b} {
		if err := d.Remove(); err != nil {
			t.Error(err)
		}
	}
}

// The real thing: the user's own directory, with modes and owners.
func TestTheDirectoryIsForThisUserAlone(t *testing.T) {
	m := Default()
	m.Parent = t.TempDir()
	left, err := m.Make()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(left.Path)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
	if left.lock == nil {
		t.Skip("no locks here")
	}
	if err := left.lock.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := m.Make()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a crash has left is there: %v", err)
	}
	if err := d.Remove(); err != nil {
		t.Error(err)
	}
}
