package overflow

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// File is a sequence of byte strings on disk, or in memory if the store is. It has no name: whatever ends the process,
// its room is given back.
type File struct {
	f    *os.File // nil: the bytes are in mu.mem
	size int64
	refs atomic.Int32

	mu struct {
		sync.Mutex
		mem []byte
	}
}

// File makes an empty file.
func (s *Store) File() (*File, error) {
	f := &File{}
	f.refs.Store(1)
	if s.cfg.Dir == "" {
		return f, nil
	}
	if err := os.MkdirAll(s.cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("overflow of the state: %w", err)
	}
	file, err := os.CreateTemp(filepath.Clean(s.cfg.Dir), "part-*")
	if err != nil {
		return nil, fmt.Errorf("overflow of the state: %w", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, fmt.Errorf("overflow of the state: %w", err)
	}
	f.f = file
	return f, nil
}

// Append adds what w writes and returns its place.
func (f *File) Append(w io.WriterTo) (at, size int64, err error) {
	n, err := w.WriteTo(appender{f})
	at = f.size
	f.size += n
	if err != nil {
		return 0, 0, fmt.Errorf("write to the overflow of the state: %w", err)
	}
	return at, n, nil
}

// appender writes at the end of a file, whose size it leaves to Append.
type appender struct{ f *File }

func (w appender) Write(b []byte) (int, error) {
	if w.f.f != nil {
		return w.f.f.Write(b)
	}
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	w.f.mu.mem = append(w.f.mu.mem, b...)
	return len(b), nil
}

// ReadAt implements io.ReaderAt. Any goroutine may read what was appended before it was told of it.
func (f *File) ReadAt(b []byte, off int64) (int, error) {
	if f.f != nil {
		return f.f.ReadAt(b, off)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return bytes.NewReader(f.mu.mem).ReadAt(b, off)
}

// Retain makes another owner, who calls Release, too.
func (f *File) Retain() { f.refs.Add(1) }

// Release gives the room back when the last owner has called it.
func (f *File) Release() error {
	if f.refs.Add(-1) > 0 || f.f == nil {
		return nil
	}
	return f.f.Close()
}
