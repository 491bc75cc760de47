package spawn

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes: a process group of its own. There is no parent-death signal: the end of the control link has to do.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitExit cannot wait without reaping here; the group is killed a moment before its leader is reaped instead.
func awaitExit(pid int) {
	queue, err := unix.Kqueue()
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(queue) }()
	change := []unix.Kevent_t{{Ident: uint64(pid), Filter: unix.EVFILT_PROC, Flags: unix.EV_ADD | unix.EV_ONESHOT, Fflags: unix.NOTE_EXIT}}
	events := make([]unix.Kevent_t, 1)
	for {
		if _, err := unix.Kevent(queue, change, events, nil); err != unix.EINTR {
			return
		}
	}
}

// bootID names this start of the machine by its time.
func bootID() (string, error) {
	tv, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d.%06d", tv.Sec, tv.Usec), nil
}

// startTime of a process in microseconds since the Unix epoch; with the pid it identifies a process.
func startTime(pid int) (uint64, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0, err
	}
	start := info.Proc.P_starttime
	return uint64(start.Sec)*1_000_000 + uint64(start.Usec), nil
}

// killStragglers cannot read another process's environment here, so it touches nobody.
func killStragglers(int, string) error { return nil }

// onMainThread does not matter here: children do not die with a thread.
func onMainThread() bool { return false }
