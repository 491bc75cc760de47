package endtoend

import (
	"fmt"
	"path/filepath"
	"testing"
)

// greedy is a sort of some 64 MiB with 4 MiB of memory: it spills more than the small disks of these tests hold.
func greedy(out string) []string {
	return []string{"-p", "job=sort", "-p", "rows=256000", "-p", "size=250", "-p", "out=" + out,
		"--parallelism", "1", "--set", "batch.memory=4MiB", "--set", "batch.compression=none"}
}

type workers struct {
	Workers []struct {
		Worker struct{ ID, Incarnation, Health string }
	}
}

// neighbour is a job on the same worker that has to go on whatever happens to another one.
type neighbour struct {
	c       *cluster
	out     string
	workers workers // when it began
}

func startNeighbour(c *cluster) *neighbour {
	t := c.t
	t.Helper()
	n := &neighbour{c: c, out: filepath.Join(t.TempDir(), "steady")}
	c.decode(&n.workers, "workers")
	a := c.run(append([]string{"submit", bin("flights"), "--name", "steady", "--parallelism", "1", "-p", "rate=60000"}, flightsArgs(t, "f1", n.out)...)...)
	if a.exit != exitOK {
		t.Fatal(a)
	}
	return n
}

// unharmed: it has finished in its first attempt with the right answer, and the worker is the same as before.
func (n *neighbour) unharmed() {
	t := n.c.t
	t.Helper()
	if a := n.c.run("wait", "steady-1"); a.exit != exitOK {
		t.Fatal(a)
	}
	if got, want := digestOf(t, n.out), expected(t)["f1"]; got != want {
		t.Errorf("the neighbour: digest %+v, want %+v", got, want)
	}
	for _, task := range n.c.status("steady-1").Subtasks {
		if task.Attempt != 1 {
			t.Errorf("the neighbour was restarted: %+v", task)
		}
	}
	var now workers
	n.c.decode(&now, "workers")
	if fmt.Sprint(now) != fmt.Sprint(n.workers) {
		t.Errorf("the worker was %v, and is %v", n.workers, now)
	}
}

// sortsAgain: there is room for a job that spills less.
func (c *cluster) sortsAgain() {
	t := c.t
	t.Helper()
	out := filepath.Join(t.TempDir(), "modest")
	c.finish("trial", "-p", "job=sort", "-p", "rows=40000", "-p", "size=250", "-p", "out="+out, "--parallelism", "1", "--set", "batch.memory=4MiB")
	if n := len(rowsOf(t, out)); n != 40_000 {
		t.Errorf("%d rows, want 40,000", n)
	}
}

func TestAFullSpillDiskFailsTheJobAndNothingElse(t *testing.T) {
	c := newCluster(t, options{workers: 1, slots: 2, cage: &cage{dir: "w1/processes", options: "size=24m"}})
	n := startNeighbour(c)
	out := filepath.Join(t.TempDir(), "sorted")
	a := c.submit("trial", append(greedy(out), "--set", "restart=none")...)
	if a.exit != exitFailed || !a.says("E125", "processes", "spill", "bytes", "no space left") {
		t.Errorf("%v", a)
	}
	if rows := rowsOf(t, out); len(rows) > 0 {
		t.Errorf("%d rows of a failed job were published", len(rows))
	}
	n.unharmed()
	c.sortsAgain() // what was spilled has gone with the job
}

// makeReadOnly waits until a process of the job is there, and lets nobody write into its spill directory any more.
const makeReadOnly = `set -e
for i in $(seq 1000); do
	record=$(grep -rl --include=process "$2" "$1") && break
	sleep 0.01
done
cd "${record%/process}/spill"
mount --bind . .
mount -o remount,ro,bind "$PWD"`

func TestAReadOnlySpillDirectoryFailsTheJobForGoodAndNothingElse(t *testing.T) {
	c := newCluster(t, options{workers: 1, slots: 2, cage: &cage{dir: "w1/processes", options: "size=64m"}})
	n := startNeighbour(c)
	out := filepath.Join(t.TempDir(), "joined")
	// Pipelined, so that the join spills as soon as its memory is full: after half a second or so.
	a := c.run("submit", bin("trial"), "--name", "joining", "-p", "job=hotkey", "-p", "rows=100000", "-p", "size=250", "-p", "rate=10000", "-p", "out="+out,
		"--parallelism", "1", "--set", "mode=streaming", "--set", "batch.memory=4MiB")
	if a.exit != exitOK {
		t.Fatal(a)
	}
	if a := inside(t, c.pids["w1"], makeReadOnly, filepath.Join(c.dir, "w1", "processes"), "joining-2"); a.exit != exitOK {
		t.Fatal(a)
	}
	a = c.run("wait", "joining-2")
	if a.exit != exitFailed || !a.says("E125", "processes", "spill", "bytes", "read-only") {
		t.Errorf("%v", a)
	}
	for _, task := range c.status("joining-2").Subtasks {
		if task.Attempt > 1 { // a directory that stays read-only is not tried again, whatever the restart strategy says
			t.Errorf("it was restarted: %+v", task)
		}
	}
	n.unharmed()
	c.sortsAgain()
}

func TestAnEmbeddedJobThatHasNowhereToSpillSaysWhere(t *testing.T) {
	requireCages(t)
	tmp := t.TempDir()
	out := filepath.Join(t.TempDir(), "out")
	c := &cage{dir: "tmp", options: "ro"}
	name, args := c.wrap(t, tmp, bin("trial"), []string{
		"--job=sort", "--rows=100000", "--size=250", "--out=" + out, "--sluice.parallelism=1", "--sluice.batch.memory=4MiB"})
	a := command(t, []string{"TMPDIR=" + filepath.Join(tmp, "tmp")}, name, args...)
	if a.exit == exitOK || !a.says(filepath.Join(tmp, "tmp"), "read-only") {
		t.Error(a)
	}
}
