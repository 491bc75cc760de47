package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/fs"
)

// Config of Stores.
type Config struct {
	// Own is the directory of the worker that this process belongs to, ID its store id. Without it, as for a leader, objects lie in the
	// targets alone.
	Own *fs.Store
	ID  string
	// Dial makes a connection to a worker's control port. It is lazy.
	Dial func(address string) (*grpc.ClientConn, error)
}

// Stores are the workers' stores as one process sees them.
type Stores struct {
	cfg Config

	mu struct {
		sync.Mutex
		conns    map[string]*grpc.ClientConn
		verified map[string]bool // names in the own directory that were compared with their digest
		closed   bool
	}
}

var _ snapshot.Stores = (*Stores)(nil)

// New connects to nobody yet.
func New(c Config) *Stores {
	s := &Stores{cfg: c}
	s.mu.conns, s.mu.verified = map[string]*grpc.ClientConn{}, map[string]bool{}
	return s
}

// Close ends the connections. Readers that are open fail.
func (s *Stores) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.closed = true
	var errs []error
	for _, c := range s.mu.conns {
		errs = append(errs, c.Close())
	}
	clear(s.mu.conns)
	return errors.Join(errs...)
}

func (s *Stores) client(address string) (controlpb.ObjectsClient, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, errors.New("the stores are closed")
	}
	c := s.mu.conns[address]
	if c == nil {
		var err error
		if c, err = s.cfg.Dial(address); err != nil {
			return nil, err
		}
		s.mu.conns[address] = c
	}
	return controlpb.NewObjectsClient(c), nil
}

// Limits of a call, so that a worker that hangs is passed over: a start, and the time for the bytes at a rate that every disk and
// network in use exceeds.
const (
	patience = 5 * time.Second
	slowest  = 4 << 20 // bytes per second
	// chunkBytes is how much one message carries.
	chunkBytes = 256 << 10
)

func limit(bytes int64) time.Duration {
	return patience + time.Duration(bytes)*time.Second/slowest
}

// Create begins an object.
func (s *Stores) Create(ctx context.Context, name snapshot.Name) (snapshot.Upload, error) {
	if s.cfg.Own == nil {
		if err := name.Validate(); err != nil {
			return nil, err
		}
		return &upload{s: s, name: name}, nil
	}
	u, err := s.cfg.Own.Draft(ctx, name)
	if err != nil {
		return nil, err
	}
	return &upload{s: s, name: name, own: u}, nil
}

// upload is an object that is written into the own directory, or collected in memory if there is none.
type upload struct {
	s    *Stores
	name snapshot.Name
	own  snapshot.Draft
	buf  bytes.Buffer
}

func (u *upload) Write(b []byte) (int, error) {
	if u.own != nil {
		return u.own.Write(b)
	}
	return u.buf.Write(b)
}

func (u *upload) Abort() {
	if u.own != nil {
		u.own.Abort()
	}
	u.buf = bytes.Buffer{}
}

// Commit publishes the own copy and sends the others.
func (u *upload) Commit(ctx context.Context, targets []*taskpb.StoreAddress, copies int) (*jobpb.StoredObject, error) {
	out := &jobpb.StoredObject{}
	var source snapshot.Reader
	if u.own != nil {
		o, err := u.own.Commit(ctx)
		if err != nil {
			return nil, err
		}
		out.Object, out.Stores = o, []string{u.s.cfg.ID}
		if source, err = u.s.cfg.Own.Open(ctx, u.name); err != nil {
			return nil, err
		}
	} else {
		source = memory{bytes.NewReader(u.buf.Bytes())}
		out.Object = &jobpb.Object{Name: string(u.name), Size: source.Size()}
	}
	err := u.s.spread(ctx, out, source, targets, copies)
	if err = errors.Join(err, source.Close()); err != nil {
		return nil, err
	}
	u.buf = bytes.Buffer{}
	slices.Sort(out.Stores)
	return out, nil
}

type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// spread sends copies to targets, in their order and as many at a time as are missing, until there are enough.
func (s *Stores) spread(ctx context.Context, out *jobpb.StoredObject, source snapshot.Reader, targets []*taskpb.StoreAddress, copies int) error {
	var failed []error
	for len(targets) > 0 && len(out.Stores) < copies {
		n := min(len(targets), copies-len(out.Stores))
		errs := make([]error, n)
		got := make([]*jobpb.Object, n)
		var wg sync.WaitGroup
		for i, t := range targets[:n] {
			wg.Go(func() { got[i], errs[i] = s.put(ctx, t, out.Object, source) })
		}
		wg.Wait()
		for i, t := range targets[:n] {
			if errs[i] != nil {
				failed = append(failed, &snapshot.WriteError{Where: t.Address, Bytes: out.Object.Size, Cause: errs[i]})
				continue
			}
			out.Object, out.Stores = got[i], append(out.Stores, t.Store)
		}
		targets = targets[n:]
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(out.Stores) == 0 {
		return errors.Join(append(failed, errors.New("no store has taken the object"))...)
	}
	if len(out.Stores) < copies && len(failed) > 0 {
		return errors.Join(failed...)
	}
	return nil
}

// put sends one copy.
func (s *Stores) put(ctx context.Context, to *taskpb.StoreAddress, o *jobpb.Object, source snapshot.Reader) (*jobpb.Object, error) {
	client, err := s.client(to.Address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit(o.Size))
	defer cancel()
	call, err := client.Put(ctx)
	if err != nil {
		return nil, err
	}
	err = call.Send(&controlpb.PutObject{Part: &controlpb.PutObject_Object{Object: o}})
	buf := make([]byte, min(chunkBytes, max(1, o.Size)))
	for at := int64(0); err == nil && at < o.Size; {
		n, rerr := source.ReadAt(buf[:min(int64(len(buf)), o.Size-at)], at)
		if rerr != nil && !errors.Is(rerr, io.EOF) {
			return nil, rerr
		}
		if n == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		err = call.Send(&controlpb.PutObject{Part: &controlpb.PutObject_Data{Data: buf[:n]}})
		at += int64(n)
	}
	// After a failed send the answer has the reason.
	got, rerr := call.CloseAndRecv()
	if rerr != nil {
		return nil, rerr
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if got.Size != o.Size || len(o.Digest) > 0 && !bytes.Equal(got.Digest, o.Digest) {
		return nil, fmt.Errorf("%s arrived with other bytes", o.Name)
	}
	return got, nil
}
