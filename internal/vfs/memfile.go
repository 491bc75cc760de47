package vfs

import (
	"io"
	"io/fs"
	"path"
	"slices"
	"time"
)

// memFile is a handle. Its position belongs to its owner, as with os.File; the bytes are guarded by Mem.mu.
type memFile struct {
	fs   *Mem
	node *node
	name string

	readable, writable, appends bool

	position int64
	closed   bool
}

func (f *memFile) Name() string { return f.name }

// begin locks the file system and checks the handle; the caller calls done.
func (f *memFile) begin(op string, allowed error) (done func(), err error) {
	f.fs.mu.Lock()
	switch {
	case f.closed:
		err = fs.ErrClosed
	case f.node.isDir() && op != "stat" && op != "sync" && op != "close":
		err = errIsDir
	default:
		err = allowed
	}
	if err != nil {
		f.fs.mu.Unlock()
		return nil, wrap(op, f.name, err)
	}
	return f.fs.mu.Unlock, nil
}

func (f *memFile) mayRead() error {
	if !f.readable {
		return errNoRead
	}
	return nil
}

func (f *memFile) mayWrite() error {
	if !f.writable {
		return errReadOnly
	}
	return nil
}

func (f *memFile) Read(p []byte) (int, error) {
	done, err := f.begin("read", f.mayRead())
	if err != nil {
		return 0, err
	}
	defer done()
	if len(p) == 0 {
		return 0, nil
	}
	if f.position >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.data[f.position:])
	f.position += int64(n)
	return n, nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	allowed := f.mayRead()
	if off < 0 {
		allowed = errNegative
	}
	done, err := f.begin("read", allowed)
	if err != nil {
		return 0, err
	}
	defer done()
	n := 0
	if off < int64(len(f.node.data)) {
		n = copy(p, f.node.data[off:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Write(p []byte) (int, error) {
	done, err := f.begin("write", f.mayWrite())
	if err != nil {
		return 0, err
	}
	defer done()
	if f.appends {
		f.position = int64(len(f.node.data))
	}
	f.node.write(p, f.position)
	f.position += int64(len(p))
	return len(p), nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	allowed := f.mayWrite()
	switch {
	case f.appends:
		allowed = errAppend
	case off < 0:
		allowed = errNegative
	}
	done, err := f.begin("write", allowed)
	if err != nil {
		return 0, err
	}
	defer done()
	f.node.write(p, off)
	return len(p), nil
}

func (n *node) write(p []byte, off int64) {
	n.modified = time.Now()
	if len(p) == 0 {
		return
	}
	n.resize(max(int64(len(n.data)), off+int64(len(p))))
	copy(n.data[off:], p)
}

// resize grows with zeros or cuts. What is cut is cleared, so that growing again shows zeros.
func (n *node) resize(size int64) {
	old := int64(len(n.data))
	if size <= old {
		clear(n.data[size:])
		n.data = n.data[:size]
		return
	}
	n.data = slices.Grow(n.data, int(size-old))[:size]
	clear(n.data[old:])
}

func (f *memFile) Truncate(size int64) error {
	allowed := f.mayWrite()
	if size < 0 {
		allowed = errNegative
	}
	done, err := f.begin("truncate", allowed)
	if err != nil {
		return err
	}
	defer done()
	f.node.resize(size)
	f.node.modified = time.Now()
	return nil
}

// Sync makes the bytes durable, not the name.
func (f *memFile) Sync() error {
	done, err := f.begin("sync", nil)
	if err != nil {
		return err
	}
	defer done()
	f.node.durable = slices.Clone(f.node.data)
	return nil
}

func (f *memFile) Stat() (fs.FileInfo, error) {
	done, err := f.begin("stat", nil)
	if err != nil {
		return nil, err
	}
	defer done()
	return f.node.info(path.Base(f.name)), nil
}

func (f *memFile) Close() error {
	done, err := f.begin("close", nil)
	if err != nil {
		return err
	}
	defer done()
	f.closed = true
	return nil
}
