package jepsen_test

import (
	"testing"

	"github.com/sluiceio/sluice/jepsen"
)

// A test of a user's own job: its rows are right although a worker dies in the middle of it. In a test file, of course, the function
// is called TestSomething and has the *testing.T that it is given.
func ExampleNewCluster() {
	test := func(t *testing.T) {
		c := jepsen.NewCluster(t, jepsen.Coordinators(3), jepsen.Workers(3))
		out := t.TempDir()
		job := c.Submit("./orders", jepsen.Param("out", out), jepsen.Parallelism(3))
		c.Kill(c.WorkerOf(job))
		c.AwaitState(job, jepsen.Finished)
		if rows := c.Rows(out); len(rows) != 1000 {
			t.Errorf("%d orders, want 1000", len(rows))
		}
	}
	_ = test
}
