package logfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Reader reads the output from a position on, across rotations.
type Reader struct {
	dir  string
	pos  int64
	note string // what has still to be told before the byte at pos
}

// Open starts a reader tail bytes before the end, or at the oldest byte that is kept (also if tail is 0).
func Open(dir string, tail int64) (*Reader, error) {
	all, err := list(dir)
	if err != nil {
		return nil, fmt.Errorf("output in %s: %w", dir, err)
	}
	r := &Reader{dir: dir}
	if n := len(all); n > 0 {
		r.pos = all[0].start
		if tail > 0 {
			r.pos = max(r.pos, all[n-1].end()-tail)
		}
	}
	return r, nil
}

// Read returns what stands at the reader's position, and io.EOF when it has caught up with the writer: call it again
// after more was written. If rotation has overtaken it, it goes on at the oldest byte that is kept, after one line
// that tells how much is missing.
func (r *Reader) Read(p []byte) (int, error) {
	for {
		if r.note != "" {
			n := copy(p, r.note)
			r.note = r.note[n:]
			return n, nil
		}
		all, err := list(r.dir)
		if err != nil {
			return 0, fmt.Errorf("output in %s: %w", r.dir, err)
		}
		if len(all) > 0 && r.pos < all[0].start {
			r.note = fmt.Sprintf("\n[… %d bytes of output were rotated away …]\n", all[0].start-r.pos)
			r.pos = all[0].start
			continue
		}
		s, ok := find(all, r.pos)
		if !ok {
			return 0, io.EOF
		}
		n, err := readAt(filepath.Join(r.dir, s.name), p, r.pos-s.start)
		if errors.Is(err, fs.ErrNotExist) {
			continue // rotated away between the two looks
		}
		r.pos += int64(n)
		if n > 0 || len(p) == 0 {
			return n, nil
		}
		return 0, err
	}
}

// find returns the segment that holds pos, if one does.
func find(all []segment, pos int64) (segment, bool) {
	for _, s := range all {
		if s.start <= pos && pos < s.end() {
			return s, true
		}
	}
	return segment{}, false
}

func readAt(path string, p []byte, offset int64) (int, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	n, err := f.ReadAt(p, offset)
	if cerr := f.Close(); err == nil || errors.Is(err, io.EOF) {
		err = cerr
	}
	return n, err
}
