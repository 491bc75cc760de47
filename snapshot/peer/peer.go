package peer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/snapshot"
)

// DefaultStall is how long an agent may take for the next step of a call.
const DefaultStall = 10 * time.Second

// Config says who looks at the cluster.
type Config struct {
	Policy wire.Policy
	// Own is the store of this process's worker, and ID the id of its data directory. A leader has none.
	Own snapshot.Drafter
	ID  string
	// Shared: the own store is that of all workers, too. What is put into it is in each of theirs, and what any of them has is in it.
	Shared bool
	// Stall: a call that does not move for that long is given up. 0: DefaultStall.
	Stall time.Duration
}

// Stores are the stores of a cluster.
type Stores struct {
	cfg Config

	mu struct {
		sync.Mutex
		conns    map[string]*grpc.ClientConn // by address
		verified map[snapshot.Name]bool      // own objects whose bytes had their digest
		closed   bool
	}
}

// New makes the Stores of one process. Nothing is dialled before it is needed.
func New(cfg Config) *Stores {
	if cfg.Stall == 0 {
		cfg.Stall = DefaultStall
	}
	s := &Stores{cfg: cfg}
	s.mu.conns, s.mu.verified = map[string]*grpc.ClientConn{}, map[snapshot.Name]bool{}
	return s
}

// Close ends the connections; calls under way fail.
func (s *Stores) Close() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.closed = true
	for _, c := range s.mu.conns {
		err = errors.Join(err, c.Close())
	}
	clear(s.mu.conns)
	return err
}

var errClosed = errors.New("the stores were closed")

// maxConns bounds the connections that are kept. Workers come and go; what is used again is dialled again.
const maxConns = 1024

func (s *Stores) client(address string) (controlpb.ObjectsClient, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, errClosed
	}
	if c := s.mu.conns[address]; c != nil {
		return controlpb.NewObjectsClient(c), nil
	}
	if len(s.mu.conns) >= maxConns {
		for a, c := range s.mu.conns { // whichever: its calls fail, and their objects are asked for elsewhere
			delete(s.mu.conns, a)
			if err := c.Close(); err != nil {
				return nil, err
			}
			break
		}
	}
	c, err := s.cfg.Policy.Client(address)
	if err != nil {
		return nil, err
	}
	s.mu.conns[address] = c
	return controlpb.NewObjectsClient(c), nil
}

// errStalled is the end of a call whose other side does not move.
var errStalled = errors.New("the store does not answer")

// stall ends a context when it was not fed for a while.
type stall struct {
	timer *time.Timer
	limit time.Duration
}

func (s *Stores) watched(ctx context.Context) (context.Context, *stall, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &stall{limit: s.cfg.Stall}
	w.timer = time.AfterFunc(w.limit, func() { cancel(fmt.Errorf("%w for %s", errStalled, w.limit)) })
	return ctx, w, func() {
		w.timer.Stop()
		cancel(nil)
	}
}

func (w *stall) feed() { w.timer.Reset(w.limit) }

// Open implements snapshot.Stores.
func (s *Stores) Open(ctx context.Context, o *jobpb.StoredObject, addresses []*taskpb.StoreAddress) (snapshot.Reader, error) {
	name := snapshot.Name(o.GetObject().GetName())
	if err := name.Validate(); err != nil {
		return nil, err
	}
	r, err := s.openOwn(ctx, o, addresses)
	if err == nil {
		return r, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	far, ferr := s.Elsewhere(ctx, o, addresses)
	if ferr == nil {
		return far, nil
	}
	if errors.Is(err, errElsewhere) {
		return nil, ferr
	}
	if errors.Is(err, snapshot.ErrNotFound) != errors.Is(ferr, snapshot.ErrNotFound) { // one of them is more than absence
		if errors.Is(err, snapshot.ErrNotFound) {
			return nil, ferr
		}
		return nil, fmt.Errorf("%w; and elsewhere: %v", err, ferr) // not: that it is not found
	}
	return nil, errors.Join(err, ferr)
}

// errElsewhere: the own store is not asked.
var errElsewhere = errors.New("not in the own store")

// openOwn opens the own copy, if it is what it should be. A store that is named, but is not the own one, is not asked for in vain.
func (s *Stores) openOwn(ctx context.Context, o *jobpb.StoredObject, addresses []*taskpb.StoreAddress) (snapshot.Reader, error) {
	if s.cfg.Own == nil || !s.cfg.Shared && len(o.Stores) == 1 && o.Stores[0] != s.cfg.ID && len(addresses) > 0 {
		return nil, errElsewhere
	}
	name := snapshot.Name(o.Object.Name)
	r, err := s.cfg.Own.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	sound := s.mu.verified[name]
	s.mu.Unlock()
	if sound && r.Size() == o.Object.Size {
		return r, nil
	}
	if err := snapshot.Verify(ctx, r, o.Object, s.cfg.ID); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	s.believe(name)
	return r, nil
}

// maxVerified bounds the names of objects that were read once.
const maxVerified = 1 << 14

func (s *Stores) believe(name snapshot.Name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.verified) >= maxVerified {
		clear(s.mu.verified)
	}
	s.mu.verified[name] = true
}
