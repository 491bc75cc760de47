package endtoend

import (
	"os"
	"path/filepath"
	"testing"
)

// copies is what `sluice checkpoints -o json` says of the newest kept checkpoint.
type copies struct {
	Kept []struct {
		ID                       uint64 `json:",string"`
		Objects                  int
		UnderReplicated, Missing int
	}
}

// TestOneNodeAfterTheOtherIsLostWithItsDisk takes three of four workers away, each with its disk, and each only when what lay on the one
// before has two copies again. In the end a job goes on from the savepoint on the last worker, and the output of all is what the oracle says.
func TestOneNodeAfterTheOtherIsLostWithItsDisk(t *testing.T) {
	c := newCluster(t, options{workers: 4, slots: 2, args: []string{"--coordinators", "1"}})
	out := filepath.Join(t.TempDir(), "q5")
	c.nexmark("q5", out, 6, "--parallelism", "2")
	await(t, func() bool { return c.newest("q5-1") >= 5 })
	if a := c.run("stop", "q5-1"); a.exit != exitOK {
		t.Fatal(a)
	}
	for i, name := range []string{"w1", "w2", "w3"} {
		disk := filepath.Join(c.dir, name)
		if _, err := os.Stat(disk); err != nil {
			t.Fatal(err)
		}
		kill(t, c.pids[name])
		if err := os.RemoveAll(disk); err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			break // one worker is left, and one copy
		}
		await(t, func() bool {
			if c.alive() != 3-i {
				return false // it is not known to be lost yet
			}
			var k copies
			c.decode(&k, "checkpoints", "q5-1")
			n := k.Kept[len(k.Kept)-1]
			if n.Missing > 0 {
				t.Fatalf("after %s: %+v", name, n)
			}
			return n.UnderReplicated == 0
		})
	}
	c.nexmark("q5", out, 2, "--parallelism", "1", "--from-savepoint", "q5-1")
	c.isExact("q5-2", "q5", out)
}

// alive is the number of workers that are.
func (c *cluster) alive() (n int) {
	var list struct {
		Workers []struct{ Worker struct{ Health string } }
	}
	c.decode(&list, "workers")
	for _, w := range list.Workers {
		if w.Worker.Health == "WORKER_ALIVE" {
			n++
		}
	}
	return n
}
