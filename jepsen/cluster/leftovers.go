package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// marked is one line of what this process has made: a process with the time of its start, a namespace or a bridge. It is written
// before the thing is made, or as soon as it has a number.
type marked struct {
	PID       int    `json:"pid,omitempty"`
	Start     string `json:"start,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Bridge    string `json:"bridge,omitempty"`
}

// marks is where every process that runs clusters keeps its lines, in a file named after itself.
func marks() string { return filepath.Join(os.TempDir(), "sluice-jepsen-marks") }

func ownMark() string {
	s, err := readStat(os.Getpid())
	if err != nil {
		s.start = "0" // no /proc: nothing is swept there either
	}
	return filepath.Join(marks(), fmt.Sprintf("%d-%s", os.Getpid(), s.start))
}

// note writes a line. That it fails makes a crash leave more behind, and nothing else.
func note(m marked) {
	line, err := json.Marshal(m)
	if err != nil || os.MkdirAll(marks(), 0o700) != nil {
		return
	}
	f, err := os.OpenFile(ownMark(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.Write(append(line, '\n'))
}

// Swept is what was removed.
type Swept struct{ Processes, Networks int }

// Sweep removes what former runs that have crashed left behind: the processes, namespaces and bridges that stand in their
// marks, if they are still the same. Runs that live are left alone, and so is everything without a mark.
func Sweep() (s Swept, err error) {
	files, err := filepath.Glob(filepath.Join(marks(), "*-*"))
	if err != nil {
		return s, err
	}
	var errs []error
	for _, file := range files {
		pid, start, _ := strings.Cut(filepath.Base(file), "-")
		n, err := strconv.Atoi(pid)
		if err != nil || (Task{PID: n, start: start}).Alive() || start == "0" {
			continue
		}
		lines, err := readMarks(file)
		errs = append(errs, err)
		for _, m := range lines {
			errs = append(errs, m.remove(&s))
		}
		errs = append(errs, os.Remove(file))
	}
	return s, errors.Join(errs...)
}

func readMarks(file string) (all []marked, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		var m marked
		if json.Unmarshal(sc.Bytes(), &m) == nil { // the last line may be torn
			all = append(all, m)
		}
	}
	return all, sc.Err()
}

func (m marked) remove(s *Swept) error {
	switch {
	case m.PID > 0:
		t := Task{PID: m.PID, start: m.Start}
		if !t.Alive() {
			return nil
		}
		s.Processes++
		err := t.Pause() // it must not start anything more
		children, found := tasksOf(m.PID)
		err = errors.Join(err, found, t.Kill())
		for _, c := range children {
			s.Processes++
			err = errors.Join(err, c.Kill())
		}
		return err
	case strings.HasPrefix(m.Namespace, mark):
		if _, err := os.Stat(filepath.Join("/var/run/netns", m.Namespace)); err == nil {
			s.Networks++
			return ip("netns", "del", m.Namespace)
		}
	case strings.HasPrefix(m.Bridge, mark):
		if _, err := os.Stat(filepath.Join("/sys/class/net", m.Bridge)); err == nil {
			s.Networks++
			return ip("link", "del", m.Bridge)
		}
	}
	return nil
}

// Unmark forgets the lines of this process: all that they speak of is gone.
func Unmark() error {
	err := os.Remove(ownMark())
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return err
}
