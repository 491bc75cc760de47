package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/sluiceio/sluice/internal/run"
)

// Role of a node.
type Role string

const (
	Coordinator Role = "coordinator"
	Worker      Role = "worker"
)

// Node is one process and its data directory.
type Node struct {
	name string
	role Role
	// API is the address that clients use (coordinators) or the control address (workers).
	API string
	// HTTP serves /metrics, /healthz and /readyz.
	HTTP string
	dir  string
	site Site
	args []string
	cfg  *Options

	mu struct {
		sync.Mutex
		cmd    *exec.Cmd
		exited chan struct{} // closed when cmd has been reaped; nil before the first start
		group  *run.Group
		starts int
		paused bool
		env    []string // added at the next start
		binary string   // of the next starts; empty: that of the cluster
	}
}

// SetEnv is what the next starts of the node have in their environment on top of the cluster's, for example fail points.
func (n *Node) SetEnv(env ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.env = env
}

// SetBinary is what the next starts of the node run.
func (n *Node) SetBinary(path string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.binary = path
}

// Name is unique in the cluster: coordinator-1, worker-2, …
func (n *Node) Name() string { return n.name }

// Role of the node.
func (n *Node) Role() Role { return n.role }

// Dir is the data directory.
func (n *Node) Dir() string { return n.dir }

// LogFile holds what all starts of the process wrote.
func (n *Node) LogFile() string { return n.dir + ".log" }

// Start runs the process on the data that earlier starts left. It does not wait for readiness.
func (n *Node) Start(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.alive() {
		return fmt.Errorf("%s runs already", n.name)
	}
	if err := os.MkdirAll(filepath.Dir(n.dir), 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(n.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own descriptor
	line := append(slices.Clone(n.site.Prefix), cmp.Or(n.mu.binary, n.cfg.Binary))
	line = append(line, n.args...)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = slices.Concat(os.Environ(), n.cfg.Env, n.mu.env)
	cmd.SysProcAttr = processAttributes()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", n.name, err)
	}
	if s, err := readStat(cmd.Process.Pid); err == nil {
		note(marked{PID: cmd.Process.Pid, Start: s.start})
	}
	n.mu.starts++
	n.mu.paused = false
	n.mu.cmd, n.mu.exited = cmd, make(chan struct{})
	n.mu.group = run.NewGroup(context.WithoutCancel(ctx), n.name)
	exited := n.mu.exited
	n.mu.group.Go("reap", func(context.Context) error {
		defer close(exited)
		_ = cmd.Wait() // its exit status is the business of whoever ended it
		return nil
	})
	return nil
}

// alive needs n.mu.
func (n *Node) alive() bool {
	if n.mu.exited == nil {
		return false
	}
	select {
	case <-n.mu.exited:
		return false
	default:
		return true
	}
}

// Alive reports whether the process exists, paused or not.
func (n *Node) Alive() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.alive()
}

// PID of the running process; 0 if there is none.
func (n *Node) PID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.alive() {
		return 0
	}
	return n.mu.cmd.Process.Pid
}

// Kill ends the process as kill -9 does and returns when it is gone.
func (n *Node) Kill() error {
	exited, err := n.signal(syscall.SIGKILL)
	if err != nil {
		return err
	}
	<-exited
	return nil
}

// Pause stops the process without ending it.
func (n *Node) Pause() error {
	_, err := n.signal(syscall.SIGSTOP)
	return err
}

// Resume continues a paused process.
func (n *Node) Resume() error {
	_, err := n.signal(syscall.SIGCONT)
	return err
}

// Terminate asks the process to end in order and kills it when ctx ends first.
func (n *Node) Terminate(ctx context.Context) error {
	exited, err := n.signal(syscall.SIGTERM)
	if err != nil {
		return err
	}
	select {
	case <-exited:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%s did not end in time: %w", n.name, ctx.Err()), n.Kill())
	}
}

// signal returns what is closed when the process that got it has ended: the node may have been started again by then.
func (n *Node) signal(s syscall.Signal) (exited <-chan struct{}, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.alive() {
		return nil, fmt.Errorf("%s is not running", n.name)
	}
	if err := n.mu.cmd.Process.Signal(s); err != nil {
		return nil, fmt.Errorf("signal %v to %s: %w", s, n.name, err)
	}
	switch s {
	case syscall.SIGSTOP:
		n.mu.paused = true
	case syscall.SIGCONT:
		n.mu.paused = false
	}
	return n.mu.exited, nil
}

// close ends the process, whatever its state, and waits for it.
func (n *Node) close(grace time.Duration) error {
	n.mu.Lock()
	alive, paused, group := n.alive(), n.mu.paused, n.mu.group
	n.mu.Unlock()
	var err error
	if alive && paused {
		err = n.Resume()
	}
	if alive {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		err = errors.Join(err, n.Terminate(ctx))
		cancel()
	}
	if group != nil {
		err = errors.Join(err, group.Wait())
	}
	return err
}

// Advertised is the API address that other nodes are told.
func (n *Node) Advertised() string { return n.site.API.Advertise }

// Ports are the addresses on which the process listens.
func (n *Node) Ports() []string {
	return []string{n.site.API.Listen, n.site.Second.Listen, n.site.HTTP.Listen}
}

// KillIfAlive ends the process unless it has ended.
func (n *Node) KillIfAlive() error {
	if !n.Alive() {
		return nil
	}
	return n.Kill()
}
