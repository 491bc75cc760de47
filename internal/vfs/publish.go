package vfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
)

// TempSuffix ends the name under which Publish writes before the rename. Whoever lists a directory of published files
// leaves out, and may delete, names that end so.
const TempSuffix = ".tmp"

// Publish makes a file with the given bytes appear at path, in full or not at all, durably: when it returns nil the
// file survives a crash; when it returns an error the old file, or none, is there, unless the very last step failed,
// and then either is, complete. Publishing the same bytes again is therefore always a correct answer to an error.
// Two publishers of one path at the same time must be excluded by the caller.
func Publish(fsys FS, path string, data []byte) error {
	return PublishFunc(fsys, path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// PublishFunc is Publish for bytes that are made while they are written; w is buffered.
func PublishFunc(fsys FS, name string, write func(w io.Writer) error) (err error) {
	temp := name + TempSuffix
	f, err := Create(fsys, temp)
	if err != nil {
		return fmt.Errorf("publish %s: %w", name, err)
	}
	if err := fill(f, write); err != nil {
		// The leftover is harmless: no reader looks at it and the next attempt empties it.
		return fmt.Errorf("publish %s: %w", name, errors.Join(err, fsys.Remove(temp)))
	}
	if err := fsys.Rename(temp, name); err != nil {
		return fmt.Errorf("publish %s: %w", name, err)
	}
	if err := fsys.SyncDir(path.Dir(name)); err != nil {
		return fmt.Errorf("publish %s: %w", name, err)
	}
	return nil
}

// fill writes, syncs and closes f.
func fill(f File, write func(w io.Writer) error) (err error) {
	defer closing(f, &err)
	w := bufio.NewWriterSize(f, 64<<10)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Sync()
}

// MakeDir makes dir and the parents that are missing, durably: each new name is synced in its parent. It may be
// repeated after any failure, in this process or a later one.
func MakeDir(fsys FS, dir string) error {
	if err := makeDir(fsys, path.Clean(dir)); err != nil {
		return fmt.Errorf("make directory %s: %w", dir, err)
	}
	return nil
}

func makeDir(fsys FS, dir string) error {
	parent := path.Dir(dir)
	info, err := fsys.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return &fs.PathError{Op: "mkdir", Path: dir, Err: errNotDir}
	case err == nil:
		// It may stem from an attempt that died before its sync. Parents are made first, so nothing above can. Who may
		// not read the parent has not made it.
		if err := fsys.SyncDir(parent); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := makeDir(fsys, parent); err != nil {
		return err
	}
	if err := fsys.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return fsys.SyncDir(parent)
}

// Discard removes a file or a whole directory durably: when it returns nil, no crash brings it back. A path that
// does not exist is fine, so that a plan of deletions can be run again.
func Discard(fsys FS, name string) error {
	if err := fsys.RemoveAll(name); err != nil {
		return fmt.Errorf("discard: %w", err)
	}
	err := fsys.SyncDir(path.Dir(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("discard %s: %w", name, err)
	}
	return nil
}
