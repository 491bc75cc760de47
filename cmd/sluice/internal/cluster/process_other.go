//go:build !linux

package cluster

import (
	"os/exec"
	"strconv"
	"syscall"
)

// attributes: as on Linux, but no kernel tells a supervised node that its supervisor was killed.
func attributes(b bond) *syscall.SysProcAttr {
	if b == detached {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true}
}

// commandLine of a running process.
func commandLine(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return string(out), err
}
