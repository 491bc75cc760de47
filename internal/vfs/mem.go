package vfs

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// Mem is a file system in memory that knows what a crash would leave. It is the reference for what OS promises, so
// where systems differ it takes the least: a name that was not synced in its directory is gone, however often the
// file itself was synced.
//
// Paths are cleaned and taken from one root; "a" and "/a" are the same.
type Mem struct {
	mu struct {
		sync.Mutex
		root  *node
		locks map[string]bool // cleaned paths that are locked
	}
}

var _ FS = (*Mem)(nil)

// NewMem makes an empty file system.
func NewMem() *Mem {
	m := &Mem{}
	m.mu.root = newDir()
	m.mu.locks = map[string]bool{}
	return m
}

// node is a file or a directory, in two versions. Names point to nodes, so one node lives on while a file that was
// removed or replaced is still open. Everything is guarded by Mem.mu.
type node struct {
	mode     fs.FileMode
	modified time.Time

	// A file's bytes as seen and as they are after a crash. durable is never written in place.
	data, durable []byte

	// A directory's entries as seen and as they are after a crash, and how the one came from the other.
	entries, kept map[string]*node
	pending       []change
}

// change is one step of a directory since it was last synced.
type change struct {
	name string
	to   *node // nil: removed
	// move joins the two halves of a rename, which a crash keeps or loses together; nil for other changes.
	move *move
}

// move is an identity; its size is not zero because pointers to empty structs may be equal.
type move struct{ _ byte }

func newDir() *node {
	return &node{mode: fs.ModeDir | 0o755, modified: time.Now(), entries: map[string]*node{}, kept: map[string]*node{}}
}

func (n *node) isDir() bool { return n.mode.IsDir() }

func (n *node) set(name string, to *node, mv *move) {
	if to == nil {
		delete(n.entries, name)
	} else {
		n.entries[name] = to
	}
	n.pending = append(n.pending, change{name: name, to: to, move: mv})
	n.modified = time.Now()
}

// clean returns the elements of a path; none for the root.
func clean(name string) []string {
	p := strings.TrimPrefix(path.Clean("/"+name), "/")
	if p == "" {
		return nil
	}
	return strings.Split(p, "/")
}

// find returns the node at a path.
func (m *Mem) find(elements []string) (*node, error) {
	n := m.mu.root
	for _, e := range elements {
		if !n.isDir() {
			return nil, errNotDir
		}
		next := n.entries[e]
		if next == nil {
			return nil, fs.ErrNotExist
		}
		n = next
	}
	return n, nil
}

// parent returns the directory that holds the last element of a path.
func (m *Mem) parent(elements []string) (dir *node, base string, err error) {
	if len(elements) == 0 {
		return nil, "", fs.ErrInvalid
	}
	last := len(elements) - 1
	dir, err = m.find(elements[:last])
	if err != nil {
		return nil, "", err
	}
	if !dir.isDir() {
		return nil, "", errNotDir
	}
	return dir, elements[last], nil
}

func wrap(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// OpenFile opens a file.
func (m *Mem) OpenFile(path string, flag int, perm fs.FileMode) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.open(clean(path), flag, perm)
	if err != nil {
		return nil, wrap("open", path, err)
	}
	access := flag & (os.O_WRONLY | os.O_RDWR) // O_RDONLY is zero
	return &memFile{
		fs: m, node: n, name: path,
		readable: access != os.O_WRONLY, writable: access != os.O_RDONLY, appends: flag&os.O_APPEND != 0,
	}, nil
}

func (m *Mem) open(elements []string, flag int, perm fs.FileMode) (*node, error) {
	n, err := m.find(elements)
	switch {
	case err == nil && flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		return nil, fs.ErrExist
	case err == nil && n.isDir() && flag&(os.O_WRONLY|os.O_RDWR|os.O_CREATE|os.O_TRUNC) != 0:
		return nil, errIsDir
	case err == nil:
		if flag&os.O_TRUNC != 0 {
			n.data, n.modified = nil, time.Now()
		}
		return n, nil
	case !errors.Is(err, fs.ErrNotExist) || flag&os.O_CREATE == 0:
		return nil, err
	}
	dir, base, err := m.parent(elements)
	if err != nil {
		return nil, err
	}
	n = &node{mode: perm.Perm(), modified: time.Now()}
	dir.set(base, n, nil)
	return n, nil
}

