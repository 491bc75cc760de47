package shuffle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/proto/exchangepb"
)

// Defaults of NetworkConfig and GateConfig.
const (
	DefaultConnectTimeout  = 10 * time.Second
	DefaultExclusiveCredit = 2
	DefaultFloatingCredit  = 8
)

// Peer is where a task process can be reached.
type Peer struct {
	Worker  string // for messages
	Address string // the worker's data port
	Process uint64
}

// NetworkConfig is what a task process gives to its Network.
type NetworkConfig struct {
	Process uint64
	Job     string
	// Memory bounds the buffers of all writers and gates, in bytes.
	Memory int64
	// Listener yields the data connections that were handed over to this process; nil: local channels only. Run closes it.
	Listener net.Listener
	// Dial connects to another task process; the preface has been spoken. It may be called from several goroutines. An
	// error that wraps ErrGone is final, any other is tried again within ConnectTimeout. Nil: local channels only.
	Dial func(ctx context.Context, p Peer) (net.Conn, error)
	// ConnectTimeout is how long a gate waits for its producers to be there; 0: 10 s.
	ConnectTimeout time.Duration
	Log            hclog.Logger // nil: none
}

func (c *NetworkConfig) validate() error {
	var errs []error
	if c.Job == "" {
		errs = append(errs, errors.New("job is missing"))
	}
	if c.Memory <= 0 {
		errs = append(errs, fmt.Errorf("memory of %d bytes", c.Memory))
	}
	if c.ConnectTimeout < 0 {
		errs = append(errs, fmt.Errorf("connect timeout of %v", c.ConnectTimeout))
	}
	return wrap("network configuration", errs)
}

// End is the other end of a channel.
type End struct {
	Index   int32 // of the subtask
	Attempt uint32
	Peer    *Peer // nil: in this process
}

// Compression of the frames of an edge. Local channels are never compressed.
type Compression uint8

const (
	// Uncompressed frames cost the least CPU.
	Uncompressed Compression = iota
	// S2 halves typical records for about 60 ns each.
	S2
)

// WriterConfig describes the producing end of an edge in one subtask.
type WriterConfig[T any] struct {
	Ctx         context.Context // ends every wait
	Edge        int32
	Producer    int32 // index of this subtask
	Consumers   []End
	Job         string
	JobEpoch    uint64
	Region      int32
	RegionEpoch uint64
	Attempt     uint32
	Codec       *codec.Codec[T]
	Compression Compression
}

func (c *WriterConfig[T]) validate(n *Network) error {
	errs := checkEnd(n, c.Ctx, c.Job, c.Consumers)
	if c.Codec == nil {
		errs = append(errs, errors.New("codec is missing"))
	}
	if c.Compression > S2 {
		errs = append(errs, fmt.Errorf("unknown compression %d", c.Compression))
	}
	return wrap(fmt.Sprintf("writer of edge %d, producer %d", c.Edge, c.Producer), errs)
}

func (c *WriterConfig[T]) fence(consumer End) Fence {
	return Fence{
		Job: c.Job, JobEpoch: c.JobEpoch, Region: c.Region, RegionEpoch: c.RegionEpoch,
		Producer: c.Attempt, Consumer: consumer.Attempt,
	}
}

// GateConfig describes the consuming end of an edge in one subtask.
type GateConfig[T any] struct {
	Ctx         context.Context // when it ends, the gate has failed
	Edge        int32
	Consumer    int32 // index of this subtask
	Producers   []End
	Job         string
	JobEpoch    uint64
	Region      int32
	RegionEpoch uint64
	Attempt     uint32
	Codec       *codec.Codec[T]
	// Notify is called when Next may have something. It must not block and may come from any goroutine.
	Notify func()
	// ExclusiveCredit is the number of buffers that every channel may have in flight; 0: 2.
	ExclusiveCredit int
	// ConnectTimeout is how long it waits for its producers to be there; 0: as the network says.
	ConnectTimeout time.Duration
	// FloatingCredit is the number of further buffers that channels with a backlog share; 0: 8, negative: none.
	FloatingCredit int
}

func (c *GateConfig[T]) validate(n *Network) error {
	errs := checkEnd(n, c.Ctx, c.Job, c.Producers)
	if c.Codec == nil {
		errs = append(errs, errors.New("codec is missing"))
	}
	if c.Notify == nil {
		errs = append(errs, errors.New("notify is missing"))
	}
	if c.ExclusiveCredit < 0 || c.ExclusiveCredit > exchangepb.MaxCredit/2 || c.FloatingCredit > exchangepb.MaxCredit/2 {
		errs = append(errs, fmt.Errorf("credit of %d and %d buffers", c.ExclusiveCredit, c.FloatingCredit))
	}
	for _, p := range c.Producers {
		if p.Peer != nil && n.cfg.Dial == nil {
			errs = append(errs, fmt.Errorf("producer %d is in another process, and this one cannot dial", p.Index))
		}
	}
	return wrap(fmt.Sprintf("gate of edge %d, consumer %d", c.Edge, c.Consumer), errs)
}

// credit is the configured credit with defaults applied.
func (c *GateConfig[T]) credit() (exclusive, floating int) {
	exclusive, floating = c.ExclusiveCredit, c.FloatingCredit
	if exclusive == 0 {
		exclusive = DefaultExclusiveCredit
	}
	if floating == 0 {
		floating = DefaultFloatingCredit
	}
	return exclusive, max(0, floating)
}

func checkEnd(n *Network, ctx context.Context, job string, others []End) (errs []error) {
	if ctx == nil {
		errs = append(errs, errors.New("context is missing"))
	}
	if job != n.cfg.Job {
		errs = append(errs, fmt.Errorf("job %q in a process of job %q", job, n.cfg.Job))
	}
	if len(others) == 0 {
		errs = append(errs, errors.New("nobody at the other end"))
	}
	seen := make(map[int32]bool, len(others))
	for _, o := range others {
		if seen[o.Index] {
			errs = append(errs, fmt.Errorf("subtask %d appears twice at the other end", o.Index))
		}
		seen[o.Index] = true
		if o.Peer != nil && o.Peer.Process == n.cfg.Process {
			errs = append(errs, fmt.Errorf("subtask %d is said to be remote, in this process", o.Index))
		}
	}
	return errs
}

func wrap(what string, errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", what, errors.Join(errs...))
}
