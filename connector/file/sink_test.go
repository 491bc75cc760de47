package file

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
)

func text(dst []byte, v string) []byte { return append(dst, v...) }

func attempt(job, sink string, subtask int, region uint64) *connector.Task {
	return &connector.Task{Job: job, Operator: sink, Subtask: subtask, Parallelism: 4, Attempt: 1, JobEpoch: 1, RegionEpoch: region}
}

// prepared writes rows and prepares them.
func prepared(t *testing.T, dir string, task *connector.Task, rows ...string) []connector.Committable {
	t.Helper()
	w, err := Text(dir, text).OpenWriter(t.Context(), task, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if err := w.Write(t.Context(), r, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []func(context.Context) error{w.Flush, w.End} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	cs, err := w.Prepare(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return cs
}

func committing(t *testing.T, dir string, task *connector.Task) connector.Committer {
	t.Helper()
	c, err := Text(dir, text).(connector.CommittingSink).OpenCommitter(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// files lists what dir holds, with and without the output in progress.
func files(t *testing.T, dir string) (visible, progress []string) {
	t.Helper()
	for _, d := range []struct {
		dir  string
		into *[]string
	}{{dir, &visible}, {filepath.Join(dir, tmpDir), &progress}} {
		entries, err := os.ReadDir(d.dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !e.IsDir() {
				*d.into = append(*d.into, e.Name())
			}
		}
	}
	return visible, progress
}

func TestOutputAppearsByCommitAndOnce(t *testing.T) {
	dir := t.TempDir()
	task := attempt("j-1", "out", 3, 1)
	cs := prepared(t, dir, task, "a", "b")
	if visible, progress := files(t, dir); len(visible) != 0 || len(progress) != 1 {
		t.Fatalf("before the commit: %v, in progress %v", visible, progress)
	}
	c := committing(t, dir, task)
	for i, want := range []connector.CommitResult{connector.Committed, connector.AlreadyCommitted, connector.AlreadyCommitted} {
		got, err := c.Commit(t.Context(), cs)
		if err != nil || !slices.Equal(got, []connector.CommitResult{want}) {
			t.Errorf("commit %d: %v, %v", i+1, got, err)
		}
	}
	visible, progress := files(t, dir)
	if len(visible) != 1 || len(progress) != 0 || !strings.HasPrefix(visible[0], "part-00003-") {
		t.Errorf("after the commit: %v, in progress %v", visible, progress)
	}
	if data, _ := os.ReadFile(filepath.Join(dir, visible[0])); string(data) != "a\nb\n" {
		t.Errorf("content %q", data)
	}
}

func TestWhatWasNotPreparedIsDiscarded(t *testing.T) {
	dir := t.TempDir()
	w, err := Text(dir, text).OpenWriter(t.Context(), attempt("j-1", "out", 0, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), "a", 0); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if visible, progress := files(t, dir); len(visible)+len(progress) != 0 {
		t.Errorf("left behind: %v %v", visible, progress)
	}
}

func TestAWriterWithoutRecordsPreparesNothing(t *testing.T) {
	if cs := prepared(t, t.TempDir(), attempt("j-1", "out", 0, 1)); len(cs) != 0 {
		t.Errorf("prepared %v", cs)
	}
}

func TestLostOutputIsReported(t *testing.T) {
	dir := t.TempDir()
	task := attempt("j-1", "out", 0, 1)
	cs := prepared(t, dir, task, "a")
	c := committing(t, dir, task)
	if err := c.Abort(t.Context(), cs); err != nil {
		t.Fatal(err)
	}
	if err := c.Abort(t.Context(), cs); err != nil {
		t.Errorf("a second abort: %v", err)
	}
	got, err := c.Commit(t.Context(), cs)
	if err != nil || got[0] != connector.Lost {
		t.Errorf("commit after abort: %v, %v", got, err)
	}
}

func TestLeftoversOfLowerEpochsGoAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	old := prepared(t, dir, attempt("j-1", "out", 0, 1), "old")
	neighbour := prepared(t, dir, attempt("j-1", "out", 2, 1), "of a subtask that may have finished")
	kept := prepared(t, dir, attempt("j-1", "out", 1, 1), "kept")
	current := prepared(t, dir, attempt("j-1", "out", 0, 2), "current")
	newer := prepared(t, dir, attempt("j-1", "out", 0, 3), "newer")
	sink := prepared(t, dir, attempt("j-1", "other", 0, 1), "other sink")
	job := prepared(t, dir, attempt("j-2", "out", 0, 1), "other job")
	write(t, filepath.Join(dir, tmpDir), "notes.txt", "somebody's")

	if err := committing(t, dir, attempt("j-1", "out", 0, 2)).AbortUnknown(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	_, progress := files(t, dir)
	if slices.Contains(progress, string(old[0].Data)) {
		t.Error("the leftover is still there")
	}
	for _, cs := range [][]connector.Committable{kept, neighbour, current, newer, sink, job} {
		if !slices.Contains(progress, string(cs[0].Data)) {
			t.Errorf("%s is gone", cs[0].Data)
		}
	}
	if !slices.Contains(progress, "notes.txt") {
		t.Error("somebody's file is gone")
	}
}

func TestACommitTouchesFilesOfItsOwnSinkOnly(t *testing.T) {
	dir := t.TempDir()
	foreign := prepared(t, dir, attempt("j-2", "out", 0, 1), "a")
	c := committing(t, dir, attempt("j-1", "out", 0, 1))
	for _, cm := range []connector.Committable{foreign[0], {Data: []byte("../../etc/passwd")}, {Data: []byte("part-00000-0000000001~j-1~out~1.1/../x")}, {}} {
		if _, err := c.Commit(t.Context(), []connector.Committable{cm}); err == nil || !connector.IsFatal(err) {
			t.Errorf("commit of %q: %v", cm.Data, err)
		}
		if err := c.Abort(t.Context(), []connector.Committable{cm}); err == nil {
			t.Errorf("abort of %q accepted", cm.Data)
		}
	}
}

func TestTwoJobsWithOneNameDoNotOverwriteEachOther(t *testing.T) {
	dir := t.TempDir()
	task := attempt("j-1", "out", 0, 2)
	c := committing(t, dir, task)
	if _, err := c.Commit(t.Context(), prepared(t, dir, task, "first")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Commit(t.Context(), prepared(t, dir, task, "second")); err == nil || !connector.IsFatal(err) {
		t.Errorf("the second job's output replaced the first's: %v", err)
	}
	visible, _ := files(t, dir)
	if data, _ := os.ReadFile(filepath.Join(dir, visible[0])); string(data) != "first\n" {
		t.Errorf("content %q", data)
	}
}

func TestAJobThatBeginsFindsNoOutputUnderItsId(t *testing.T) {
	dir := t.TempDir()
	for _, task := range []*connector.Task{attempt("j-1", "out", 2, 1), attempt("j-1", "out", 5, 1), attempt("j-2", "out", 0, 1), attempt("j-1", "side", 0, 1)} {
		write(t, dir, partOf(task).name(), "a\n") // 5: of a run with more subtasks
	}
	for _, c := range []struct {
		task    *connector.Task
		refused bool
	}{
		{attempt("j-1", "out", 0, 1), false},
		{attempt("j-1", "out", 1, 1), true},
		{attempt("j-1", "out", 2, 1), true},
		{attempt("j-1", "out", 2, 2), false}, // its own, for all it knows
		{attempt("j-3", "out", 2, 1), false},
	} {
		w, err := Text(dir, text).OpenWriter(t.Context(), c.task, nil)
		if err == nil {
			err = w.Close()
		} else if !connector.IsFatal(err) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%+v: %v", c.task, err)
		}
		if (err != nil) != c.refused {
			t.Errorf("%+v: %v", c.task, err)
		}
	}
}

func TestOutputThatIsNoDirectoryIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	write(t, filepath.Dir(path), "out", "a\n")
	err := committing(t, path, attempt("j-1", "out", 0, 1)).AbortUnknown(t.Context(), nil)
	if err == nil || !connector.IsFatal(err) || !strings.Contains(err.Error(), path+" is no directory") {
		t.Errorf("a file: %v", err)
	}
	for _, path := range []string{path, ""} {
		if _, err := Text(path, text).OpenWriter(t.Context(), attempt("j-1", "out", 0, 1), nil); err == nil || !connector.IsFatal(err) {
			t.Errorf("%q: %v", path, err)
		}
	}
}

func TestARelativePathIsRefusedInATaskProcess(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, ".", "in.txt", "a\n")
	if _, err := discover(t.Context(), Lines("in.txt")); err != nil {
		t.Errorf("embedded: %v", err)
	}
	t.Setenv("SLUICE_TASK", "1")
	if _, err := discover(t.Context(), Lines("in.txt")); err == nil || !connector.IsFatal(err) {
		t.Errorf("input: %v", err)
	}
	if _, err := Text("out", text).OpenWriter(t.Context(), attempt("j-1", "out", 0, 1), nil); err == nil || !connector.IsFatal(err) {
		t.Errorf("output: %v", err)
	}
}

func FuzzPartName(f *testing.F) {
	f.Add("j-1", "out", 3, uint64(1), uint64(2), uint64(7))
	f.Add("../x", "~.%2F", 0, uint64(0), uint64(0), uint64(0))
	f.Fuzz(func(t *testing.T, job, sink string, subtask int, jobEpoch, regionEpoch, id uint64) {
		p := part{job, sink, subtask, jobEpoch, regionEpoch, element.CheckpointID(id)}
		name := p.name()
		if filepath.Base(name) != name || strings.HasPrefix(name, ".") {
			t.Errorf("%q is not a plain file name", name)
		}
		if got, ok := parse(name); subtask >= 0 && (!ok || got != p) {
			t.Errorf("%q read back as %+v, was %+v", name, got, p)
		}
	})
}
