package file

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/connector"
)

// whole is an attempt of a job that lives in one process.
func whole(subtask int) *connector.Task {
	t := attempt("j-1", "out", subtask, 1)
	t.Whole = true
	return t
}

func open(t *testing.T, s connector.Sink[string], task *connector.Task) connector.Writer[string] {
	t.Helper()
	w, err := s.OpenWriter(t.Context(), task, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func closed(t *testing.T, w connector.Writer[string]) {
	t.Helper()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestWhatAKilledRunHasLeftDoesNotHinderTheNext: a killed process leaves files under the very names that the next one will
// write, and no lock.
func TestWhatAKilledRunHasLeftDoesNotHinderTheNext(t *testing.T) {
	dir := t.TempDir()
	prepared(t, dir, attempt("j-1", "out", 0, 1), "dead")
	prepared(t, dir, attempt("j-1", "out", 7, 1), "dead, of a run with more subtasks")
	prepared(t, dir, attempt("j-1", "out", 0, 3), "dead, of a later attempt")
	side := prepared(t, dir, attempt("j-1", "side", 0, 1), "of another sink, which removes it by itself")
	job := prepared(t, dir, attempt("j-2", "out", 0, 1), "of another job")

	s := Text(dir, text)
	first := open(t, s, whole(0))
	if err := first.Write(t.Context(), "mine", 0); err != nil {
		t.Fatal(err)
	}
	second := open(t, s, whole(1)) // of the same run: it removes nothing
	_, progress := files(t, dir)
	progress = slices.DeleteFunc(progress, func(n string) bool { return strings.HasPrefix(n, ".lock") })
	mine := partOf(whole(0))
	mine.checkpoint = 1
	want := []string{mine.name(), string(side[0].Data), string(job[0].Data)}
	slices.Sort(want)
	if !slices.Equal(progress, want) {
		t.Errorf("in progress %q, want %q", progress, want)
	}
	closed(t, first)
	closed(t, second)
}

// TestARunningJobKeepsItsOutput from a second run of the same job until nothing of it is in progress any more.
func TestARunningJobKeepsItsOutput(t *testing.T) {
	dir := t.TempDir()
	s := Text(dir, text)
	refused := func(when string) {
		t.Helper()
		w, err := Text(dir, text).OpenWriter(t.Context(), whole(1), nil)
		if err == nil {
			_ = w.Close()
		}
		if !connector.IsFatal(err) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "\n  fix: ") {
			t.Errorf("%s: %v", when, err)
		}
	}
	w := open(t, s, whole(0))
	refused("while it writes")
	if err := w.Write(t.Context(), "a", 0); err != nil {
		t.Fatal(err)
	}
	cs, err := w.Prepare(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	closed(t, w)
	refused("before its commit")
	c, err := s.(connector.CommittingSink).OpenCommitter(t.Context(), whole(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Abort(t.Context(), cs); err != nil {
		t.Fatal(err)
	}
	closed(t, open(t, Text(dir, text), whole(0)))
	w = open(t, s, whole(0))
	if err := w.Write(t.Context(), "a", 0); err != nil {
		t.Fatal(err)
	}
	if cs, err = w.Prepare(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	closed(t, w)
	if _, err := c.Commit(t.Context(), cs); err != nil {
		t.Fatal(err)
	}
	if _, err := take(s.(*sink[string]).fs, dir, partOf(whole(0))); err != nil {
		t.Errorf("the lock is not free after the commit: %v", err)
	}
	if _, err := Text(dir, text).OpenWriter(t.Context(), whole(0), nil); !connector.IsFatal(err) || !strings.Contains(err.Error(), "earlier run") {
		t.Errorf("after its commit: %v", err)
	}
}

// TestOnAClusterNothingIsTakenForDead: processes end while what they have prepared is still wanted.
func TestOnAClusterNothingIsTakenForDead(t *testing.T) {
	dir := t.TempDir()
	kept := prepared(t, dir, attempt("j-1", "out", 0, 1), "kept")
	closed(t, open(t, Text(dir, text), attempt("j-1", "out", 1, 1)))
	_, progress := files(t, dir)
	if !slices.Equal(progress, []string{string(kept[0].Data)}) {
		t.Errorf("in progress %q below %s", progress, filepath.Join(dir, tmpDir))
	}
}
