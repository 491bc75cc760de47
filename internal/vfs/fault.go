package vfs

import (
	"io"
	"io/fs"
)

// Operation names what is about to be done to a path.
type Operation string

// The operations that a fault may be injected into.
const (
	OpOpen      Operation = "open"
	OpRead      Operation = "read" // Read and ReadAt
	OpWrite     Operation = "write"
	OpTruncate  Operation = "truncate"
	OpSync      Operation = "sync"
	OpClose     Operation = "close"
	OpFileStat  Operation = "filestat"
	OpMkdir     Operation = "mkdir"
	OpRename    Operation = "rename" // the path is the new one
	OpRemove    Operation = "remove"
	OpRemoveAll Operation = "removeall"
	OpReadDir   Operation = "readdir"
	OpStat      Operation = "stat"
	OpSyncDir   Operation = "syncdir"
	OpLock      Operation = "lock"
)

// Fault is what goes wrong with one operation. The zero Fault is none.
type Fault struct {
	Err     error
	Outcome Outcome
}

// Outcome says what a failed operation did nevertheless.
type Outcome int

const (
	// NotDone fails before anything was done.
	NotDone Outcome = iota
	// Done does everything and then reports the failure: the caller must cope with not knowing.
	Done
	// Half writes the first half of the bytes; other operations are not done.
	Half
)

// WithFaults returns fsys with failures: decide is called before every operation, without any lock held, and says
// what goes wrong. It may be called from several goroutines.
func WithFaults(fsys FS, decide func(op Operation, path string) Fault) FS {
	return &faulty{fs: fsys, decide: decide}
}

type faulty struct {
	fs     FS
	decide func(Operation, string) Fault
}

// do performs f with the fault that is due.
func (x *faulty) do(op Operation, path string, f func() error) error {
	fault := x.decide(op, path)
	if fault.Err == nil {
		return f()
	}
	if fault.Outcome == Done {
		if err := f(); err != nil {
			return err
		}
	}
	return wrap(string(op), path, fault.Err)
}

func (x *faulty) OpenFile(path string, flag int, perm fs.FileMode) (File, error) {
	var f File
	err := x.do(OpOpen, path, func() (err error) {
		f, err = x.fs.OpenFile(path, flag, perm)
		return err
	})
	if err != nil {
		if f != nil { // opened (and perhaps created), but the caller will never know
			err = joinClose(err, f)
		}
		return nil, err
	}
	return &faultyFile{File: f, fs: x}, nil
}

// joinClose keeps the injected error as the cause; the close of a handle that nobody has written to cannot matter.
func joinClose(err error, c io.Closer) error {
	if cerr := c.Close(); cerr != nil {
		return cerr
	}
	return err
}

func (x *faulty) Mkdir(path string, perm fs.FileMode) error {
	return x.do(OpMkdir, path, func() error { return x.fs.Mkdir(path, perm) })
}

func (x *faulty) Rename(oldPath, newPath string) error {
	return x.do(OpRename, newPath, func() error { return x.fs.Rename(oldPath, newPath) })
}

func (x *faulty) Remove(path string) error {
	return x.do(OpRemove, path, func() error { return x.fs.Remove(path) })
}

func (x *faulty) RemoveAll(path string) error {
	return x.do(OpRemoveAll, path, func() error { return x.fs.RemoveAll(path) })
}

func (x *faulty) ReadDir(path string) (list []fs.DirEntry, err error) {
	err = x.do(OpReadDir, path, func() (err error) {
		list, err = x.fs.ReadDir(path)
		return err
	})
	return list, err
}

func (x *faulty) Stat(path string) (info fs.FileInfo, err error) {
	err = x.do(OpStat, path, func() (err error) {
		info, err = x.fs.Stat(path)
		return err
	})
	return info, err
}

func (x *faulty) SyncDir(path string) error {
	return x.do(OpSyncDir, path, func() error { return x.fs.SyncDir(path) })
}

func (x *faulty) Lock(path string) (io.Closer, error) {
	var l io.Closer
	err := x.do(OpLock, path, func() (err error) {
		l, err = x.fs.Lock(path)
		return err
	})
	if err != nil && l != nil {
		return nil, joinClose(err, l)
	}
	return l, err
}

type faultyFile struct {
	File
	fs *faulty
}

func (f *faultyFile) Read(p []byte) (n int, err error) {
	err = f.fs.do(OpRead, f.Name(), func() error {
		n, err = f.File.Read(p)
		return err
	})
	return n, err
}

func (f *faultyFile) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.fs.do(OpRead, f.Name(), func() error {
		n, err = f.File.ReadAt(p, off)
		return err
	})
	return n, err
}

func (f *faultyFile) Write(p []byte) (int, error) { return f.write(p, f.File.Write) }

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	return f.write(p, func(p []byte) (int, error) { return f.File.WriteAt(p, off) })
}

func (f *faultyFile) write(p []byte, write func([]byte) (int, error)) (n int, err error) {
	fault := f.fs.decide(OpWrite, f.Name())
	if fault.Err == nil {
		return write(p)
	}
	switch fault.Outcome {
	case Done:
		n, err = write(p)
	case Half:
		n, err = write(p[:len(p)/2])
	}
	if err != nil {
		return n, err
	}
	return n, wrap(string(OpWrite), f.Name(), fault.Err)
}

func (f *faultyFile) Truncate(size int64) error {
	return f.fs.do(OpTruncate, f.Name(), func() error { return f.File.Truncate(size) })
}

func (f *faultyFile) Sync() error { return f.fs.do(OpSync, f.Name(), f.File.Sync) }

// Close always closes: a descriptor whose close failed is gone all the same.
func (f *faultyFile) Close() error {
	fault := f.fs.decide(OpClose, f.Name())
	if err := f.File.Close(); err != nil || fault.Err == nil {
		return err
	}
	return wrap(string(OpClose), f.Name(), fault.Err)
}

func (f *faultyFile) Stat() (info fs.FileInfo, err error) {
	err = f.fs.do(OpFileStat, f.Name(), func() (err error) {
		info, err = f.File.Stat()
		return err
	})
	return info, err
}
