package nemesis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/jepsen/cluster/link"
	"github.com/sluiceio/sluice/jepsen/history"
)

// Hand does single faults to a cluster, records them and counts those that took effect. What it has hurt it can heal at once.
// It may be used by any goroutine.
type Hand struct {
	C   *cluster.Cluster
	Log *history.Recorder

	mu struct {
		sync.Mutex
		took   map[string]int
		worker bool // one was hurt
		paused map[*cluster.Node][]cluster.Task
		dead   map[*cluster.Node]bool
		cuts   map[string]bool // targets of cuts that last
		traces []*trace
		fills  []string
	}
}

// note a fault that took effect.
func (h *Hand) note(what, target, detail string) {
	h.Log.Hurt(what, history.Hurt{Target: target, Detail: detail})
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.took == nil {
		h.mu.took = map[string]int{}
	}
	h.mu.took[what]++
	h.mu.worker = h.mu.worker || strings.Contains(target, string(cluster.Worker))
}

func (h *Hand) healed(what, target string) {
	h.Log.Hurt(what, history.Hurt{Target: target, Heals: true})
}

// Took counts the faults that really took effect.
func (h *Hand) Took() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.mu.took)
}

// TaskNoticed is a task process of a worker that has ended itself at a named point.
func (h *Hand) TaskNoticed(n *cluster.Node) {
	h.note("kill at a point", n.Name(), "task process")
	h.healed("heal", n.Name()) // it is a moment
}

// HurtWorkers reports whether anything was done to a worker.
func (h *Hand) HurtWorkers() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.worker
}

// Kill a node as kill -9 does. Task processes of a worker are left to themselves.
func (h *Hand) Kill(n *cluster.Node) error {
	h.note("kill", n.Name(), "")
	h.remember(n)
	return n.Kill()
}

// Crash a worker with all that it has started.
func (h *Hand) Crash(ctx context.Context, n *cluster.Node) error {
	h.note("crash", n.Name(), "")
	h.remember(n)
	return n.Crash(ctx)
}

// Noticed is what a node has done to itself at a named point of its program: it has ended, or stands still.
func (h *Hand) Noticed(n *cluster.Node, stopped bool) {
	if stopped {
		h.note("pause at a point", n.Name(), "")
		return
	}
	h.note("kill at a point", n.Name(), "")
	h.remember(n)
}

func (h *Hand) remember(n *cluster.Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.dead == nil {
		h.mu.dead = map[*cluster.Node]bool{}
	}
	h.mu.dead[n] = true
}

// Start a node again, on what it left.
func (h *Hand) Start(ctx context.Context, n *cluster.Node) error {
	if n.Alive() {
		return nil
	}
	h.mu.Lock()
	delete(h.mu.dead, n)
	h.mu.Unlock()
	err := n.Start(ctx)
	h.healed("start", n.Name())
	return err
}

// KillTasks ends the task processes of a worker and leaves the worker. It returns how many there were.
func (h *Hand) KillTasks(n *cluster.Node) (int, error) {
	tasks, err := n.Tasks()
	for _, t := range tasks {
		h.note("kill task process", n.Name(), fmt.Sprint(t.PID))
		err = errors.Join(err, t.Kill())
	}
	h.healed("heal", n.Name()) // it is a moment
	return len(tasks), err
}

