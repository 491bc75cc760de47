package endtoend

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// nexmark submits a query over the tiny profile, slowed down so that it takes about seconds.
func (c *cluster) nexmark(query, out string, seconds int64, more ...string) {
	c.t.Helper()
	profile := tiny(c.t)
	args := []string{
		"submit", bin("nexmark"), "--name", query, "-p", "rate=" + strconv.FormatInt(profile.N/seconds, 10),
		"--set", "mode=streaming", "--set", "checkpoint.min-pause=10ms",
	}
	if !slices.ContainsFunc(more, func(a string) bool { return strings.HasPrefix(a, "checkpoint.interval=") }) {
		args = append(args, "--set", "checkpoint.interval=100ms")
	}
	for _, p := range profile.params(query, out) {
		args = append(args, "-p", p)
	}
	if a := c.run(append(args, more...)...); a.exit != exitOK {
		c.t.Fatal(a)
	}
}

// isExact waits for the end of a job and compares what its sink has published with the oracle.
func (c *cluster) isExact(job, query, out string) {
	c.t.Helper()
	if a := c.run("wait", job); a.exit != exitOK {
		c.t.Fatal(a)
	}
	if got, want := digestOf(c.t, out), tiny(c.t).Queries[query]; got != want {
		c.t.Errorf("%s: digest %+v, want %+v", query, got, want)
	}
}

// TestAJobGoesOnAtAnotherParallelism changes the parallelism under load, three times each, with windows, joins and sessions open and timers
// set; once a task process is killed in between. The output is what the oracle says.
func TestAJobGoesOnAtAnotherParallelism(t *testing.T) {
	c := newCluster(t, options{workers: 2, slots: 4, args: []string{"--coordinators", "1"}})
	for i, query := range []string{"q5", "q8", "q11b"} {
		out := filepath.Join(t.TempDir(), query)
		c.nexmark(query, out, 8, "--parallelism", "1")
		job := query + "-" + strconv.Itoa(i+1)
		for _, n := range []string{"4", "2", "3"} {
			seen := c.newest(job)
			await(t, func() bool { return c.newest(job) >= seen+2 })
			if n == "3" && query == "q8" {
				kill(t, c.taskProcesses(t)[0])
			}
			if a := c.run("rescale", job, n); a.exit != exitOK {
				t.Fatal(a)
			}
		}
		c.isExact(job, query, out)
	}
	if a := c.run("rescale", "q5-1", "2"); a.exit != exitPrecondition {
		t.Errorf("a job that has ended was rescaled: %v", a)
	}
	for _, n := range []string{"0", "-1", "x", "99999999"} {
		if a := c.run("rescale", "--", "q5-1", n); a.exit != exitPlan {
			t.Errorf("parallelism %s: %v", n, a)
		}
	}
}

// TestAJobBeginsWithACheckpointOfAnother stops a job with a savepoint and lets another one go on from it at another parallelism; and the same
// with what a cancelled job keeps. Both together have published what the oracle says.
func TestAJobBeginsWithACheckpointOfAnother(t *testing.T) {
	c := newCluster(t, options{workers: 2, slots: 4, args: []string{"--coordinators", "1"}})
	out := filepath.Join(t.TempDir(), "q5")
	c.nexmark("q5", out, 6, "--parallelism", "2")
	await(t, func() bool { return c.newest("q5-1") >= 3 })
	if a := c.run("stop", "q5-1"); a.exit != exitOK {
		t.Fatal(a)
	}
	at := c.newest("q5-1")
	c.nexmark("q5", out, 6, "--parallelism", "3", "--from-savepoint", "q5-1:"+strconv.FormatUint(at, 10))
	await(t, func() bool { return c.newest("q5-2") >= at+3 })
	if a := c.run("cancel", "q5-2"); a.exit != exitOK {
		t.Fatal(a)
	}
	c.run("wait", "q5-2")
	c.nexmark("q5", out, 6, "--parallelism", "1", "--from-savepoint", "latest")
	c.isExact("q5-3", "q5", out)

	for _, x := range []struct{ from, code string }{{"q5-9:1", "E102"}, {"q5-1:999", "E154"}, {"q5-9", "E102"}} {
		if a := c.run("submit", bin("nexmark"), "--name", "q5", "-p", "query=q5", "-p", "out="+out, "--from-savepoint", x.from); a.exit == exitOK || !a.says(x.code) {
			t.Errorf("from %s: %v", x.from, a)
		}
	}
	// Another query has other operators: their state would be lost.
	c.nexmark("q8", filepath.Join(t.TempDir(), "q8"), 6, "--parallelism", "1", "--from-savepoint", "q5-1")
	if a := c.run("wait", "q8-4"); a.exit != exitFailed || !a.says("E155", "--ignore-state") {
		t.Error(a)
	}
}
