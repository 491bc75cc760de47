package endtoend

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestAJobStopsWithASavepoint plays the ways in which a job that never ends is ended on purpose: its output up to there is visible,
// its processes are gone, and what it could go on from is kept.
func TestAJobStopsWithASavepoint(t *testing.T) {
	c := newCluster(t, options{workers: 2, slots: 4})
	for i, way := range [][]string{{}, {"--drain"}} {
		out := filepath.Join(t.TempDir(), "out")
		a := c.run("submit", bin("nexmark"), "--name", "house", "-p", "query=q5", "-p", "events=0", "-p", "rate=20000", "-p", "usPerEvent=1000", "-p", "out="+out,
			"--parallelism", "2", "--set", "mode=streaming", "--set", "checkpoint.interval=200ms", "--set", "checkpoint.min-pause=50ms", "--set", "checkpoint.retained=2")
		if a.exit != exitOK {
			t.Fatal(a)
		}
		job := []string{"house-1", "house-2"}[i]
		await(t, func() bool { return c.newest(job) >= 3 })
		if a := c.run("savepoint", "create", job); a.exit != exitOK || !strings.Contains(a.out, "RUNNING") {
			t.Fatal(a)
		}
		if a := c.run(append([]string{"stop", job}, way...)...); a.exit != exitOK || !strings.Contains(a.out, "STOPPED") {
			t.Fatal(a)
		}
		var k kept
		c.decode(&k, "checkpoints", job)
		if n := len(k.Kept); n < 2 || k.Kept[n-1].ID <= k.Kept[0].ID {
			t.Errorf("kept: %+v", k)
		}
		if parts, err := filepath.Glob(filepath.Join(out, "part-*")); err != nil || len(parts) == 0 {
			t.Errorf("nothing is published: %v", err)
		}
		await(t, func() bool { return len(c.taskProcesses(t)) == 0 })
		if a := c.run("savepoint", "create", job); a.exit != exitPrecondition {
			t.Errorf("a savepoint of a job that has stopped: %v", a)
		}
	}
	if a := c.run("checkpoints", "house-9"); a.exit != exitNotFound {
		t.Error(a)
	}
	if a := c.run("savepoint", "delete", "house-1:1"); a.exit != exitPrecondition && a.exit != exitPlan {
		t.Errorf("a periodic checkpoint was deleted: %v", a)
	}
}
