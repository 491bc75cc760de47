package task

import (
	"context"
	"fmt"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/worker/task/fault"
	"github.com/sluiceio/sluice/worker/task/layout"
	"github.com/sluiceio/sluice/worker/task/mark"
)

// Exchange is both ends of one logical edge: typed where the record type is known, erased here.
type Exchange interface {
	// keyed says that the exchange can route by key group.
	keyed() bool
	// outlet makes the writing end: the push that routes, a Push of the record type, and its control side.
	outlet(j joint) (push any, o outlet, err error)
	// gate makes the reading end, which gives its records to push.
	gate(j joint, push any) (gate, error)
}

// joint is one end of an edge in one attempt.
type joint struct {
	*attempt
	ctx    context.Context
	rt     *Runtime // of the operator at this end
	edge   *jobpb.Edge
	ends   []shuffle.End // the other ends of the channels
	from   string        // operator id of the producer; for positions
	notify func()
}

// NewExchange serves edges that route without looking at the record: forward, rebalance, rescale, broadcast, global.
// The partitioner of the plan's edge chooses.
func NewExchange[T any](c *codec.Codec[T]) Exchange { return &exchange[T]{codec: c} }

// NewKeyedExchange routes by key group: codec.KeyGroup of hash(key(v)), then codec.Subtask.
func NewKeyedExchange[K comparable, T any](c *codec.Codec[T], key func(T) K, hash func(K) uint64) Exchange {
	return &exchange[T]{codec: c, route: func(w *shuffle.Writer[T], rt *Runtime, owner []int32) Push[T] {
		groups := len(owner)
		return func(v T) {
			to := owner[codec.KeyGroup(hash(key(v)), groups)]
			if err := w.Add(int(to), v, rt.At); err != nil {
				rt.Fail(err)
			}
		}
	}}
}

type exchange[T any] struct {
	codec *codec.Codec[T]
	// route makes the push of a keyed edge. owner maps key groups to consumers.
	route func(w *shuffle.Writer[T], rt *Runtime, owner []int32) Push[T]
}

func (x *exchange[T]) keyed() bool { return x.route != nil }

func (x *exchange[T]) outlet(j joint) (any, outlet, error) {
	w, err := shuffle.NewWriter(j.proc.cfg.Network, shuffle.WriterConfig[T]{
		Ctx: j.ctx, Edge: j.edge.Index, Producer: j.sub.Index, Consumers: j.ends,
		Job: j.proc.cfg.Job, JobEpoch: j.jobEpoch, Region: j.sub.Region, RegionEpoch: j.sub.RegionEpoch, Attempt: j.sub.Attempt,
		Codec: x.codec,
	})
	if err != nil {
		return nil, nil, err
	}
	return x.push(w, j), &edgeOut[T]{w}, nil
}

func (x *exchange[T]) push(w *shuffle.Writer[T], j joint) Push[T] {
	if len(j.ends) == 1 { // whatever the partitioner, it leads there
		return toFirst(w, j.rt)
	}
	switch j.edge.Partitioner {
	case jobpb.Partitioner_PARTITIONER_HASH:
		return x.route(w, j.rt, layout.Owners(len(j.ends), j.rt.MaxParallelism))
	case jobpb.Partitioner_PARTITIONER_BROADCAST:
		if x.codec.Flat() {
			return toAll(w, j.rt, len(j.ends))
		}
		return copiesToAll(w, j.rt, j.ends, x.codec)
	case jobpb.Partitioner_PARTITIONER_REBALANCE, jobpb.Partitioner_PARTITIONER_RESCALE:
		// Producers start at different consumers, so that short inputs spread, too.
		return inTurn(w, j.rt, len(j.ends), j.index()%len(j.ends))
	}
	return toFirst(w, j.rt) // forward and global
}

func toFirst[T any](w *shuffle.Writer[T], rt *Runtime) Push[T] {
	return func(v T) {
		if err := w.Add(0, v, rt.At); err != nil {
			rt.Fail(err)
		}
	}
}

