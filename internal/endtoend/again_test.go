package endtoend

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestAnEmbeddedJobRunsAgain after it was killed, without anybody's help; and not after it has finished, because rows of two
// runs would be mixed: then it says where they are and what to do.
func TestAnEmbeddedJobRunsAgain(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	killed := exec.CommandContext(t.Context(), bin("mixed"), "--orders=0", "--rate=20000", "--out="+out, "--sluice.parallelism=2")
	tmp := t.TempDir()
	killed.Env = append(os.Environ(), "TMPDIR="+tmp)
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, filepath.Join(out, ".tmp", "part-*"))
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // it was killed

	run := func() answer {
		return command(t, []string{"TMPDIR=" + tmp}, bin("mixed"), "--out="+out, "--sluice.parallelism=2")
	}
	if a := run(); a.exit != exitOK {
		t.Fatalf("after a killed run: %v", a)
	}
	left, err := os.ReadDir(filepath.Join(out, ".tmp"))
	if err != nil || slices.ContainsFunc(left, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), "part-") }) {
		t.Errorf("left in progress: %v, %v", left, err)
	}
	if dirs, err := filepath.Glob(filepath.Join(tmp, "*")); err != nil || len(dirs) > 0 {
		t.Errorf("left of the killed run: %q, %v", dirs, err)
	}
	before := digestOf(t, out)
	if a := run(); a.exit != exitFailed || !a.says("error E054", out, "earlier run", "\n  fix: empty the directory") {
		t.Errorf("after a finished run: %v", a)
	}
	if digestOf(t, out) != before || before.Count == 0 {
		t.Errorf("the output of the finished run was %+v, is %+v", before, digestOf(t, out))
	}
}

// awaitFile returns when there is a file of that pattern.
func awaitFile(t *testing.T, pattern string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if len(found) > 0 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("no %s", pattern)
		}
	}
}
