package cluster

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// attributes: a supervised node is in a process group of its own, so that a ctrl-C at the terminal reaches the supervisor
// alone, which ends the nodes in order; should it die itself, the kernel tells them. A detached node has its own session.
func attributes(b bond) *syscall.SysProcAttr {
	if b == detached {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// commandLine of a running process. A zombie has an empty one.
func commandLine(pid int) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.ReplaceAll(string(data), "\x00", " "), err
}