func inTurn[T any](w *shuffle.Writer[T], rt *Runtime, consumers, next int) Push[T] {
	return func(v T) {
		if err := w.Add(next, v, rt.At); err != nil {
			rt.Fail(err)
		}
		if next++; next == consumers {
			next = 0
		}
	}
}

func toAll[T any](w *shuffle.Writer[T], rt *Runtime, consumers int) Push[T] {
	return func(v T) {
		for to := range consumers {
			if err := w.Add(to, v, rt.At); err != nil {
				rt.Fail(err)
			}
		}
	}
}

// copiesToAll is toAll for records that are more than their bytes: what slices, maps and pointers lead to would be shared
// by consumers of this process, each on a goroutine of its own. They get what one in another process would get.
func copiesToAll[T any](w *shuffle.Writer[T], rt *Runtime, ends []shuffle.End, c *codec.Codec[T]) Push[T] {
	var enc []byte
	send := func(to int, v T) error {
		if ends[to].Peer != nil { // it is encoded in any case
			return w.Add(to, v, rt.At)
		}
		var err error
		if enc, err = c.Append(enc[:0], &v); err != nil {
			return err
		}
		var own T
		if _, err := c.Decode(enc, &own); err != nil {
			return err
		}
		return w.Add(to, own, rt.At)
	}
	return func(v T) {
		for to := range ends {
			if err := send(to, v); err != nil {
				rt.Fail(err)
			}
		}
	}
}

// edgeOut is the control side of a writing end.
type edgeOut[T any] struct{ w *shuffle.Writer[T] }

func (o *edgeOut[T]) flush() error                     { return o.w.Flush() }
func (o *edgeOut[T]) broadcast(ev element.Event) error { return o.w.Broadcast(ev) }
func (o *edgeOut[T]) pending() bool                    { return o.w.Pending() }
func (o *edgeOut[T]) close(err error) error            { return o.w.Close(err) }
func (o *edgeOut[T]) stats() shuffle.WriterStats       { return o.w.Stats() }

func (x *exchange[T]) gate(j joint, push any) (gate, error) {
	p, ok := push.(Push[T])
	if !ok {
		return nil, typeMismatch[T](push)
	}
	g, err := shuffle.NewGate(j.proc.cfg.Network, shuffle.GateConfig[T]{
		Ctx: j.ctx, Edge: j.edge.Index, Consumer: j.sub.Index, Producers: j.ends,
		Job: j.proc.cfg.Job, JobEpoch: j.jobEpoch, Region: j.sub.Region, RegionEpoch: j.sub.RegionEpoch, Attempt: j.sub.Attempt,
		Codec: x.codec, Notify: j.notify,
	})
	if err != nil {
		return nil, err
	}
	return &edgeIn[T]{
		g: g, push: p, cur: j.rt.Cursor, marks: mark.New(len(j.ends)),
		before: make([]int64, len(j.ends)), ends: j.ends, from: j.from,
	}, nil
}

// edgeIn is the reading end of an edge.
type edgeIn[T any] struct {
	g     *shuffle.Gate[T]
	push  Push[T]
	cur   *Cursor
	marks *mark.Merger // over the channels
	ends  []shuffle.End
	from  string // operator id of the producer

	in      shuffle.Input[T]
	holding bool    // in has a batch that is not done with
	at      int     // next record of it; while records are pushed, the one in flight
	before  []int64 // records received by channel, without those of in
}

func (e *edgeIn[T]) step(limit int) (int, element.Event, bool, error) {
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

func (e *edgeIn[T]) records(limit int) int {
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

func (e *edgeIn[T]) event(channel int, ev element.Event) (element.Event, error) {
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

// position counts from 1 within the channel.
func (e *edgeIn[T]) position() string {
	if !e.holding {
		return ""
	}
	c := e.in.Channel
	return fmt.Sprintf("record %d from subtask %d of %s", e.before[c]+int64(e.at)+1, e.ends[c].Index, e.from)
}

func (e *edgeIn[T]) stats() shuffle.GateStats { return e.g.Stats() }

func (e *edgeIn[T]) close(err error) { e.g.Close(err) }
