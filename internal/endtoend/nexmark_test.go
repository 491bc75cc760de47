package endtoend

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// auctions is a profile of the auction workload, with the answers of other programs.
type auctions struct {
	Name       string
	Seed       uint64
	UsPerEvent int64
	N          int64
	Queries    map[string]digest
}

func tiny(t *testing.T) auctions {
	t.Helper()
	raw, err := os.ReadFile(absolute(t, "examples", "nexmark", "data", "nx1_expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Runs []auctions }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(file.Runs, func(a auctions) bool { return a.Name == "tiny" })
	if i < 0 || len(file.Runs[i].Queries) < 22 {
		t.Fatalf("%d runs, the tiny one is number %d", len(file.Runs), i)
	}
	return file.Runs[i]
}

// params of a query, NAME=VALUE.
func (a auctions) params(query, out string) []string {
	return []string{"query=" + query, "out=" + out, "seed=" + strconv.FormatUint(a.Seed, 10),
		"events=" + strconv.FormatInt(a.N, 10), "usPerEvent=" + strconv.FormatInt(a.UsPerEvent, 10)}
}

// The program by itself, without the race detector; q12 follows the clock and is examples/nexmark's business.
func TestEveryAuctionQueryIsExactAtAnyParallelism(t *testing.T) {
	profile := tiny(t)
	for _, query := range slices.Sorted(maps.Keys(profile.Queries)) {
		for _, way := range []struct{ parallelism, mode string }{{"1", "streaming"}, {"4", "streaming"}, {"2", "auto"}} {
			out := filepath.Join(t.TempDir(), "out")
			args := []string{"--sluice.parallelism=" + way.parallelism, "--sluice.mode=" + way.mode}
			for _, p := range profile.params(query, out) {
				args = append(args, "--"+p)
			}
			a := job(t, "nexmark", args...)
			if got := digestOf(t, out); a.exit != exitOK || got != profile.Queries[query] {
				t.Errorf("%s at parallelism %s in mode %s: digest %+v, want %+v\n%v", query, way.parallelism, way.mode, got, profile.Queries[query], a)
			}
		}
	}
}

func TestAuctionQueriesAreExactOnACluster(t *testing.T) {
	profile := tiny(t)
	c := newCluster(t, options{workers: 2, slots: 4})
	for _, query := range []string{
		"q5",   // sliding windows, and the most of each
		"q8",   // two streams in one window
		"q9",   // a join, and the best of each key
		"q11b", // sessions
		"q13",  // a bounded table beside the stream
		"q19",  // the first ten of each key
	} {
		out := filepath.Join(t.TempDir(), query)
		args := []string{"--parallelism", "4", "--set", "mode=streaming", "--set", "state.memory=4MiB"}
		for _, p := range profile.params(query, out) {
			args = append(args, "-p", p)
		}
		c.finish("nexmark", args...)
		if got := digestOf(t, out); got != profile.Queries[query] {
			t.Errorf("%s: digest %+v, want %+v", query, got, profile.Queries[query])
		}
	}
}

// An auction house that never closes: the job runs, its windows come out, and it ends when it is told to.
func TestAnEndlessJobRunsUntilItIsCancelled(t *testing.T) {
	c := newCluster(t, options{workers: 2, slots: 2})
	out := filepath.Join(t.TempDir(), "out")
	a := c.run("submit", bin("nexmark"), "--name", "house", "-p", "query=q5", "-p", "events=0", "-p", "rate=20000", "-p", "usPerEvent=1000",
		"-p", "out="+out, "--parallelism", "2")
	if a.exit != exitOK {
		t.Fatal(a)
	}
	for last, growths := int64(0), 0; growths < 3; {
		await(t, func() bool {
			s := c.status("house-1")
			if s.Failure != nil {
				t.Fatalf("the job failed: %+v", s.Failure)
			}
			if s.Status != "JOB_RUNNING" {
				return false
			}
			now := s.written()
			grown := now > last
			last = now
			return grown
		})
		growths++
	}
	pids := c.taskProcesses(t)
	if len(pids) == 0 {
		t.Error("no task process runs")
	}
	if a := c.run("cancel", "house-1"); a.exit != exitOK {
		t.Fatal(a)
	}
	if a := c.run("wait", "house-1"); a.exit != exitCancelled {
		t.Errorf("wait: %v", a)
	}
	if s := c.status("house-1"); s.Status != "JOB_CANCELLED" {
		t.Errorf("it is %s", s.Status)
	}
	await(t, func() bool { return len(c.taskProcesses(t)) == 0 })
	if parts, err := filepath.Glob(filepath.Join(out, "part-*")); err != nil || len(parts) > 0 {
		t.Errorf("a cancelled job has published %q, %v", parts, err)
	}
}

// written is how many records the sinks of a job have been given.
func (s jobStatus) written() (n int64) {
	for _, task := range s.Subtasks {
		if task.Counters != nil && slices.Contains(task.Operators, "out") {
			n += task.Counters.RecordsIn
		}
	}
	return n
}

// taskProcesses are the ids of the task processes that the workers have started and that still run.
func (c *cluster) taskProcesses(t *testing.T) (pids []int) {
	t.Helper()
	records, err := filepath.Glob(filepath.Join(c.dir, "w*", "processes", "*", "process"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range records {
		raw, err := os.ReadFile(name)
		if err != nil {
			continue // it has gone meanwhile
		}
		_, body, _ := strings.Cut(string(raw), "\n") // kind and version; the record; its checksum
		body, _, _ = strings.Cut(body, "\n")
		var record struct{ Pid int }
		if err := json.Unmarshal([]byte(body), &record); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if p, err := os.FindProcess(record.Pid); err == nil && p.Signal(syscall.Signal(0)) == nil {
			pids = append(pids, record.Pid)
		}
	}
	return pids
}
