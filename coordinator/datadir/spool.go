package datadir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/sluiceio/sluice/internal/vfs"
)

// Spool is a stream that was put on disk to be read more than once. Nothing of it survives a start.
type Spool struct {
	Size int64

	fs   vfs.FS
	path string
	file vfs.File
}

// ClearSpool removes what an earlier process left, and makes the directory.
func ClearSpool(fsys vfs.FS, dir string) error {
	name := path.Join(dir, spoolName)
	if err := vfs.Discard(fsys, name); err != nil {
		return fmt.Errorf("clear spool: %w", err)
	}
	return vfs.MakeDir(fsys, name)
}

// NewSpool writes all of r to a file of the data directory.
func NewSpool(fsys vfs.FS, dir string, r io.Reader) (*Spool, error) {
	name := path.Join(dir, spoolName, rand.Text())
	f, err := vfs.CreateNew(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	s := &Spool{fs: fsys, path: name, file: f}
	if s.Size, err = io.Copy(f, r); err != nil {
		return nil, errors.Join(err, s.Discard())
	}
	return s, nil
}

// Reader reads from the beginning; there may be any number of readers.
func (s *Spool) Reader() io.Reader { return io.NewSectionReader(s.file, 0, s.Size) }

// Discard removes the file.
func (s *Spool) Discard() error {
	return errors.Join(s.file.Close(), s.fs.Remove(s.path))
}
