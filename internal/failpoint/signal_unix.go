//go:build unix

package failpoint

import "syscall"

// kill does not return: the signal cannot be caught, and it is delivered before the system call ends.
func kill() error { return syscall.Kill(syscall.Getpid(), syscall.SIGKILL) }

func stop() error { return syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) }
