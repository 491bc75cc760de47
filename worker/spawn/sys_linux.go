package spawn

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes: a process group of its own, and death with the thread that started it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// onMainThread reports whether the caller runs on the first thread of the process.
func onMainThread() bool { return unix.Gettid() == os.Getpid() }

// awaitExit returns when the process has ended, without reaping it.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// bootID names this start of the machine: process ids and start times mean nothing across two of them.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

// startTime of a process in clock ticks since the start of the machine; with the pid it identifies a process.
func startTime(pid int) (uint64, error) {
	fields, err := statFields(pid)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(fields[startField], 10, 64)
}

// Fields of /proc/PID/stat behind the command, counted from 0 (proc(5) counts them from 3).
const (
	groupField = 2
	startField = 19
)

func statFields(pid int) ([]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	// The command stands in parentheses and may hold any byte, parentheses too.
	i := bytes.LastIndexByte(b, ')')
	fields := strings.Fields(string(b[i+1:]))
	if i < 0 || len(fields) <= startField {
		return nil, fmt.Errorf("/proc/%d/stat has an unknown form", pid)
	}
	return fields, nil
}

// killStragglers ends processes of the group whose leader has died, if their environment proves that they belong to
// the process of this directory: the number of the group alone may be somebody else's by now.
func killStragglers(group int, dir string) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	mark := []byte("TMPDIR=" + filepath.Join(dir, tempName) + "\x00")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		fields, err := statFields(pid)
		if err != nil || fields[groupField] != strconv.Itoa(group) {
			continue // it has ended meanwhile, or is none of ours
		}
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil || !bytes.Contains(append([]byte{0}, env...), append([]byte{0}, mark...)) {
			continue
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("kill process %d: %w", pid, err)
		}
	}
	return nil
}
