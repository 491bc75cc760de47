package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"gocloud.dev/gcerrors"

	"github.com/sluiceio/sluice/snapshot"
)

const (
	// windowBytes is what is fetched at once for small reads: a request costs more than these bytes.
	windowBytes = 1 << 20
	// maxWindows are kept: those who read key group by key group stand in a few places.
	maxWindows = 4
)

// Open implements snapshot.Store. The context of Open bounds all reads.
func (s *Store) Open(ctx context.Context, name snapshot.Name) (snapshot.Reader, error) {
	if err := name.Validate(); err != nil {
		return nil, err
	}
	a, err := s.bucket.Attributes(ctx, string(name))
	if err != nil {
		return nil, s.unreadable(name, err)
	}
	return &reader{store: s, ctx: ctx, name: name, size: a.Size}, nil
}

func (s *Store) unreadable(name snapshot.Name, cause error) error {
	if gcerrors.Code(cause) == gcerrors.NotFound {
		return fmt.Errorf("open %s: %s: %w", name, s.where, snapshot.ErrNotFound)
	}
	return fmt.Errorf("open %s: %s: %w", name, s.where, cause)
}

// reader reads an object by range.
type reader struct {
	store *Store
	ctx   context.Context
	name  snapshot.Name
	size  int64

	mu struct {
		sync.Mutex
		windows []window // the one used last comes last
	}
}

type window struct {
	number int64
	data   []byte
}

func (r *reader) Size() int64 { return r.size }

// Close implements io.Closer.
func (r *reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.windows = nil
	return nil
}

// ReadAt implements io.ReaderAt.
func (r *reader) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("read %s at %d", r.name, off)
	}
	end := min(off+int64(len(p)), r.size)
	for at := off; at < end; {
		if end-at >= 2*windowBytes { // not worth keeping
			if err := r.fetch(p[at-off:end-off], at); err != nil {
				return int(at - off), err
			}
			at = end
			continue
		}
		w, err := r.window(at / windowBytes)
		if err != nil {
			return int(at - off), err
		}
		at += int64(copy(p[at-off:end-off], w[at%windowBytes:]))
	}
	if n := int(max(end-off, 0)); n < len(p) {
		return n, io.EOF
	}
	return len(p), nil
}

func (r *reader) window(number int64) ([]byte, error) {
	r.mu.Lock()
	if i := slices.IndexFunc(r.mu.windows, func(w window) bool { return w.number == number }); i >= 0 {
		w := r.mu.windows[i]
		r.mu.windows = append(slices.Delete(r.mu.windows, i, i+1), w)
		r.mu.Unlock()
		return w.data, nil
	}
	r.mu.Unlock()
	at := number * windowBytes
	data := make([]byte, min(windowBytes, r.size-at))
	if err := r.fetch(data, at); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.mu.windows) == maxWindows {
		r.mu.windows = slices.Delete(r.mu.windows, 0, 1)
	}
	r.mu.windows = append(r.mu.windows, window{number, data})
	return data, nil
}

// fetch fills p.
func (r *reader) fetch(p []byte, at int64) error {
	x, err := r.store.bucket.NewRangeReader(r.ctx, string(r.name), at, int64(len(p)), nil)
	if err != nil {
		return r.store.unreadable(r.name, err)
	}
	n, err := io.ReadFull(x, p)
	err = errors.Join(err, x.Close())
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return &snapshot.DamagedError{Name: r.name, Where: r.store.where, Cause: fmt.Errorf("%w: %d bytes at %d instead of %d", snapshot.ErrLength, n, at, len(p))}
	}
	if err != nil {
		return r.store.unreadable(r.name, err)
	}
	return nil
}
