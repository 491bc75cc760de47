package cluster

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"
)

// parentNode is a started node that has started a process itself.
func parentNode(t *testing.T) (*Cluster, *Node, Task) {
	t.Helper()
	c := layout(t, "parent")
	n := c.Role(Worker)[0]
	if _, err := n.Tasks(); err == nil {
		t.Error("a node that does not run has tasks")
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	started(t, n, 1) // of the child, which shares the log
	tasks, err := n.Tasks()
	if err != nil || len(tasks) != 1 || !tasks[0].Alive() {
		t.Fatalf("tasks %v, %v", tasks, err)
	}
	return c, n, tasks[0]
}

func TestACrashEndsAWorkerWithAllThatItHasStarted(t *testing.T) {
	_, n, task := parentNode(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := n.Crash(ctx); err != nil {
		t.Fatal(err)
	}
	if n.Alive() || task.Alive() {
		t.Errorf("after a crash the node lives: %t, its task: %t", n.Alive(), task.Alive())
	}
	if err := task.Kill(); err != nil { // whoever has its number now is left alone
		t.Error(err)
	}
}

func TestATaskIsPausedAndResumed(t *testing.T) {
	_, n, task := parentNode(t)
	for _, step := range []struct {
		do     func() error
		states []string
	}{{task.Pause, []string{"T"}}, {task.Resume, []string{"S", "R"}}} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for {
			s, err := readStat(task.PID)
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(step.states, s.state) {
				break
			}
			if err := Rest(ctx, time.Millisecond); err != nil {
				t.Fatalf("state %s, want one of %v", s.state, step.states)
			}
		}
	}
	if !n.Alive() {
		t.Error("the node has ended")
	}
}

func TestASignalDoesNotReachAnotherProcessWithTheSameNumber(t *testing.T) {
	_, _, task := parentNode(t)
	stranger := Task{PID: task.PID, start: "1"}
	if stranger.Alive() {
		t.Error("a process that was started at another time counts as this one")
	}
	if err := stranger.Kill(); err != nil || !task.Alive() {
		t.Errorf("killed a stranger: %v", err)
	}
}

func TestOnlyAStoppedNodeIsWiped(t *testing.T) {
	_, n, _ := parentNode(t)
	if err := os.MkdirAll(n.Dir(), 0o755); err != nil {
		t.Fatal(err)
	}
	if n.Wipe() == nil {
		t.Error("the data of a running node was removed")
	}
	if err := n.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := n.Wipe(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(n.Dir()); !os.IsNotExist(err) {
		t.Errorf("the data is there: %v", err)
	}
}
