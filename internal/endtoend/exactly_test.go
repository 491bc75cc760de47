package endtoend

import (
	"flag"
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

// finished reports whether a job has.
func (c *cluster) finished(job string) bool {
	return c.status(job).Status == "JOB_FINISHED"
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

var (
	kills = flag.Int("kills", 0, "kills of task processes, spread over queries and intervals; 0: as many as a commit is worth")
	seed  = flag.Uint64("seed", 7, "of the choice of victims")
)

// TestOutputIsExactWhateverIsKilled kills task processes between checkpoints, once the leader and once a whole worker, while
// queries with windows, joins and sessions write. What the sinks have published in the end is what the oracle says, row by row.
func TestOutputIsExactWhateverIsKilled(t *testing.T) {
	queries, each := []string{"q5", "q8", "q11b"}, 3
	if *kills > 0 {
		queries = []string{"q5", "q8", "q11b", "q7", "q1", "q2", "q21", "q22"} // whose every part takes checkpoints
		each = max(3, (*kills+len(queries)-1)/len(queries))
	}
	c := newCluster(t, options{workers: 3, slots: 4, args: []string{"--coordinators", "3"}})
	random := rand.New(rand.NewPCG(*seed, 7))
	hit := 0
	for i, query := range queries {
		out := filepath.Join(t.TempDir(), query)
		interval, seconds := "100ms", int64(2*each)
		if *kills > 0 { // each comes behind the second checkpoint after the one before
			interval, seconds = []string{"100ms", "1s"}[i%2], int64(4*each*(1+i%2))
		}
		c.nexmark(query, out, seconds, "--parallelism", "3", "--set", "checkpoint.interval="+interval)
		job := query + "-" + strconv.Itoa(i+1)
		for killed := range each {
			seen := c.newest(job)
			await(t, func() bool { return c.newest(job) > seen+1 || c.finished(job) })
			pids := c.taskProcesses(t)
			switch {
			case killed == 1 && query == "q8":
				kill(t, c.pids[c.leader()])
			case killed == 1 && query == "q11b":
				kill(t, c.pids["w2"])
			case len(pids) > 0:
				kill(t, pids[random.IntN(len(pids))])
			default:
				continue
			}
			hit++
		}
		c.isExact(job, query, out)
	}
	if t.Logf("%d kills, seed %d", hit, *seed); hit < len(queries)*each*2/3 {
		t.Errorf("only %d kills hit a job that ran", hit)
	}
}
