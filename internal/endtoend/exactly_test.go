package endtoend

import (
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// kept is the part of `sluice checkpoints -o json` that tests look at.
type kept struct {
	Kept []struct {
		ID uint64 `json:",string"`
	}
}

// newest is the newest completed checkpoint of a job; 0: none.
func (c *cluster) newest(job string) uint64 {
	var k kept
	c.decode(&k, "checkpoints", job)
	if n := len(k.Kept); n > 0 {
		return k.Kept[n-1].ID
	}
	return 0
}

// leader is the name of the coordinator that leads.
func (c *cluster) leader() string {
	var info struct {
		Peers []struct {
			APIAddress, Role string
		}
	}
	c.decode(&info, "peers")
	for _, p := range info.Peers {
		if p.Role == "leader" {
			for i, addr := range strings.Split(c.addr, ",") {
				if addr == p.APIAddress {
					return "c" + strconv.Itoa(i+1)
				}
			}
		}
	}
	c.t.Fatalf("nobody leads: %+v", info)
	return ""
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill %d: %v", pid, err)
	}
}

// TestOutputIsExactWhateverIsKilled kills task processes between checkpoints, once the leader and once a whole worker, while
// queries with windows, joins and sessions write. What the sinks have published in the end is what the oracle says, row by row.
func TestOutputIsExactWhateverIsKilled(t *testing.T) {
	profile := tiny(t)
	c := newCluster(t, options{workers: 3, slots: 4, args: []string{"--coordinators", "3"}})
	random := rand.New(rand.NewPCG(7, 7))
	for i, query := range []string{"q5", "q8", "q11b"} {
		out := filepath.Join(t.TempDir(), query)
		args := []string{"submit", bin("nexmark"), "--name", query, "--parallelism", "3", "-p", "rate=" + strconv.FormatInt(profile.N/6, 10),
			"--set", "mode=streaming", "--set", "checkpoint.interval=100ms", "--set", "checkpoint.min-pause=10ms"}
		for _, p := range profile.params(query, out) {
			args = append(args, "-p", p)
		}
		if a := c.run(args...); a.exit != exitOK {
			t.Fatal(a)
		}
		job := query + "-" + strconv.Itoa(i+1)
		for killed := range 3 {
			seen := c.newest(job)
			await(t, func() bool { return c.newest(job) >= seen+2 })
			switch {
			case killed == 1 && query == "q8":
				kill(t, c.pids[c.leader()])
			case killed == 1 && query == "q11b":
				kill(t, c.pids["w2"])
			default:
				pids := c.taskProcesses(t)
				if len(pids) == 0 {
					t.Fatal("no task process runs")
				}
				kill(t, pids[random.IntN(len(pids))])
			}
		}
		if a := c.run("wait", job); a.exit != exitOK {
			t.Fatal(a)
		}
		if got := digestOf(t, out); got != profile.Queries[query] {
			t.Errorf("%s: digest %+v, want %+v", query, got, profile.Queries[query])
		}
	}
}
