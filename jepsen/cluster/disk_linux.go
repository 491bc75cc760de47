package cluster

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// SmallDisk moves a directory onto a file system of that size, in memory, until undo moves it back.
func SmallDisk(dir string, size int64) (undo func() error, err error) {
	aside := dir + ".aside"
	if err := os.CopyFS(aside, os.DirFS(dir)); err != nil {
		return nil, err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size)); err != nil {
		return nil, fmt.Errorf("mount at %s: %w", dir, err)
	}
	if err := os.CopyFS(dir, os.DirFS(aside)); err != nil {
		return nil, fmt.Errorf("fill %s: %w", dir, err)
	}
	return func() error {
		kept := filepath.Clean(dir) + ".kept"
		if err := os.CopyFS(kept, os.DirFS(dir)); err != nil {
			return err
		}
		if err := unix.Unmount(dir, 0); err != nil {
			return err
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		return os.CopyFS(dir, os.DirFS(kept))
	}, nil
}