// Pause a node, with all that it has started.
func (h *Hand) Pause(n *cluster.Node) error {
	h.note("pause", n.Name(), "")
	if err := n.Pause(); err != nil {
		return err
	}
	var tasks []cluster.Task
	var err error
	if n.Role() == cluster.Worker {
		tasks, err = n.Tasks()
	}
	for _, t := range tasks {
		err = errors.Join(err, t.Pause())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.paused == nil {
		h.mu.paused = map[*cluster.Node][]cluster.Task{}
	}
	h.mu.paused[n] = tasks
	return err
}

// Resume a paused node.
func (h *Hand) Resume(n *cluster.Node) error {
	h.mu.Lock()
	tasks := h.mu.paused[n]
	delete(h.mu.paused, n)
	h.mu.Unlock()
	var err error
	for _, t := range tasks {
		err = errors.Join(err, t.Resume())
	}
	if n.Alive() {
		err = errors.Join(err, n.Resume())
	}
	h.healed("resume", n.Name())
	return err
}

// Link hurts one direction of a link. The end of it is HealLinks.
func (h *Hand) Link(what string, from, to string, r link.Rule) error {
	if err := h.C.Link(link.Direction{From: from, To: to}, r); err != nil {
		return err
	}
	target := from + ">" + to
	h.note(what, target, "")
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.cuts == nil {
		h.mu.cuts = map[string]bool{}
	}
	h.mu.cuts[target] = true
	return nil
}

// Cut every direction between two sets of nodes.
func (h *Hand) Cut(a, b []*cluster.Node) error {
	var errs []error
	for _, x := range a {
		for _, y := range b {
			errs = append(errs, h.Link("cut", x.Name(), y.Name(), link.Rule{Cut: true}), h.Link("cut", y.Name(), x.Name(), link.Rule{Cut: true}))
		}
	}
	return errors.Join(errs...)
}

// HealLinks ends everything that Link has done.
func (h *Hand) HealLinks() error {
	err := h.C.HealLinks()
	h.mu.Lock()
	targets := slices.Sorted(maps.Keys(h.mu.cuts))
	clear(h.mu.cuts)
	h.mu.Unlock()
	for _, t := range targets {
		h.healed("heal", t)
	}
	return err
}

// trace is a strace that injects into a process.
type trace struct {
	node  *cluster.Node
	cmd   *exec.Cmd
	group *run.Group
}

// StraceNeed says why system calls cannot be hurt here; nil: they can.
func StraceNeed() error {
	if _, err := exec.LookPath("strace"); err != nil {
		return errors.New("faults of system calls need the command strace")
	}
	out, err := exec.Command("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync", "-e", "inject=fsync:delay_enter=1", "true").CombinedOutput()
	if err != nil {
		return fmt.Errorf("strace cannot inject here: %w: %s", err, out)
	}
	return nil
}

// Syscalls hurts system calls of a node, in the words of `strace -e inject=`, for example "fsync,fdatasync:delay_enter=60s" or
// "fdatasync:error=EIO:when=1". It ends with HealSyscalls, or with the process.
func (h *Hand) Syscalls(ctx context.Context, n *cluster.Node, inject string) error {
	calls, _, _ := strings.Cut(inject, ":")
	cmd := exec.Command("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace="+calls, "-e", "inject="+inject, "-p", fmt.Sprint(n.PID()))
	if err := cmd.Start(); err != nil {
		return err
	}
	t := &trace{node: n, cmd: cmd, group: run.NewGroup(context.WithoutCancel(ctx), "strace")}
	ended := make(chan struct{})
	t.group.Go("reap", func(context.Context) error {
		defer close(ended)
		_ = cmd.Wait()
		return nil
	})
	h.mu.Lock()
	h.mu.traces = append(h.mu.traces, t)
	h.mu.Unlock()
	for !traced(n.PID()) {
		select {
		case <-ended:
			return fmt.Errorf("strace of %s ended at once", n.Name())
		default:
		}
		if err := cluster.Rest(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	h.note("system calls", n.Name(), inject)
	return nil
}

// traced reports whether somebody traces a process.
func traced(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return true // it has ended: nothing to wait for
	}
	for line := range strings.Lines(string(raw)) {
		if after, ok := strings.CutPrefix(line, "TracerPid:"); ok {
			return strings.TrimSpace(after) != "0"
		}
	}
	return false
}

// HealSyscalls lets every process alone again.
func (h *Hand) HealSyscalls() error {
	h.mu.Lock()
	traces := h.mu.traces
	h.mu.traces = nil
	h.mu.Unlock()
	var errs []error
	for _, t := range traces {
		_ = t.cmd.Process.Kill() // the kernel lets go of what it traces; asked politely it waits for the call that it delays
		errs = append(errs, t.group.Wait())
		h.healed("heal", t.node.Name())
	}
	return errors.Join(errs...)
}

// Fill a directory's file system until it is full. Only one that was made for it: a node's own, see cluster.Options.
func (h *Hand) Fill(n *cluster.Node) error {
	name := filepath.Join(n.Dir(), "fill")
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.mu.fills = append(h.mu.fills, name)
	h.mu.Unlock()
	h.note("disk full", n.Name(), "")
	chunk := make([]byte, 1<<20)
	for size := len(chunk); size > 0; {
		if _, err := f.Write(chunk[:size]); err != nil {
			size /= 2
		}
	}
	return f.Close()
}

// Free what Fill has filled.
func (h *Hand) Free() error {
	h.mu.Lock()
	fills := h.mu.fills
	h.mu.fills = nil
	h.mu.Unlock()
	var errs []error
	for _, name := range fills {
		errs = append(errs, os.Remove(name))
		h.healed("heal", filepath.Base(filepath.Dir(name)))
	}
	return errors.Join(errs...)
}

// HealAll ends every fault that lasts: dead nodes start, paused ones go on, links and system calls are let alone.
func (h *Hand) HealAll(ctx context.Context) error {
	h.mu.Lock()
	paused, dead := slices.Collect(maps.Keys(h.mu.paused)), slices.Collect(maps.Keys(h.mu.dead))
	h.mu.Unlock()
	errs := []error{h.HealSyscalls(), h.Free(), h.HealLinks()}
	for _, n := range paused {
		errs = append(errs, h.Resume(n))
	}
	for _, n := range dead {
		errs = append(errs, h.Start(ctx, n))
	}
	return errors.Join(errs...)
}
