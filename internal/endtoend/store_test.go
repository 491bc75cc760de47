package endtoend

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checkpoints is the part of `sluice checkpoints -o json` that tells how the last ones went.
type checkpoints struct {
	Failed  int
	History []struct {
		Completed bool
		Failure   *struct{ Code, Message string }
	}
}

// endless submits a job that never ends and checkpoints often.
func (c *cluster) endless(name string, args ...string) {
	c.t.Helper()
	a := c.run(append([]string{"submit", bin("nexmark"), "--name", name, "-p", "query=q5", "-p", "events=0", "-p", "rate=5000", "-p", "usPerEvent=1000",
		"-p", "out=" + filepath.Join(c.t.TempDir(), "out"), "--parallelism", "2", "--set", "mode=streaming",
		"--set", "checkpoint.interval=200ms", "--set", "checkpoint.min-pause=50ms"}, args...)...)
	if a.exit != exitOK {
		c.t.Fatal(a)
	}
}

func contains(text string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// TestAStoreThatFailsCostsCheckpointsAndThenTheJob breaks the store of a worker under a running job: full, read-only, gone. Checkpoints fail and
// say why, the job goes on; when the store is mended, so do checkpoints. A job that tolerates few failures follows its restart strategy.
func TestAStoreThatFailsCostsCheckpointsAndThenTheJob(t *testing.T) {
	c := newCluster(t, options{workers: 2, slots: 4, cage: &cage{dir: "w1/snapshots", options: "size=16m"}})
	small, other := filepath.Join(c.dir, "w1", "snapshots"), filepath.Join(c.dir, "w2", "snapshots")
	away := other + "-away"
	shell := func(script string) func() {
		return func() {
			t.Helper()
			if a := inside(t, c.pids["w1"], script, small); a.exit != exitOK {
				t.Fatal(a)
			}
		}
	}
	move := func(from, to string) func() {
		return func() {
			t.Helper()
			if err := os.Rename(from, to); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.endless("steady", "--set", "checkpoint.tolerable=1000000")
	await(t, func() bool { return c.newest("steady-1") >= 2 })
	for _, x := range []struct {
		what        string
		broken      func()
		mended      func()
		says, where string
	}{
		{"full", shell(`cat /dev/zero > "$1/ballast" || true`), shell(`rm "$1/ballast"`), "no space left", "snapshots"},
		{"read-only", shell(`mount -o remount,ro "$1"`), shell(`mount -o remount,rw "$1"`), "read-only", "snapshots"},
		{"gone", move(other, away), move(away, other), "no such file", other},
	} {
		seen := c.newest("steady-1")
		x.broken()
		var k checkpoints
		await(t, func() bool {
			c.decode(&k, "checkpoints", "steady-1")
			return k.Failed >= 2
		})
		last := k.History[len(k.History)-1]
		if f := last.Failure; last.Completed || f == nil || f.Code != "E151" || !strings.Contains(f.Message, x.says) || !strings.Contains(f.Message, x.where) {
			t.Errorf("%s: the last checkpoint: %+v, %+v", x.what, last, last.Failure)
		}
		if a := c.run("status", "steady-1"); a.exit != exitOK || !contains(a.out, "RUNNING", "checkpoints given up in a row", "E151", x.says, "restarts 0  losses 0") {
			t.Errorf("%s: %v", x.what, a)
		}
		x.mended()
		await(t, func() bool { return c.newest("steady-1") >= seen+2 })
		if a := c.run("status", "steady-1"); strings.Contains(a.out, "given up") {
			t.Errorf("%s, mended: %v", x.what, a)
		}
	}
	if a := c.run("stop", "steady-1"); a.exit != exitOK {
		t.Fatal(a)
	}
	if a := c.run("snapshot", "verify", filepath.Join(c.dir, "w2")); a.exit != exitOK {
		t.Errorf("after all that: %v", a)
	}
	c.endless("fickle", "--set", "checkpoint.tolerable=2", "--set", "restart=fixed(1,10ms)")
	await(t, func() bool { return c.newest("fickle-2") >= 1 })
	move(other, away)()
	defer move(away, other)()
	a := c.run("wait", "fickle-2")
	if a.exit != exitFailed || !a.says("E150", "3 checkpoints in a row", "checkpoint.tolerable", "E151", other) {
		t.Errorf("a job that tolerates two: %v", a)
	}
	var s struct{ Restarts int }
	c.decode(&s, "status", "fickle-2")
	if s.Restarts != 1 {
		t.Errorf("it was restarted %d times, its strategy says once", s.Restarts)
	}
}
