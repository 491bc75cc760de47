package stored

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/stored/partition"
)

const (
	// connectionBytes are charged for a connection to an agent: buffers of the transport.
	connectionBytes = 64 << 10
	// maxIdle bounds the connections that are kept although nobody reads over them: partitions are read one after the
	// other, and the next one often lies where an earlier one did.
	maxIdle = 16

	ioBuffer         = 32 << 10  // bytes, for reading and for writing
	streamWindow     = 512 << 10 // bytes; what is under way is bounded by chunks, and always taken at once
	connectionWindow = 1 << 20   // bytes

	firstRetry = 10 * time.Millisecond
	lastRetry  = 250 * time.Millisecond
)

// conns are the connections to the agents of other workers. A read that breaks is begun again where it was, so a
// connection may be dialled any number of times.
type conns struct {
	cfg Config
	mu  struct {
		sync.Mutex
		byPeer map[shuffle.Peer]*conn
		idle   []*conn // oldest first
	}
}

type conn struct {
	*grpc.ClientConn
	peer  shuffle.Peer
	users int // guarded by the lock of conns
}

func newConns(cfg Config) *conns {
	c := &conns{cfg: cfg}
	c.mu.byPeer = map[shuffle.Peer]*conn{}
	return c
}

// acquire is the connection to an agent; nothing is dialled yet.
func (c *conns) acquire(p shuffle.Peer) (*conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.mu.byPeer[p]
	if k == nil {
		if err := c.cfg.Memory.Reserve("the connection to the agent of worker "+p.Worker, connectionBytes); err != nil {
			return nil, err
		}
		cc, err := c.client(p)
		if err != nil {
			c.cfg.Memory.Release(connectionBytes)
			return nil, err
		}
		k = &conn{ClientConn: cc, peer: p}
		c.mu.byPeer[p] = k
	}
	if k.users++; k.users == 1 {
		if i := slices.Index(c.mu.idle, k); i >= 0 {
			c.mu.idle = slices.Delete(c.mu.idle, i, i+1)
		}
	}
	return k, nil
}

func (c *conns) client(p shuffle.Peer) (*grpc.ClientConn, error) {
	return wire.Policy{}.Client(p.Address,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return c.cfg.Dial(ctx, p) }),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstRetry, Multiplier: 2, Jitter: 0.2, MaxDelay: lastRetry},
			MinConnectTimeout: max(c.cfg.ConnectTimeout/4, time.Second), // so that it can be told why nothing comes of it
		}),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(passThrough{}), grpc.MaxCallRecvMsgSize(1+partition.MaxBlock)),
		grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(connectionWindow),
		grpc.WithReadBufferSize(ioBuffer), grpc.WithWriteBufferSize(ioBuffer),
	)
}

// release gives a connection back. The oldest idle one is closed when there are too many.
func (c *conns) release(k *conn) error {
	var old *conn
	c.mu.Lock()
	if k.users--; k.users == 0 {
		c.mu.idle = append(c.mu.idle, k)
	}
	if len(c.mu.idle) > maxIdle {
		old = c.mu.idle[0]
		c.mu.idle = slices.Delete(c.mu.idle, 0, 1)
		delete(c.mu.byPeer, old.peer)
	}
	c.mu.Unlock()
	if old == nil {
		return nil
	}
	c.cfg.Memory.Release(connectionBytes)
	return old.Close()
}

// close ends all connections. Nobody uses one any more.
func (c *conns) close() error {
	c.mu.Lock()
	all := c.mu.byPeer
	c.mu.byPeer, c.mu.idle = map[shuffle.Peer]*conn{}, nil
	c.mu.Unlock()
	var err error
	for _, k := range all {
		c.cfg.Memory.Release(connectionBytes)
		err = errors.Join(err, k.Close())
	}
	return err
}
