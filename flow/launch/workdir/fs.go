package workdir

import (
	"io/fs"

	"github.com/sluiceio/sluice/internal/vfs"
)

// FS is the file system for what lies in the directory of a run: that of the system, without waiting for the disk. After
// a crash nobody looks for any of it, and what a sync costs is a multiple of what a short job takes.
type FS struct{ vfs.OS }

var _ vfs.FS = FS{}

// SyncDir does nothing.
func (FS) SyncDir(string) error { return nil }

// OpenFile opens a file whose Sync does nothing.
func (f FS) OpenFile(path string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.OS.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	return unsynced{file}, nil
}

type unsynced struct{ vfs.File }

func (unsynced) Sync() error { return nil }
