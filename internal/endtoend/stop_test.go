package endtoend

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// exports brings the newest savepoint of a job out of the cluster: it can be moved, and is sound without the cluster.
func (c *cluster) exports(job string) {
	c.t.Helper()
	var k kept
	c.decode(&k, "savepoint", "list", job)
	if len(k.Kept) == 0 {
		c.t.Fatalf("job %s has no savepoint", job)
	}
	id := strconv.FormatUint(k.Kept[len(k.Kept)-1].ID, 10)
	dir := filepath.Join(c.t.TempDir(), "savepoint")
	if a := c.run("savepoint", "export", job, id, dir); a.exit != exitOK || !strings.Contains(a.out, job+":"+id) {
		c.t.Fatal(a)
	}
	moved := filepath.Join(c.t.TempDir(), "moved")
	if err := os.Rename(dir, moved); err != nil {
		c.t.Fatal(err)
	}
	var report struct {
		Checkpoints []struct{ Job, Outcome string }
		Objects     []struct{ Entries int }
	}
	c.decode(&report, "snapshot", "verify", "--strict", moved)
	entries := 0
	for _, o := range report.Objects {
		entries += o.Entries
	}
	if len(report.Checkpoints) != 1 || report.Checkpoints[0].Job != job || report.Checkpoints[0].Outcome != "whole" || entries == 0 {
		c.t.Errorf("exported: %+v", report)
	}
}

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
		a = c.run("savepoint", "create", job)
		if a.exit != exitOK || !strings.Contains(a.out, "RUNNING") {
			t.Fatal(a)
		}
		c.exports(job)
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
	// The disks of both workers together have everything; of one alone each has copies of all, too, since there are two.
	for _, dirs := range [][]string{{"w1", "w2"}, {"w1"}, {"w2"}} {
		args := []string{"snapshot", "verify"}
		for _, d := range dirs {
			args = append(args, filepath.Join(c.dir, d))
		}
		if a := c.run(args...); a.exit != exitOK || !strings.Contains(a.out, "whole") {
			t.Errorf("%v: %v", dirs, a)
		}
	}
	if a := c.run("checkpoints", "house-9"); a.exit != exitNotFound {
		t.Error(a)
	}
	if a := c.run("savepoint", "delete", "house-1:1"); a.exit != exitPrecondition && a.exit != exitPlan {
		t.Errorf("a periodic checkpoint was deleted: %v", a)
	}
}
