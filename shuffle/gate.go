package shuffle

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/invariant"
	"github.com/sluiceio/sluice/shuffle/budget"
	"github.com/sluiceio/sluice/shuffle/credit"
	"github.com/sluiceio/sluice/shuffle/frame"
	"github.com/sluiceio/sluice/shuffle/meet"
)

// Input is what a gate yields: a batch or an event of one channel.
type Input[T any] struct {
	Channel int               // position in GateConfig.Producers
	Batch   *element.Batch[T] // nil: Event
	Event   element.Event

	local  bool // the batch belongs to the channel's producer
	credit bool // a buffer is returned with the batch
}

// Gate is the consuming end of one edge in one subtask. It belongs to the subtask's loop: its methods are called from
// one goroutine.
type Gate[T any] struct {
	cfg      GateConfig[T]
	n        *Network
	in       *inbox
	ends     []arrival
	reserved budget.Reservation
	closed   bool
	loop     invariant.Exclusive
	stats    GateStats

	event   Input[T]            // directly behind the batch that was yielded last
	frame   opened              // the frame that is being read
	record  pieces              // the large record that is being put together
	free    []*element.Batch[T] // for records from frames
	scratch []byte              // a frame in one piece
	plain   []byte              // a payload after decompression
}

// opened is a frame whose payload was checked.
type opened struct {
	ch       int
	segments []frame.Segment // left to read
	storage  []frame.Segment
	records  []byte // of these segments
	left     uint32 // records not yet yielded
}

// pieces is a record under way. While it is incomplete nothing is taken from other channels, so that a gate holds one
// at most; its producer is sending just this, and gets credit for every piece.
type pieces struct {
	ch   int // -1: none
	data []byte
	held int64 // bytes of network memory: the size of the whole record
}

// GateStats are a gate's counters since its start.
type GateStats struct {
	Records int64
	Buffers int64 // batches and frames
	Bytes   int64 // in frames; local channels encode nothing
}

// NewGate registers the consuming end of an edge and has its producers asked for their partitions.
func NewGate[T any](n *Network, cfg GateConfig[T]) (*Gate[T], error) {
	if err := cfg.validate(n); err != nil {
		return nil, err
	}
	g := &Gate[T]{cfg: cfg, n: n, record: pieces{ch: -1}}
	exclusive, floating := cfg.credit()
	what := fmt.Sprintf("consumer %d of edge %d with %d producers", cfg.Consumer, cfg.Edge, len(cfg.Producers))
	unit, reserved, err := n.memory.Fit(what, exclusive*len(cfg.Producers)+floating)
	if err != nil {
		return nil, err
	}
	g.reserved = reserved
	g.in = &inbox{
		edge: cfg.Edge, consumer: cfg.Consumer, producers: cfg.Producers, unit: unit, exclusive: exclusive, notify: cfg.Notify,
		fence:    Fence{Job: cfg.Job, JobEpoch: cfg.JobEpoch, Region: cfg.Region, RegionEpoch: cfg.RegionEpoch, Consumer: cfg.Attempt},
		deadline: time.Now().Add(cmp.Or(cfg.ConnectTimeout, n.cfg.ConnectTimeout)),
	}
	g.in.mu.ledger = credit.New(len(cfg.Producers), exclusive, floating)
	g.in.mu.channels = make([]inChannel, len(cfg.Producers))
	g.in.mu.unopened = len(cfg.Producers)
	for ch := range cfg.Producers {
		a := arrival{id: g.in.id(ch), fence: g.in.fenceOf(ch), end: inEnd{g.in, ch}}
		g.ends = append(g.ends, a)
	}
	if err := n.join(meet.Consuming, g.ends); err != nil {
		n.memory.GiveBack(reserved)
		return nil, fmt.Errorf("register consumer %d of edge %d: %w", cfg.Consumer, cfg.Edge, err)
	}
	if err := n.connect(g.in); err != nil {
		g.Close(err)
		return nil, err
	}
	return g, nil
}

