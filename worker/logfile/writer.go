package logfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// segments is the number of files that the bound is cut into.
const segments = 8

const suffix = ".log"

func segmentName(start int64) string { return fmt.Sprintf("%020d%s", start, suffix) }

// Writer appends to the output.
type Writer struct {
	dir   string
	limit int64 // bytes kept in all
	step  int64 // bytes of one segment
	// changed is called after each write, never under the lock.
	changed func()

	mu struct {
		sync.Mutex
		file    *os.File
		start   int64 // position of the first byte of file
		end     int64 // position behind the last byte
		dropped int64 // bytes that could not be written
		closed  bool
	}
}

// Create starts the output in dir, which must exist, behind what an earlier writer has left there. changed, which may
// be nil, hears of each write; it must not block.
func Create(dir string, limit int64, changed func()) (*Writer, error) {
	old, err := list(dir)
	if err != nil {
		return nil, fmt.Errorf("output in %s: %w", dir, err)
	}
	if changed == nil {
		changed = func() {}
	}
	w := &Writer{dir: dir, limit: limit, step: max(limit/segments, 1), changed: changed}
	if n := len(old); n > 0 {
		w.mu.end = old[n-1].end()
	}
	if err := w.open(); err != nil {
		return nil, fmt.Errorf("output in %s: %w", dir, err)
	}
	if err := w.trim(); err != nil {
		return nil, fmt.Errorf("output in %s: %w", dir, errors.Join(err, w.Close()))
	}
	return w, nil
}

// open starts a segment at the end. The lock is held.
func (w *Writer) open() error {
	f, err := os.OpenFile(filepath.Join(w.dir, segmentName(w.mu.end)), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	w.mu.file, w.mu.start = f, w.mu.end
	return nil
}

// Write appends p. A task process must not stand still because a disk is full: what cannot be written is dropped and
// counted, and Write does not fail.
func (w *Writer) Write(p []byte) (int, error) {
	w.append(p)
	w.changed()
	return len(p), nil
}

func (w *Writer) append(p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.closed {
		w.mu.dropped += int64(len(p))
		return
	}
	for len(p) > 0 {
		if w.mu.end-w.mu.start >= w.step {
			if err := w.rotate(); err != nil {
				break
			}
		}
		n, err := w.mu.file.Write(p[:min(int64(len(p)), w.step-(w.mu.end-w.mu.start))])
		w.mu.end += int64(n)
		p = p[n:]
		if err != nil {
			break
		}
	}
	w.mu.dropped += int64(len(p))
}

// rotate begins the next segment. The lock is held.
func (w *Writer) rotate() error {
	full := w.mu.file
	if err := w.open(); err != nil {
		return err
	}
	return errors.Join(full.Close(), w.trim())
}

// trim removes the oldest segments beyond the bound, less one segment: the newest has still to be filled. The lock is
// held.
func (w *Writer) trim() error {
	old, err := list(w.dir)
	for _, s := range old {
		if s.start >= w.mu.end-w.limit+w.step {
			break
		}
		err = errors.Join(err, os.Remove(filepath.Join(w.dir, s.name)))
	}
	return err
}

// Dropped is the number of bytes that could not be written.
func (w *Writer) Dropped() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.dropped
}

// Close ends the output. Later writes are dropped.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.closed {
		return nil
	}
	w.mu.closed = true
	return w.mu.file.Close()
}

// segment is one file of the output.
type segment struct {
	name  string
	start int64
	size  int64
}

func (s segment) end() int64 { return s.start + s.size }

// list returns the segments of dir in order. Files that are none are left out.
func list(dir string) ([]segment, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []segment
	for _, e := range entries {
		number, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok {
			continue
		}
		start, err := strconv.ParseInt(number, 10, 64)
		if err != nil || start < 0 || segmentName(start) != e.Name() {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed by a rotation meanwhile
		}
		if err != nil {
			return nil, err
		}
		all = append(all, segment{name: e.Name(), start: start, size: info.Size()})
	}
	slices.SortFunc(all, func(a, b segment) int { return int(min(max(a.start-b.start, -1), 1)) })
	return all, nil
}
