package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary play a node: it says that it started and ends at SIGTERM, unless it is told to ignore it.
func TestMain(m *testing.M) {
	switch os.Getenv("JEPSEN_NODE") {
	case "":
		os.Exit(m.Run())
	case "obedient":
		term := make(chan os.Signal, 1)
		signal.Notify(term, syscall.SIGTERM)
		fmt.Println("started", strings.Join(os.Args[1:], " "))
		<-term
	case "parent":
		parent()
	case "child": // ends when nobody holds the other end of its input any more
		fmt.Println("started")
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("started")
		select {}
	}
}

// parent starts a child that does not outlive it, and ends at SIGTERM.
func parent() {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "JEPSEN_NODE=child")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	in, err := child.StdinPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	<-term
	_ = in.Close() // the child ends
	_ = child.Wait()
}

func layout(t *testing.T, behaviour string) *Cluster {
	t.Helper()
	c, err := New(Options{Binary: os.Args[0], Dir: t.TempDir(), Coordinators: 3, Workers: 2, Slots: 4, Env: []string{"JEPSEN_NODE=" + behaviour}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// started waits until the log of n holds count starts.
func started(t *testing.T, n *Node, count int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		log, err := os.ReadFile(n.LogFile())
		if err == nil && strings.Count(string(log), "started") == count {
			return
		}
		if err := Rest(ctx, 5*time.Millisecond); err != nil {
			t.Fatalf("%s: %v: %s", n.Name(), err, log)
		}
	}
}

// stopped waits until the kernel has stopped n, where it can be seen.
func stopped(t *testing.T, n *Node) {
	t.Helper()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.PID()))
		if err == nil && strings.Contains(string(state), ") T ") {
			return
		}
		if err := Rest(ctx, time.Millisecond); err != nil {
			t.Fatalf("paused node is in state %s", state)
		}
	}
}

func TestANodeIsKilledPausedAndStartedAgain(t *testing.T) {
	c := layout(t, "obedient")
	n := c.Role(Worker)[0]
	if n.Alive() || n.Kill() == nil {
		t.Error("a node that was never started can be killed")
	}
	for start := 1; start <= 2; start++ {
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n.Start(t.Context()) == nil {
			t.Error("a running node was started a second time")
		}
		started(t, n, start)
		if err := n.Pause(); err != nil {
			t.Fatal(err)
		}
		stopped(t, n)
		if err := n.Resume(); err != nil {
			t.Fatal(err)
		}
		if err := n.Kill(); err != nil {
			t.Fatal(err)
		}
		if n.Alive() || n.PID() != 0 {
			t.Error("alive after kill")
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestCloseEndsPausedAndStubbornNodes(t *testing.T) {
	c := layout(t, "stubborn")
	n := c.Role(Coordinator)[0]
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	started(t, n, 1)
	if err := n.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := n.close(50 * time.Millisecond); err == nil {
		t.Error("a node that had to be killed was not reported")
	}
	if n.Alive() {
		t.Error("alive after close")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestEveryNodeHasItsOwnPortsAndKnowsAllCoordinators(t *testing.T) {
	c := layout(t, "obedient")
	seen := map[string]string{}
	for _, n := range c.nodes {
		for _, addr := range []string{n.API, n.HTTP} {
			if other, dup := seen[addr]; dup {
				t.Errorf("%s and %s share %s", n.Name(), other, addr)
			}
			seen[addr] = n.Name()
		}
		if line := strings.Join(n.args, " "); !strings.Contains(line, "--join "+strings.Join(c.Addresses(), ",")) {
			t.Errorf("%s does not join: %s", n.Name(), line)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
