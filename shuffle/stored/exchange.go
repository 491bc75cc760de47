package stored

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/budget"
	"github.com/sluiceio/sluice/shuffle/stored/partition"
)

var errStopped = errors.New("the exchange of stored results has stopped")

// Config is what a task process gives to its Exchange.
type Config struct {
	// Store holds the partitions of this worker.
	Store *Store
	// Memory is the account of the network memory of the process: shuffle.Network.Account.
	Memory *budget.Account
	// Dial connects to the agent of another worker; the preface, with process number 0, has been spoken. It may be
	// called from several goroutines. Nil: every partition is read from Store.
	Dial func(ctx context.Context, p shuffle.Peer) (net.Conn, error)
	// ConnectTimeout is how long a broken connection is dialled again; 0: 10 s.
	ConnectTimeout time.Duration
	Log            hclog.Logger // nil: none
}

func (c *Config) validate() error {
	var errs []error
	if c.Store == nil || c.Memory == nil {
		errs = append(errs, errors.New("store or memory is missing"))
	}
	if c.ConnectTimeout < 0 {
		errs = append(errs, fmt.Errorf("connect timeout of %v", c.ConnectTimeout))
	}
	return errors.Join(errs...)
}

// Exchange is what the writers and readers of one task process share.
type Exchange struct {
	cfg   Config
	log   hclog.Logger
	conns *conns
	coder func() (*partition.Coder, error) // made at the first use
	mu    struct {
		sync.Mutex
		group   *run.Group // nil before Run. Lock order: mu before the group's own.
		parked  []task     // launched before Run
		stopped bool
		zstd    bool // memory for it is reserved
	}
}

// task is what runs in the group of an exchange.
type task struct {
	name string
	run  func(context.Context)
}

func (t task) protected(ctx context.Context) error {
	t.run(ctx)
	return nil
}

// NewExchange checks cfg. Nothing runs before Run.
func NewExchange(cfg Config) (*Exchange, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("exchange of stored results: %w", err)
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = shuffle.DefaultConnectTimeout
	}
	x := &Exchange{cfg: cfg, log: cfg.Log, conns: newConns(cfg)}
	if x.log == nil {
		x.log = hclog.NewNullLogger()
	}
	x.coder = sync.OnceValues(func() (*partition.Coder, error) { return partition.NewCoder(coderUsers()) })
	return x, nil
}

func coderUsers() int { return runtime.GOMAXPROCS(0) }

// zstdBytes are reserved once, by whoever comes first: the coder is common to all.
func zstdBytes() int64 { return int64(coderUsers()) * partition.CoderMemory }

// Run reads ahead for the readers, those made before it included, until ctx ends, and waits for everything that it has
// started. Readers that are open then fail. An exchange runs once.
func (x *Exchange) Run(ctx context.Context) error {
	g := run.NewGroup(ctx, "stored results")
	x.mu.Lock()
	if x.mu.group != nil {
		x.mu.Unlock()
		return errors.New("exchange of stored results: Run called twice")
	}
	x.mu.group = g
	for _, t := range x.mu.parked {
		g.Go(t.name, t.protected)
	}
	x.mu.parked = nil
	x.mu.Unlock()

	<-g.Context().Done()
	x.mu.Lock()
	x.mu.stopped = true
	x.mu.Unlock()
	err := g.Wait()
	x.mu.Lock()
	if x.mu.zstd {
		x.mu.zstd = false
		x.cfg.Memory.Release(zstdBytes())
	}
	x.mu.Unlock()
	return errors.Join(err, x.conns.close())
}

// launch has t run beside the others. False: never.
func (x *Exchange) launch(t task) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.mu.stopped:
		return false
	case x.mu.group == nil:
		x.mu.parked = append(x.mu.parked, t)
	default:
		x.mu.group.Go(t.name, t.protected)
	}
	return true
}

// prepare makes sure that there is memory for a form of compression.
func (x *Exchange) prepare(form partition.Form) error {
	if form != partition.Zstd {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.mu.zstd {
		return nil
	}
	if x.mu.stopped {
		return errStopped
	}
	err := x.cfg.Memory.Reserve("compression with zstd", zstdBytes())
	x.mu.zstd = err == nil
	return err
}