// Stats are the counters so far.
func (g *Gate[T]) Stats() GateStats { return g.stats }

// Next yields the next input, if there is one. It never blocks. An error means that the gate has failed: a producer
// was lost or has refused, or a frame was corrupt. It is the same error from then on.
func (g *Gate[T]) Next() (Input[T], bool, error) {
	if invariant.Enabled {
		g.loop.Enter("Next")
		defer g.loop.Leave()
	}
	for {
		if g.event.Event.Kind != element.None {
			in := g.event
			g.event = Input[T]{}
			return in, true, nil
		}
		if in, ok, err := g.read(); ok || err != nil {
			return in, ok, err
		}
		it, ch, ok, err := g.in.take(g.record.ch)
		if err != nil {
			return Input[T]{}, false, err
		}
		if !ok {
			if g.cfg.Ctx.Err() != nil {
				return Input[T]{}, false, context.Cause(g.cfg.Ctx)
			}
			return Input[T]{}, false, nil
		}
		g.stats.Buffers++
		if it.data != nil {
			if in, ok, err := g.openFrame(ch, it); ok || err != nil {
				return in, ok, err
			}
			continue
		}
		if in, ok, err := g.fromBatch(ch, it); ok || err != nil {
			return in, ok, err
		}
	}
}

// fromBatch yields what a producer of this process has sent.
func (g *Gate[T]) fromBatch(ch int, it item) (Input[T], bool, error) {
	g.event = Input[T]{Channel: ch, Event: it.event}
	if it.batch == nil {
		g.in.release(ch, nil)
		return Input[T]{}, false, nil
	}
	b, ok := it.batch.(*element.Batch[T])
	if !ok {
		return Input[T]{}, false, g.lost(ch, Protocol, fmt.Errorf("the producer sends %T, want %T", it.batch, b))
	}
	g.stats.Records += int64(b.Len())
	return Input[T]{Channel: ch, Batch: b, local: true, credit: true}, true, nil
}

// Release gives an input's batch back and grants credit for it. Every input with a batch is released once.
func (g *Gate[T]) Release(in Input[T]) {
	if invariant.Enabled {
		g.loop.Enter("Release")
		defer g.loop.Leave()
	}
	if in.Batch == nil {
		return
	}
	in.Batch.Reset()
	if in.local {
		g.in.release(in.Channel, in.Batch)
		return
	}
	g.free = append(g.free, in.Batch)
	if in.credit {
		g.in.release(in.Channel, nil)
	}
}

// Hold leaves a channel unread until Resume, because its barrier has come and those of others have not. What arrives on it
// meanwhile keeps its credit, so that its producer comes to rest; the other channels go on. Called when the barrier was
// yielded.
func (g *Gate[T]) Hold(channel int) { g.in.hold(channel) }

// Resume has every channel read again.
func (g *Gate[T]) Resume() { g.in.resume() }

// lost fails the gate and returns its error, which is an earlier one if there was one.
func (g *Gate[T]) lost(ch int, r Reason, cause error) error {
	return g.failed(g.in.id(ch).lost(r, cause))
}

// failed ends the gate; the first failure stands.
func (g *Gate[T]) failed(cause error) error {
	g.in.fail(cause)
	_, _, _, err := g.in.take(g.record.ch)
	return err
}

// Close ends the gate: with a nil err its producers learn that it needs nothing more, with another they see a loss.
func (g *Gate[T]) Close(err error) {
	if invariant.Enabled {
		g.loop.Enter("Close")
		defer g.loop.Leave()
	}
	if g.closed {
		return
	}
	g.closed = true
	reason := none
	if err != nil {
		reason = Failed
	}
	locals, intakes := g.in.close()
	for _, l := range locals {
		l.consumerClosed(reason, err)
	}
	for _, i := range intakes {
		i.close(reason, err)
	}
	g.n.leave(meet.Consuming, g.ends)
	g.n.memory.GiveBack(g.reserved)
	g.n.memory.Release(g.record.held)
	g.record = pieces{ch: -1}
}
