package edge

import (
	"fmt"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/stored"
	"github.com/sluiceio/sluice/worker/task/chain"
	"github.com/sluiceio/sluice/worker/task/fault"
	"github.com/sluiceio/sluice/worker/task/mark"
)

// Gate is the reading end of one edge, erased.
type Gate interface {
	// Step handles at most limit records of one batch, or one event of a channel; with limit 0 nothing but events, up to the
	// next record. ev is what the gate as a whole has to
	// say because of it. idle: there was nothing.
	Step(limit int) (records int, ev element.Event, idle bool, err error)
	Position() string
	// Unreadable are the stored results that it has yet to read and that cannot be read. It asks their holders, and gives
	// up after a moment.
	Unreadable() []stored.Name
	// Received so far; its Records are the head's to count.
	Received() chain.Received
	// Newest is the largest watermark of any of its channels.
	Newest() element.Time
	// Clock tells which channel holds the clock.
	Clock() *taskpb.InputClock
	// Channels is the number of live channels, by which barriers come.
	Channels() int
	// Arrived is the barrier or the end of a channel that the last step has taken, once.
	Arrived() (channel int, ev element.Event)
	// Hold leaves a live channel unread until Resume.
	Hold(channel int)
	Resume()
	// Promised is a watermark that the input had said before the checkpoint that the attempt starts from.
	Promised(t element.Time)
	// Positions is where it stands in stored results; nil if it reads none.
	Positions() []*snapshotpb.Position
	// Close gives it up; nil: it has ended.
	Close(err error)
}

// reader is where a gate's batches come from: a shuffle.Gate or a stored.Reader.
type reader[T any] interface {
	Next() (shuffle.Input[T], bool, error)
	Release(shuffle.Input[T])
	Stats() shuffle.GateStats
	Close(error)
}

// gate is the reading end of an edge: of one kind or the other, which only its reader knows.
type gate[T any] struct {
	r        reader[T]
	stored   bool
	lost     func() []stored.Name // nil: nothing that it reads is stored
	push     chain.Push[T]
	ahead    func(next []T) // told of at most so many records before they are pushed; nil: nobody wants to know
	most     int
	cur      *chain.Cursor
	marks    *mark.Merger // over the channels
	subtasks []int32      // of the producer, by channel
	from     string       // operator id of the producer

	in      shuffle.Input[T]
	holding bool    // in has a batch that is not done with
	at      int     // next record of it; while records are pushed, the one in flight
	before  []int64 // records received by channel, without those of in

	live    int // channels; the rest has ended in the checkpoint that the attempt starts from
	channel int // of arrived
	arrived element.Event
	holder  interface { // of a live gate
		Hold(channel int)
		Resume()
	}
	pos positions
}

func newGate[T any](j Joint, r reader[T], push chain.Push[T], subtasks []int32) *gate[T] {
	g := &gate[T]{
		r: r, stored: Blocking(j.Edge), push: push, cur: j.Runtime.Cursor, marks: mark.New(len(subtasks)),
		subtasks: subtasks, from: j.From, before: make([]int64, len(subtasks)), live: len(subtasks),
	}
	g.most, g.ahead = chain.AheadOf[T](j.Runtime, j.Input)
	return g
}

func (g *gate[T]) Step(limit int) (int, element.Event, bool, error) {
	if !g.holding {
		in, ok, err := g.r.Next()
		if !ok || err != nil {
			return 0, element.Event{}, true, err
		}
		if in.Batch == nil {
			ev, err := g.event(in.Channel, in.Event)
			return 0, ev, false, err
		}
		g.in, g.holding, g.at = in, true, 0
	}
	if limit == 0 {
		return 0, element.Event{}, true, nil
	}
	return g.records(limit), element.Event{}, false, nil
}

func (g *gate[T]) records(limit int) int {
	b := g.in.Batch
	first := g.at
	end := min(first+limit, b.Len())
	if g.ahead == nil {
		g.hand(b, first, end)
	} else {
		for i := first; i < end; i += g.most {
			to := min(i+g.most, end)
			g.ahead(b.Vals[i:to])
			g.hand(b, i, to)
		}
	}
	g.at = end
	if end == b.Len() {
		g.before[g.in.Channel] += int64(end)
		g.holding = false
		g.r.Release(g.in)
	}
	return end - first
}

