package file

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/vfs"
)

// published reads all visible rows of dir.
func published(t *testing.T, fsys vfs.FS, dir string) (rows []string) {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		data, err := vfs.ReadFile(fsys, path.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for sc := bufio.NewScanner(strings.NewReader(string(data))); sc.Scan(); {
			rows = append(rows, sc.Text())
		}
	}
	slices.Sort(rows)
	return rows
}

// life writes two checkpoints and commits them, through fsys. recorded gets the committables that Prepare has returned.
func life(t *testing.T, fsys vfs.FS, recorded *[]connector.Committable) error {
	s := &sink[string]{fs: fsys, dir: "out", line: text}
	task := attempt("j-1", "out", 0, 1)
	w, err := s.OpenWriter(t.Context(), task, nil)
	if err != nil {
		return err
	}
	for id := range element.CheckpointID(2) {
		for i := range 3 {
			if err := w.Write(t.Context(), fmt.Sprintf("%d-%d", id, i), 0); err != nil {
				return err
			}
		}
		cs, err := w.Prepare(t.Context(), id+1)
		if err != nil {
			return err
		}
		*recorded = append(*recorded, cs...)
	}
	c, err := s.OpenCommitter(t.Context(), task)
	if err != nil {
		return err
	}
	_, err = c.Commit(t.Context(), *recorded)
	return errors.Join(err, w.Close())
}

// recover does what an engine does after a crash: it commits again whatever was recorded.
func recovered(t *testing.T, fsys vfs.FS, recorded []connector.Committable, step string) {
	t.Helper()
	s := &sink[string]{fs: fsys, dir: "out", line: text}
	c, err := s.OpenCommitter(t.Context(), attempt("j-1", "out", 0, 2))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		results, err := c.Commit(t.Context(), recorded)
		if err != nil || slices.Contains(results, connector.Lost) {
			t.Fatalf("%s: commit after the crash: %v, %v", step, results, err)
		}
	}
	if err := c.AbortUnknown(t.Context(), nil); err != nil {
		t.Fatalf("%s: %v", step, err)
	}
	var want []string
	for i := range recorded {
		for j := range 3 {
			want = append(want, fmt.Sprintf("%d-%d", i, j))
		}
	}
	if got := published(t, fsys, "out"); !slices.Equal(got, want) {
		t.Fatalf("%s: %q is visible, recorded was %q", step, got, want)
	}
	if left, err := fsys.ReadDir("out/" + tmpDir); err == nil && len(left) > 0 {
		t.Fatalf("%s: %d files left behind", step, len(left))
	}
}

// TestPreparedOutputSurvivesAnyCrash loses power before every step of two checkpoints and their commit.
func TestPreparedOutputSurvivesAnyCrash(t *testing.T) {
	m := vfs.NewMem()
	var recorded []connector.Committable
	steps := 0
	crash := func(step string) {
		for seed := range uint64(20) {
			recovered(t, m.TornClone(seed), recorded, fmt.Sprint(step, ", seed ", seed))
		}
		recovered(t, m.CrashClone(), recorded, step)
	}
	err := life(t, vfs.WithFaults(m, func(op vfs.Operation, path string) vfs.Fault {
		steps++
		crash(fmt.Sprintf("before step %d, %s %s", steps, op, path))
		return vfs.Fault{}
	}), &recorded)
	if err != nil || steps < 10 {
		t.Fatalf("%d steps, %v", steps, err)
	}
	crash("after the end")
}

// TestAFailedStepIsReportedAndTheNextAttemptIsRight makes every step fail: not done, half done, or done and reported as failed.
func TestAFailedStepIsReportedAndTheNextAttemptIsRight(t *testing.T) {
	broken := errors.New("broken disk")
	for _, outcome := range []vfs.Outcome{vfs.NotDone, vfs.Half, vfs.Done} {
		for stop := 1; ; stop++ {
			m := vfs.NewMem()
			var recorded []connector.Committable
			steps, step := 0, ""
			err := life(t, vfs.WithFaults(m, func(op vfs.Operation, path string) vfs.Fault {
				if steps++; steps != stop {
					return vfs.Fault{}
				}
				step = fmt.Sprintf("step %d, %s %s, outcome %d", stop, op, path, outcome)
				return vfs.Fault{Err: broken, Outcome: outcome}
			}), &recorded)
			if step == "" {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			if err == nil && !strings.Contains(step, string(vfs.OpStat)) {
				t.Errorf("%s was swallowed", step)
			}
			recovered(t, m, recorded, step)
		}
	}
}
