package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// OS is the operating system's file system. Relative paths are relative to the process.
type OS struct{}

var _ FS = OS{}

// OpenFile opens a file.
func (OS) OpenFile(path string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err // not f: a nil *os.File in a File is not nil
	}
	return f, nil
}

// Mkdir makes one directory.
func (OS) Mkdir(path string, perm fs.FileMode) error { return os.Mkdir(path, perm) }

// Rename moves a file or directory.
func (OS) Rename(oldPath, newPath string) error { return os.Rename(oldPath, newPath) }

// Remove takes away a file or an empty directory.
func (OS) Remove(path string) error { return os.Remove(path) }

// RemoveAll takes away path and everything below.
func (OS) RemoveAll(path string) error { return os.RemoveAll(path) }

// ReadDir lists a directory.
func (OS) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }

// Stat describes what is at path.
func (OS) Stat(path string) (fs.FileInfo, error) { return os.Stat(path) }

// SyncDir makes the entries of a directory durable.
func (OS) SyncDir(path string) (err error) {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer closing(d, &err)
	info, err := d.Stat()
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "syncdir", Path: path, Err: errNotDir}
	}
	return d.Sync()
}

// Lock takes an advisory lock.
func (OS) Lock(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		return nil, errors.Join(&fs.PathError{Op: "lock", Path: path, Err: err}, f.Close())
	}
	return f, nil // the lock ends with the descriptor
}
