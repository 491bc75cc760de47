package coordinator

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/sluiceio/sluice/internal/vfs"
)

// spooled is a stream that was put on disk to be read more than once. Nothing of it survives a start.
type spooled struct {
	fs   vfs.FS
	path string
	file vfs.File
	size int64
}

const spoolName = "spool"

// spool writes all of r to a file of the data directory.
func (n *node) spool(r io.Reader) (*spooled, error) {
	name := path.Join(n.cfg.DataDir, spoolName, rand.Text())
	f, err := vfs.CreateNew(n.parts.FS, name)
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	s := &spooled{fs: n.parts.FS, path: name, file: f}
	if s.size, err = io.Copy(f, r); err != nil {
		return nil, errors.Join(err, s.discard())
	}
	return s, nil
}

func (s *spooled) reader() io.Reader { return io.NewSectionReader(s.file, 0, s.size) }

func (s *spooled) discard() error {
	return errors.Join(s.file.Close(), s.fs.Remove(s.path))
}
