package edge

import (
	"fmt"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/worker/task/chain"
	"github.com/sluiceio/sluice/worker/task/fault"
	"github.com/sluiceio/sluice/worker/task/mark"
)

// liveOutlet is the writing end of a PIPELINED edge.
type liveOutlet[T any] struct{ w *shuffle.Writer[T] }

func (o *liveOutlet[T]) Flush() error                     { return o.w.Flush() }
func (o *liveOutlet[T]) Broadcast(ev element.Event) error { return o.w.Broadcast(ev) }
func (o *liveOutlet[T]) Pending() bool                    { return o.w.Pending() }
func (o *liveOutlet[T]) Close(err error) error            { return o.w.Close(err) }

func (o *liveOutlet[T]) Stats() chain.OutletStats {
	s := o.w.Stats()
	return chain.OutletStats{Records: s.Records, Bytes: s.Bytes, Blocked: s.Blocked}
}

// liveGate is the reading end of a PIPELINED edge.
type liveGate[T any] struct {
	g     *shuffle.Gate[T]
	push  chain.Push[T]
	cur   *chain.Cursor
	marks *mark.Merger // over the channels
	ends  []shuffle.End
	from  string // operator id of the producer

	in      shuffle.Input[T]
	holding bool    // in has a batch that is not done with
	at      int     // next record of it; while records are pushed, the one in flight
	before  []int64 // records received by channel, without those of in
}

func (e *liveGate[T]) Step(limit int) (int, element.Event, bool, error) {
	if !e.holding {
		in, ok, err := e.g.Next()
		if !ok || err != nil {
			return 0, element.Event{}, true, err
		}
		if in.Batch == nil {
			ev, err := e.event(in.Channel, in.Event)
			return 0, ev, false, err
		}
		e.in, e.holding, e.at = in, true, 0
	}
	return e.records(limit), element.Event{}, false, nil
}

func (e *liveGate[T]) records(limit int) int {
	b := e.in.Batch
	first := e.at
	end := min(first+limit, b.Len())
	vals, times := b.Vals[:end], b.Times[:end]
	for i := first; i < end; i++ {
		e.at = i
		e.cur.At = times[i]
		e.push(vals[i])
	}
	e.at = end
	if end == b.Len() {
		e.before[e.in.Channel] += int64(end)
		e.holding = false
		e.g.Release(e.in)
	}
	return end - first
}

func (e *liveGate[T]) event(channel int, ev element.Event) (element.Event, error) {
	switch ev.Kind {
	case element.Watermark:
		e.marks.Set(channel, ev.Time)
	case element.Idle:
		e.marks.Rest(channel)
	case element.End:
		e.marks.Finish(channel, ev.Time)
	default:
		return element.Event{}, fault.Fatal(fault.CodePeer, "event %d on a channel: this runtime takes no checkpoints", ev.Kind)
	}
	out, _ := e.marks.Next()
	return out, nil
}

// Position counts from 1 within the channel.
func (e *liveGate[T]) Position() string {
	if !e.holding {
		return ""
	}
	c := e.in.Channel
	return fmt.Sprintf("record %d from subtask %d of %s", e.before[c]+int64(e.at)+1, e.ends[c].Index, e.from)
}

func (e *liveGate[T]) Received() chain.Received { return chain.Received{Bytes: e.g.Stats().Bytes} }

func (e *liveGate[T]) Close(err error) { e.g.Close(err) }