// Mkdir makes one directory.
func (m *Mem) Mkdir(path string, perm fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	elements := clean(path)
	if len(elements) == 0 {
		return wrap("mkdir", path, fs.ErrExist)
	}
	dir, base, err := m.parent(elements)
	if err == nil && dir.entries[base] != nil {
		err = fs.ErrExist
	}
	if err != nil {
		return wrap("mkdir", path, err)
	}
	n := newDir()
	n.mode = fs.ModeDir | perm.Perm()
	dir.set(base, n, nil)
	return nil
}

// Rename moves a file or directory.
func (m *Mem) Rename(oldPath, newPath string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.rename(clean(oldPath), clean(newPath)); err != nil {
		return &os.LinkError{Op: "rename", Old: oldPath, New: newPath, Err: err}
	}
	return nil
}

func (m *Mem) rename(from, to []string) error {
	fromDir, fromBase, err := m.parent(from)
	if err != nil {
		return err
	}
	n := fromDir.entries[fromBase]
	if n == nil {
		return fs.ErrNotExist
	}
	toDir, toBase, err := m.parent(to)
	if err != nil {
		return err
	}
	if n.isDir() && len(to) > len(from) && slices.Equal(to[:len(from)], from) {
		return errInside
	}
	old := toDir.entries[toBase]
	switch {
	case old == n:
		return nil
	case old == nil:
	case old.isDir():
		return fs.ErrExist
	case n.isDir():
		return errNotDir
	}
	mv := &move{}
	toDir.set(toBase, n, mv)
	fromDir.set(fromBase, nil, mv)
	return nil
}

// Remove takes away a file or an empty directory.
func (m *Mem) Remove(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(clean(path))
	if err != nil {
		return wrap("remove", path, err)
	}
	switch n := dir.entries[base]; {
	case n == nil:
		return wrap("remove", path, fs.ErrNotExist)
	case n.isDir() && len(n.entries) > 0:
		return wrap("remove", path, errNotEmpty)
	}
	dir.set(base, nil, nil)
	return nil
}

// RemoveAll takes away path and everything below. Like the real one it works from the leaves up, so a torn crash may
// keep any part of the tree.
func (m *Mem) RemoveAll(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(clean(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return wrap("removeall", path, err)
	}
	n := dir.entries[base]
	if n == nil {
		return nil
	}
	removeBelow(n)
	dir.set(base, nil, nil)
	return nil
}

func removeBelow(n *node) {
	for _, name := range sortedNames(n.entries) {
		removeBelow(n.entries[name])
		n.set(name, nil, nil)
	}
}

func sortedNames(entries map[string]*node) []string {
	return slices.Sorted(maps.Keys(entries))
}

// ReadDir lists a directory.
func (m *Mem) ReadDir(path string) ([]fs.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(clean(path))
	if err == nil && !n.isDir() {
		err = errNotDir
	}
	if err != nil {
		return nil, wrap("readdir", path, err)
	}
	list := make([]fs.DirEntry, 0, len(n.entries))
	for _, name := range sortedNames(n.entries) {
		list = append(list, fs.FileInfoToDirEntry(n.entries[name].info(name)))
	}
	return list, nil
}

// Stat describes what is at path.
func (m *Mem) Stat(name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(clean(name))
	if err != nil {
		return nil, wrap("stat", name, err)
	}
	return n.info(path.Base(name)), nil
}

// SyncDir makes the entries of a directory durable as they are now.
func (m *Mem) SyncDir(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(clean(path))
	if err == nil && !n.isDir() {
		err = errNotDir
	}
	if err != nil {
		return wrap("syncdir", path, err)
	}
	n.kept = maps.Clone(n.entries)
	n.pending = nil
	return nil
}

// Lock takes an advisory lock. A crash clone has no locks: the process that held them is gone.
func (m *Mem) Lock(path string) (io.Closer, error) {
	f, err := m.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := strings.Join(clean(path), "/")
	if m.mu.locks[key] {
		return nil, wrap("lock", path, ErrLocked)
	}
	m.mu.locks[key] = true
	return &memLock{file: f, fs: m, key: key}, nil
}

type memLock struct {
	file File
	fs   *Mem
	key  string
}

// Close releases the lock.
func (l *memLock) Close() error {
	if err := l.file.Close(); err != nil {
		return err
	}
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	delete(l.fs.mu.locks, l.key)
	return nil
}

// info is a copy, so that it stays what it was.
func (n *node) info(name string) fs.FileInfo {
	return memInfo{name: name, size: int64(len(n.data)), mode: n.mode, modified: n.modified}
}

type memInfo struct {
	name     string
	size     int64
	mode     fs.FileMode
	modified time.Time
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return i.mode }
func (i memInfo) ModTime() time.Time { return i.modified }
func (i memInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memInfo) Sys() any           { return nil }
