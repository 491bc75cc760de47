package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Task is a process that a worker has started: a task process of a job. Its number alone may be somebody else's by the
// time of a signal, so it comes with the time of its start.
type Task struct {
	PID   int
	start string
}

// Tasks are the processes that n has started and that run, in the order of their numbers. Linux only: they are found in
// /proc.
func (n *Node) Tasks() ([]Task, error) {
	parent := n.PID()
	if parent == 0 {
		return nil, fmt.Errorf("%s is not running", n.name)
	}
	tasks, err := tasksOf(parent)
	if err != nil {
		return nil, fmt.Errorf("task processes of %s: %w", n.name, err)
	}
	return tasks, nil
}

// tasksOf are the children of a process.
func tasksOf(parent int) ([]Task, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var tasks []Task
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		s, err := readStat(pid)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended meanwhile
		}
		if err != nil {
			return nil, err
		}
		if s.parent == strconv.Itoa(parent) && !s.gone() {
			tasks = append(tasks, Task{PID: pid, start: s.start})
		}
	}
	return tasks, nil
}

// stat is the part of /proc/PID/stat that is looked at.
type stat struct{ state, parent, start string }

func (s stat) gone() bool { return s.state == "Z" || s.state == "X" }

func readStat(pid int) (s stat, err error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s, err
	}
	// The command stands in parentheses and may hold any byte, parentheses too.
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(fields) < 20 {
		return s, fmt.Errorf("/proc/%d/stat has an unknown form", pid)
	}
	return stat{state: fields[0], parent: fields[1], start: fields[19]}, nil
}

// Alive reports whether it has not ended.
func (t Task) Alive() bool {
	s, err := readStat(t.PID)
	return err == nil && s.start == t.start && !s.gone()
}

// Stopped reports whether the process stands still: it was paused, or has stopped itself.
func (n *Node) Stopped() bool { return stands(n.PID()) }

// TaskStopped reports whether a task process of the worker stands still.
func (n *Node) TaskStopped() (bool, error) {
	if !n.Alive() {
		return false, nil
	}
	tasks, err := n.Tasks()
	return slices.ContainsFunc(tasks, func(t Task) bool { return t.Alive() && stands(t.PID) }), err
}

func stands(pid int) bool {
	s, err := readStat(pid)
	return pid > 0 && err == nil && s.state == "T"
}

// Kill, Pause and Resume do nothing to a process that has ended.
func (t Task) Kill() error   { return t.signal(syscall.SIGKILL) }
func (t Task) Pause() error  { return t.signal(syscall.SIGSTOP) }
func (t Task) Resume() error { return t.signal(syscall.SIGCONT) }

func (t Task) signal(s syscall.Signal) error {
	if !t.Alive() {
		return nil
	}
	if err := syscall.Kill(t.PID, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %v to process %d: %w", s, t.PID, err)
	}
	return nil
}

// Crash ends a worker and everything that it has started at one moment, as the death of a machine does: nobody is left
// who could tell of it. The agent is stopped first, so that it sees none of the ends and starts nothing meanwhile.
func (n *Node) Crash(ctx context.Context) error {
	if err := n.Pause(); err != nil {
		return err
	}
	tasks, err := n.Tasks()
	for _, t := range tasks {
		err = errors.Join(err, t.Kill())
	}
	if err := errors.Join(err, n.Kill()); err != nil {
		return err
	}
	for _, t := range tasks {
		for t.Alive() {
			if err := Rest(ctx, time.Millisecond); err != nil {
				return fmt.Errorf("process %d of %s does not end: %w", t.PID, n.name, err)
			}
		}
	}
	return nil
}

// Wipe removes the data of a node that does not run: with its next start it is another one.
func (n *Node) Wipe() error {
	if n.Alive() {
		return fmt.Errorf("%s runs", n.name)
	}
	return os.RemoveAll(n.dir)
}
