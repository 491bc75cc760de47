//go:build linux || darwin || freebsd

package vfs

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes a flock, which belongs to the open file: it ends with the last descriptor, so also with kill -9.
func lockFile(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}
