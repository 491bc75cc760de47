package spill

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"github.com/sluiceio/sluice/internal/vfs"
)

// Compression of spilled blocks.
type Compression uint8

const (
	// None writes blocks as they are.
	None Compression = iota
	// S2 is fast and saves a half where records repeat themselves.
	S2
	// Zstd saves more and costs more processor time.
	Zstd
)

// ParseCompression reads the value of the setting batch.compression.
func ParseCompression(s string) (Compression, error) {
	switch s {
	case "none":
		return None, nil
	case "s2":
		return S2, nil
	case "zstd":
		return Zstd, nil
	}
	return None, fmt.Errorf("compression %q is none of none, s2, zstd", s)
}

// Config of an Area.
type Config struct {
	FS vfs.FS
	// Dir is where files are made. It is created when it is first needed; its parent must exist.
	Dir         string
	Compression Compression
}

// Area is a directory for spilled records. It touches the disk only when something is spilled.
type Area struct {
	cfg  Config
	name atomic.Uint64 // of the next file

	packer packer

	files   atomic.Int64
	bytes   atomic.Int64
	records atomic.Int64
}

// NewArea describes the area; the directory is looked at when it is first needed.
func NewArea(c Config) (*Area, error) {
	var errs []error
	if c.FS == nil {
		errs = append(errs, errors.New("no file system"))
	}
	if c.Dir == "" {
		errs = append(errs, errors.New("no directory"))
	}
	if c.Compression > Zstd {
		errs = append(errs, fmt.Errorf("unknown compression %d", c.Compression))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("spill area: %w", err)
	}
	return &Area{cfg: c}, nil
}

// Totals is what an area has seen since it was made.
type Totals struct {
	Files   int64 // open now
	Bytes   int64 // written, as on disk
	Records int64 // written
}

// Totals of all operators of the process.
func (a *Area) Totals() Totals {
	return Totals{Files: a.files.Load(), Bytes: a.bytes.Load(), Records: a.records.Load()}
}

// create makes a file that has no name any more.
func (a *Area) create(want int64) (f vfs.File, path string, err error) {
	if err := a.cfg.FS.Mkdir(a.cfg.Dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, "", noSpace(a.cfg.Dir, want, err)
	}
	path = filepath.Join(a.cfg.Dir, "spill-"+strconv.Itoa(os.Getpid())+"-"+strconv.FormatUint(a.name.Add(1), 10))
	f, err = a.cfg.FS.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, "", noSpace(path, want, err)
	}
	if err := a.cfg.FS.Remove(path); err != nil {
		return nil, "", noSpace(path, want, errors.Join(err, f.Close()))
	}
	a.files.Add(1)
	return f, path, nil
}
