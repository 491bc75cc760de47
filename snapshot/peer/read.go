package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/snapshot"
)

// Open opens an object: in the own directory if it is there and whole, else at the first of the stores that o names which answers.
func (s *Stores) Open(ctx context.Context, o *jobpb.StoredObject, addresses []*taskpb.StoreAddress) (snapshot.Reader, error) {
	var errs []error
	if s.cfg.Own != nil {
		r, err := s.openOwn(ctx, o.Object)
		if err == nil {
			return r, nil
		}
		errs = append(errs, err)
	}
	r := &remote{ctx: ctx, s: s, object: o.Object}
	for _, store := range o.Stores {
		if store == s.cfg.ID && s.cfg.Own != nil {
			continue
		}
		for _, a := range addresses {
			if a.Store == store && a.Address != "" {
				r.from = append(r.from, a)
			}
		}
	}
	if len(r.from) == 0 {
		return nil, errors.Join(append(errs, fmt.Errorf("%s: %w: no store that has it can be reached", o.Object.GetName(), snapshot.ErrNotFound))...)
	}
	// The first byte finds a store that has it.
	if o.Object.GetSize() > 0 {
		if _, err := r.fill(0); err != nil {
			return nil, errors.Join(append(errs, err)...)
		}
	}
	return r, nil
}

// openOwn opens the copy in the own directory. It is compared with its digest once in the life of the process.
func (s *Stores) openOwn(ctx context.Context, o *jobpb.Object) (snapshot.Reader, error) {
	s.mu.Lock()
	known := s.mu.verified[o.GetName()]
	s.mu.Unlock()
	if known {
		r, err := s.cfg.Own.Open(ctx, snapshot.Name(o.GetName()))
		if err == nil && r.Size() != o.GetSize() {
			return nil, errors.Join(&snapshot.DamagedError{Name: snapshot.Name(o.GetName()), Where: s.cfg.Own.Dir(), Cause: errors.New("its size has changed")}, r.Close())
		}
		return r, err
	}
	r, err := s.cfg.Own.Open(ctx, snapshot.Name(o.GetName()))
	if err != nil {
		return nil, err
	}
	if err := snapshot.Verify(ctx, r, o, s.cfg.Own.Dir()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	s.mu.Lock()
	s.mu.verified[o.GetName()] = true
	s.mu.Unlock()
	return r, nil
}

// window is how much a remote reader asks for at a time.
const window = 1 << 20

// remote is an object in other workers' stores. It keeps the window that was read last, and goes on with the next store when one
// fails.
type remote struct {
	ctx    context.Context
	s      *Stores
	object *jobpb.Object

	mu   sync.Mutex
	from []*taskpb.StoreAddress
	at   int64 // of data
	data []byte
}

func (r *remote) Size() int64 { return r.object.Size }

func (r *remote) Close() error { return nil }

// ReadAt reads what it has, and fetches the rest window by window.
func (r *remote) ReadAt(b []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errors.New("negative offset")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for n < len(b) {
		at := off + int64(n)
		if at >= r.object.Size {
			return n, io.EOF
		}
		if at < r.at || at >= r.at+int64(len(r.data)) {
			if _, err := r.fill(at); err != nil {
				return n, err
			}
		}
		n += copy(b[n:], r.data[at-r.at:])
	}
	return n, nil
}

// fill fetches the window that begins at off.
func (r *remote) fill(off int64) (n int, err error) {
	var errs []error
	for len(r.from) > 0 {
		data, err := r.s.get(r.ctx, r.from[0], r.object, off, min(window, r.object.Size-off))
		if err == nil {
			r.at, r.data = off, data
			return len(data), nil
		}
		if r.ctx.Err() != nil {
			return 0, r.ctx.Err()
		}
		errs = append(errs, fmt.Errorf("%s at %s: %w", r.object.Name, r.from[0].Address, err))
		r.from = r.from[1:]
	}
	return 0, errors.Join(append(errs, fmt.Errorf("%s cannot be read in any store", r.object.Name))...)
}

// get fetches a range.
func (s *Stores) get(ctx context.Context, from *taskpb.StoreAddress, o *jobpb.Object, off, size int64) ([]byte, error) {
	client, err := s.client(from.Address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit(o.Size)) // the store may have to compare the whole object
	defer cancel()
	call, err := client.Get(ctx, &controlpb.GetObject{Object: o, Offset: off, Size: size})
	if err != nil {
		return nil, err
	}
	data := make([]byte, 0, size)
	for {
		m, err := call.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		switch status.Code(err) {
		case codes.OK:
		case codes.NotFound:
			return nil, snapshot.ErrNotFound
		case codes.DataLoss:
			return nil, &snapshot.DamagedError{Name: snapshot.Name(o.Name), Where: from.Address, Cause: errors.New(status.Convert(err).Message())}
		default:
			return nil, err
		}
		if int64(len(data)+len(m.Data)) > size {
			return nil, fmt.Errorf("more than the %d bytes that were asked for", size)
		}
		data = append(data, m.Data...)
	}
	if int64(len(data)) != size {
		return nil, io.ErrUnexpectedEOF
	}
	return data, nil
}
