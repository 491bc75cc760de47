package workdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluiceio/sluice/internal/vfs"
)

const (
	lockName = "lock"
	// dead ends the names of directories that are being removed.
	dead = ".dead"
	// attempts bounds how often a name is taken by others in the moment between its creation and its lock.
	attempts = 100
)

// Dir is the directory of one run.
type Dir struct {
	// Path of the directory, which is empty but for the lock.
	Path string

	fs   vfs.FS
	lock io.Closer
}

// Maker makes directories.
type Maker struct {
	FS vfs.FS
	// Parent exists already.
	Parent string
	// Owner tells whether a directory belongs to this user: others' are left alone.
	Owner func(fs.FileInfo) bool

	made atomic.Uint64
}

// Default makes directories of this user below os.TempDir.
func Default() *Maker { return &Maker{FS: vfs.OS{}, Parent: os.TempDir(), Owner: mine} }

func (m *Maker) prefix() string { return fmt.Sprintf("sluice-run-%d-", os.Getuid()) }

// Make removes what crashed runs have left and makes a locked directory.
//
// A directory is not ours before its lock is: somebody who looks between the two takes it for that of a crashed run, and
// removes it. Then the lock fails, or the directory is gone, and another name is tried.
func (m *Maker) Make() (*Dir, error) {
	m.sweep()
	var err error
	for range attempts {
		path := filepath.Join(m.Parent, m.prefix()+strconv.Itoa(os.Getpid())+"-"+strconv.FormatInt(time.Now().UnixNano(), 36)+"-"+strconv.FormatUint(m.made.Add(1), 36))
		if err = m.FS.Mkdir(path, 0o700); errors.Is(err, fs.ErrExist) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("make a directory for this run: %w", err)
		}
		lock, lerr := m.FS.Lock(filepath.Join(path, lockName))
		switch {
		case lerr == nil:
			return &Dir{Path: path, fs: m.FS, lock: lock}, nil
		case errors.Is(lerr, errors.ErrUnsupported): // nothing is ever taken for dead here
			return &Dir{Path: path, fs: m.FS}, nil
		case errors.Is(lerr, vfs.ErrLocked), errors.Is(lerr, fs.ErrNotExist):
			err = lerr
		default:
			return nil, errors.Join(fmt.Errorf("lock the directory of this run: %w", lerr), m.FS.RemoveAll(path))
		}
	}
	return nil, fmt.Errorf("make a directory for this run: %w", err)
}

// sweep removes the directories of dead runs, as far as it can: what it cannot remove costs room, and no run.
func (m *Maker) sweep() {
	list, err := m.FS.ReadDir(m.Parent)
	if err != nil {
		return
	}
	for _, e := range list {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), m.prefix()) {
			continue
		}
		if info, err := e.Info(); err != nil || !m.Owner(info) {
			continue
		}
		m.bury(filepath.Join(m.Parent, e.Name()))
	}
}

// bury removes a directory whose lock is free. It is renamed first: whoever has just made it and is about to lock it
// must not find one half of it.
func (m *Maker) bury(path string) {
	if !strings.HasSuffix(path, dead) {
		lock, err := m.FS.Lock(filepath.Join(path, lockName))
		if err != nil {
			return // alive, or not ours to judge
		}
		err = m.FS.Rename(path, path+dead)
		_ = lock.Close()
		if err != nil {
			return
		}
		path += dead
	}
	_ = m.FS.RemoveAll(path)
}

// Join is the path of a name in the directory.
func (d *Dir) Join(name string) string { return filepath.Join(d.Path, name) }

// Remove removes the directory with everything in it.
func (d *Dir) Remove() error {
	err := d.fs.RemoveAll(d.Path)
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
	}
	if err != nil {
		return fmt.Errorf("remove the directory of this run: %w", err)
	}
	return nil
}
