package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/snapshot"
)

// Elsewhere opens an object at another store than the own one.
func (s *Stores) Elsewhere(ctx context.Context, o *jobpb.StoredObject, addresses []*taskpb.StoreAddress) (snapshot.Reader, error) {
	if err := snapshot.Name(o.GetObject().GetName()).Validate(); err != nil {
		return nil, err
	}
	r := &remote{stores: s, ctx: ctx, object: o.Object}
	for _, a := range addresses {
		if a.GetAddress() != "" && (a.Store != s.cfg.ID || s.cfg.Own == nil) && slices.Contains(o.Stores, a.Store) {
			r.places = append(r.places, a)
		}
	}
	if len(r.places) == 0 {
		return nil, fmt.Errorf("open %s: %w: none of its stores (%v) answers anywhere", o.Object.Name, snapshot.ErrNotFound, o.Stores)
	}
	if _, err := r.window(0); err != nil { // also of an empty object: whether it is there
		return nil, err
	}
	return r, nil
}

const (
	// windowBytes is what is fetched at once for small reads.
	windowBytes = 256 << 10
	// maxWindows are kept: those who read key group by key group stand in a few places.
	maxWindows = 8
)

// remote reads an object by range from those who have it. The context of Open bounds all reads.
type remote struct {
	stores *Stores
	ctx    context.Context
	object *jobpb.Object
	places []*taskpb.StoreAddress

	mu struct {
		sync.Mutex
		best    int      // index of the place that answered last
		windows []window // the one used last comes last
		closed  bool
	}
}

type window struct {
	number int64
	data   []byte
}

func (r *remote) Size() int64 { return r.object.Size }

func (r *remote) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.closed, r.mu.windows = true, nil
	return nil
}

func (r *remote) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("read %s at %d", r.object.Name, off)
	}
	end := min(off+int64(len(p)), r.object.Size)
	for at := off; at < end; {
		if k := end - at; k >= 2*windowBytes { // not worth keeping
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
	if n = int(max(end-off, 0)); n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// window returns one, from memory or from a store.
func (r *remote) window(number int64) ([]byte, error) {
	r.mu.Lock()
	if r.mu.closed {
		r.mu.Unlock()
		return nil, fmt.Errorf("read %s: %w", r.object.Name, errClosed)
	}
	if i := slices.IndexFunc(r.mu.windows, func(w window) bool { return w.number == number }); i >= 0 {
		w := r.mu.windows[i]
		r.mu.windows = append(slices.Delete(r.mu.windows, i, i+1), w)
		r.mu.Unlock()
		return w.data, nil
	}
	r.mu.Unlock()
	at := number * windowBytes
	data := make([]byte, min(windowBytes, r.object.Size-at))
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

// fetch fills p from the first place that can, beginning with the one that could last.
func (r *remote) fetch(p []byte, at int64) error {
	r.mu.Lock()
	best := r.mu.best
	r.mu.Unlock()
	var absent, faults []error
	for i := range r.places {
		k := (best + i) % len(r.places)
		err := r.stores.get(r.ctx, r.places[k], r.object, p, at)
		if err == nil {
			r.mu.Lock()
			r.mu.best = k
			r.mu.Unlock()
			return nil
		}
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		err = fmt.Errorf("store %s at %s: %w", r.places[k].Store, r.places[k].Address, err)
		if errors.Is(err, snapshot.ErrNotFound) {
			absent = append(absent, err)
		} else {
			faults = append(faults, err)
		}
	}
	if len(faults) == 0 { // all were asked, and none has it
		return fmt.Errorf("read %s: %w", r.object.Name, errors.Join(absent...))
	}
	for _, a := range absent {
		faults = append(faults, errors.New(a.Error())) // one that did not answer may have it
	}
	return fmt.Errorf("read %s: %w", r.object.Name, errors.Join(faults...))
}

// get reads a range from one agent.
func (s *Stores) get(ctx context.Context, from *taskpb.StoreAddress, o *jobpb.Object, p []byte, at int64) error {
	client, err := s.client(from.Address)
	if err != nil {
		return err
	}
	ctx, watch, cancel := s.watched(ctx)
	defer cancel()
	stream, err := client.Get(ctx, &controlpb.GetObject{Name: o.Name, Offset: at, Size: int64(len(p))})
	if err != nil {
		return cause(ctx, err)
	}
	n := 0
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return cause(ctx, err)
		}
		watch.feed()
		if n+len(m.Data) > len(p) {
			return &snapshot.DamagedError{Name: snapshot.Name(o.Name), Where: from.Store, Cause: fmt.Errorf("%w: more than %d bytes", snapshot.ErrLength, o.Size)}
		}
		n += copy(p[n:], m.Data)
	}
	if n < len(p) {
		return &snapshot.DamagedError{Name: snapshot.Name(o.Name), Where: from.Store, Cause: fmt.Errorf("%w: %d bytes at %d instead of %d", snapshot.ErrLength, n, at, len(p))}
	}
	return nil
}
