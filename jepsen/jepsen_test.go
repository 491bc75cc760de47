//go:build jepsen

package jepsen_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/sluiceio/sluice/jepsen"
)

// binary is what `make build` leaves; it is its own job binary.
const binary = "../bin/sluice"

// These are the 25 lines that a user writes.
func TestNoRecordIsLostWithAWorker(t *testing.T) {
	c := jepsen.NewCluster(t, jepsen.Coordinators(3), jepsen.Workers(3), jepsen.Binary(sluice()))
	out := t.TempDir()
	job := c.Submit(sluice(), jepsen.Param("job", "pass"), jepsen.Param("records", "20000"), jepsen.Param("rate", "10000"),
		jepsen.Param("keys", "10"), jepsen.Param("out", out), jepsen.Parallelism(3))
	c.Kill(c.WorkerOf(job))
	c.AwaitState(job, jepsen.Finished)
	var want []string
	for i := range 20000 {
		want = append(want, fmt.Sprintf("%d|%d", i, i%10))
	}
	slices.Sort(want)
	if got := c.Rows(out); !slices.Equal(got, want) {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
}

func sluice() string {
	if b := os.Getenv("SLUICE_BINARY"); b != "" {
		return b
	}
	return binary
}

func TestALeaderIsLostAndCutOffAndNobodyNotices(t *testing.T) {
	c := jepsen.NewCluster(t, jepsen.Workers(2), jepsen.Proxies(), jepsen.Binary(sluice()))
	job := c.Submit(sluice(), jepsen.Param("job", "count"), jepsen.Param("records", "-1"), jepsen.Param("rate", "1000"), jepsen.Setting("mode", "streaming"))
	before := c.AwaitState(job, jepsen.Running)
	first := c.Leader()
	c.Kill(first)
	if next := c.Leader(); next == first {
		t.Error("the dead leader leads")
	}
	c.Heal()
	cut := c.Leader()
	var others []*jepsen.Node
	for i := range 3 {
		if n := c.Coordinator(i + 1); n != cut {
			others = append(others, n)
		}
	}
	c.Partition([]*jepsen.Node{cut}, others)
	for c.Leader() == cut { // it steps down, or another one has a higher term
		if t.Context().Err() != nil {
			t.Fatal("the leader that was cut off still leads")
		}
	}
	c.Heal()
	after := c.Status(job)
	for i, s := range after.Subtasks {
		if was := before.Subtasks[i]; was.Attempt != s.Attempt {
			t.Errorf("%s[%d]: attempt %d, then %d", s.Operator, s.Index, was.Attempt, s.Attempt)
		}
	}
	c.Pause(c.Worker(1))
	c.Resume(c.Worker(1))
	c.FailPoint(c.Worker(2), "worker.report=1000000:kill")
}
