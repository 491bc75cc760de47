package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluiceio/sluice/jepsen/cluster/link"
)

// A run that has died is known by its mark: what stands in it is removed, and nothing else.
func TestOnlyWhatADeadRunHasMarkedIsSwept(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	start := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "JEPSEN_NODE=stubborn")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		return cmd
	}
	marked1, stranger, reused := start(), start(), start()
	s, err := readStat(marked1.Process.Pid)
	if err != nil {
		t.Skip("no /proc: ", err)
	}
	if err := os.MkdirAll(marks(), 0o700); err != nil {
		t.Fatal(err)
	}
	var text []byte
	for _, m := range []marked{{PID: marked1.Process.Pid, Start: s.start}, {PID: reused.Process.Pid, Start: "1"}, {Namespace: "default"}, {Bridge: "lo"}} {
		line, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, line...), '\n')
	}
	text = append(text, `{"pid":`...) // torn
	dead := filepath.Join(marks(), "1-1")
	alive := filepath.Join(marks(), fmt.Sprintf("%d-%s", os.Getpid(), ownStart(t)))
	for _, name := range []string{dead, alive} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	swept, err := Sweep()
	if err != nil || swept.Processes != 1 || swept.Networks != 0 {
		t.Errorf("%+v, %v", swept, err)
	}
	_ = marked1.Wait()
	if (Task{PID: marked1.Process.Pid, start: s.start}).Alive() {
		t.Error("the marked process lives")
	}
	for _, cmd := range []*exec.Cmd{stranger, reused} {
		if st, err := readStat(cmd.Process.Pid); err != nil || st.gone() {
			t.Error("a process that was not marked is gone")
		}
	}
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Error("the mark of the dead run is there")
	}
	if _, err := os.Stat(alive); err != nil {
		t.Error("the mark of a live run is gone")
	}
}

func ownStart(t *testing.T) string {
	t.Helper()
	s, err := readStat(os.Getpid())
	if err != nil {
		t.Skip(err)
	}
	return s.start
}

func TestWhoHasDialledIsKnownByTheConnection(t *testing.T) {
	c := layout(t, "obedient")
	if from := c.dialler("127.0.0.1:1"); from != "*" {
		t.Errorf("nobody's connection is of %s", from)
	}
	if _, ok := socketOf("no address"); ok {
		t.Error("a socket without an address")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// In namespaces a direction is cut by a route, and everything is removed in the end.
func TestNamespacesAreCutAndRemoved(t *testing.T) {
	if why := NamespacesNeed(); why != nil {
		t.Skip(why)
	}
	p := Namespaces(251)
	c, err := New(Options{Binary: os.Args[0], Dir: t.TempDir(), Coordinators: 1, Workers: 1, Slots: 1, Placement: p, Env: []string{"JEPSEN_NODE=obedient"}})
	if err != nil {
		t.Fatal(err)
	}
	ns := p.(*namespaces)
	names := append([]string{}, ns.names...)
	ping := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		out, err := exec.CommandContext(ctx, "ip", "-n", names[0], "route", "get", ns.at["worker-1"]).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	if err := ping(); err != nil {
		t.Errorf("before the cut: %v", err)
	}
	cut := link.Direction{From: "coordinator-1", To: "worker-1"}
	if err := c.Link(cut, link.Rule{Cut: true}); err != nil {
		t.Error(err)
	}
	if ping() == nil {
		t.Error("there is a route over the cut")
	}
	if err := c.HealLinks(); err != nil {
		t.Error(err)
	}
	if err := ping(); err != nil {
		t.Errorf("after the cut: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join("/var/run/netns", name)); err == nil {
			t.Errorf("namespace %s is there", name)
		}
	}
}