// hand pushes records of a batch.
func (g *gate[T]) hand(b *element.Batch[T], first, end int) {
	vals, times := b.Vals[:end], b.Times[:end]
	for i := first; i < end; i++ {
		g.at = i
		g.cur.At = times[i]
		g.push(vals[i])
	}
}

func (g *gate[T]) event(channel int, ev element.Event) (element.Event, error) {
	switch ev.Kind {
	case element.Watermark:
		g.marks.Set(channel, ev.Time)
	case element.Idle:
		g.marks.Rest(channel)
	case element.End:
		g.marks.Finish(channel, ev.Time)
		g.channel, g.arrived = channel, ev
	case element.Barrier:
		g.channel, g.arrived = channel, ev
		return element.Event{}, nil
	default:
		return element.Event{}, fault.Fatal(fault.CodePeer, "event %d on a channel", ev.Kind)
	}
	out, _ := g.marks.Next()
	return out, nil
}

// Position counts from 1 within the channel.
func (g *gate[T]) Position() string {
	if !g.holding {
		return ""
	}
	c := g.in.Channel
	return fmt.Sprintf("record %d from subtask %d of %s", g.before[c]+int64(g.at)+1, g.subtasks[c], g.from)
}

func (g *gate[T]) Unreadable() []stored.Name {
	if g.lost == nil {
		return nil
	}
	return g.lost()
}

func (g *gate[T]) Received() chain.Received {
	s := g.r.Stats()
	if g.stored {
		return chain.Received{Stored: s.Bytes}
	}
	return chain.Received{Bytes: s.Bytes}
}

func (g *gate[T]) Newest() element.Time { return g.marks.Newest() }

func (g *gate[T]) Clock() *taskpb.InputClock {
	c := &taskpb.InputClock{From: -1, Channels: int32(g.marks.Len())}
	for i := range g.marks.Len() {
		switch _, state := g.marks.At(i); state {
		case mark.Idle:
			c.IdleChannels++
		case mark.Ended:
			c.EndedChannels++
		}
	}
	if i := g.marks.Holder(0); i >= 0 {
		c.From = g.subtasks[i]
	}
	return c
}

func (g *gate[T]) Close(err error) { g.r.Close(err) }

func (g *gate[T]) Channels() int {
	if g.stored {
		return 0
	}
	return g.live
}

func (g *gate[T]) Arrived() (int, element.Event) {
	ev := g.arrived
	if ev.Kind == element.None {
		return 0, ev
	}
	g.arrived = element.Event{}
	if g.stored {
		return 0, element.Event{}
	}
	return g.channel, ev
}

func (g *gate[T]) Hold(channel int) { g.holder.Hold(channel) }

func (g *gate[T]) Resume() {
	if g.holder != nil {
		g.holder.Resume()
	}
}

func (g *gate[T]) Promised(t element.Time) { g.marks.Restore(t) }

// NoChannels is the gate of an input that nobody writes to here: nothing will come.
func NoChannels() Gate { return &closedGate{} }

type closedGate struct {
	said bool
	read []*snapshotpb.Position
}

func (g *closedGate) Step(int) (int, element.Event, bool, error) {
	if g.said {
		return 0, element.Event{}, true, nil
	}
	g.said = true
	return 0, element.Event{Kind: element.End, Time: element.MaxTime}, false, nil
}

func (g *closedGate) Position() string          { return "" }
func (g *closedGate) Unreadable() []stored.Name { return nil }
func (g *closedGate) Received() chain.Received  { return chain.Received{} }
func (g *closedGate) Newest() element.Time      { return element.MinTime }
func (g *closedGate) Clock() *taskpb.InputClock { return &taskpb.InputClock{From: -1} }
func (g *closedGate) Close(error)               {}
func (g *closedGate) Channels() int             { return 0 }
func (g *closedGate) Hold(int)                  {}
func (g *closedGate) Resume()                   {}
func (g *closedGate) Promised(element.Time)     {}

func (g *closedGate) Arrived() (int, element.Event)     { return 0, element.Event{} }
func (g *closedGate) Positions() []*snapshotpb.Position { return g.read }
