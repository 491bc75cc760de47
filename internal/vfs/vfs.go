package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// FS is what the durable parts of the project need from a file system. Failures are *fs.PathError or *os.LinkError,
// and errors.Is recognises fs.ErrNotExist and fs.ErrExist.
type FS interface {
	// OpenFile takes the flags of os.OpenFile; perm applies to a file that it creates.
	OpenFile(path string, flag int, perm fs.FileMode) (File, error)
	// Mkdir makes one directory; its parent must exist.
	Mkdir(path string, perm fs.FileMode) error
	// Rename replaces a file at newPath atomically. A directory is never replaced, not even an empty one.
	Rename(oldPath, newPath string) error
	// Remove takes away a file or an empty directory.
	Remove(path string) error
	// RemoveAll takes away path and everything below it; a path that does not exist is no error.
	RemoveAll(path string) error
	// ReadDir lists a directory in the order of names.
	ReadDir(path string) ([]fs.DirEntry, error)
	Stat(path string) (fs.FileInfo, error)
	// SyncDir makes the entries of a directory durable, removed ones included.
	SyncDir(path string) error
	// Lock takes an advisory lock on a file, which it creates, for as long as the process lives and the lock is not
	// closed. A lock held by someone else is an error that matches ErrLocked, at once.
	Lock(path string) (io.Closer, error)
}

// File is an open file.
type File interface {
	io.Reader
	io.Writer
	io.Closer
	io.ReaderAt
	io.WriterAt
	// Sync returns when the file's bytes and size are durable. After a failed Sync nobody knows what is on the disk:
	// calling it again proves nothing, and the file must be written anew.
	Sync() error
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
	Name() string
}

// ErrLocked says that another process, or another owner in this one, holds the lock.
var ErrLocked = errors.New("locked by another process")

// Open opens a file for reading.
func Open(fsys FS, path string) (File, error) { return fsys.OpenFile(path, os.O_RDONLY, 0) }

// Create opens a new file for writing, or empties the one that is there.
func Create(fsys FS, path string) (File, error) {
	return fsys.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
}

// CreateNew opens a new file for writing; a file that exists is an error matching fs.ErrExist.
func CreateNew(fsys FS, path string) (File, error) {
	return fsys.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
}

// Append opens a file, new or not, whose writes go to its end.
func Append(fsys FS, path string) (File, error) {
	return fsys.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
}

// ReadFile returns the contents of a file. It is for files known to be small.
func ReadFile(fsys FS, path string) (data []byte, err error) {
	f, err := Open(fsys, path)
	if err != nil {
		return nil, err
	}
	defer closing(f, &err)
	if data, err = io.ReadAll(f); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}

// closing closes c and keeps its error unless an earlier one is there.
func closing(c io.Closer, err *error) {
	if cerr := c.Close(); *err == nil {
		*err = cerr
	}
}
