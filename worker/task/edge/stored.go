package edge

import (
	"context"
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/shuffle/stored"
	"github.com/sluiceio/sluice/worker/task/chain"
)

func (x *exchange[T]) storedOutlet(j Joint) (any, chain.Outlet, error) {
	s := j.Stored
	if j.Edge.Partitioner == jobpb.Partitioner_PARTITIONER_BROADCAST { // kept once, whoever reads it
		s.First, s.Consumers = 0, 1
	}
	w, err := stored.NewWriter(stored.WriterConfig[T]{
		Ctx: j.Ctx, Exchange: s.Exchange, First: s.First, Consumers: s.Consumers,
		Shared: j.Edge.Partitioner == jobpb.Partitioner_PARTITIONER_BROADCAST,
		Name: stored.Name{
			Job: j.Self.Job, JobEpoch: j.Self.JobEpoch, Region: j.Self.Region, RegionEpoch: j.Self.RegionEpoch,
			Edge: j.Edge.Index, Producer: j.Self.Index, Attempt: j.Self.Attempt,
		},
		Codec: x.codec, Compression: s.Compression,
	})
	if err != nil {
		return nil, nil, err
	}
	return x.storedPush(w, j, int(s.Consumers)), &storedOutlet[T]{w}, nil
}

// storedPush is the push of a stored edge.
func (x *exchange[T]) storedPush(w *stored.Writer[T], j Joint, consumers int) chain.Push[T] {
	rt, id := j.Runtime, j.To
	pick := x.storedPick(j, consumers)
	if pick == nil {
		return func(v T) {
			if err := w.Add(0, v, rt.At); err != nil {
				rt.Fail(err)
			}
		}
	}
	return func(v T) {
		to := pick(v)
		if uint(to) >= uint(consumers) {
			rt.Fail(outOfRange(id, to, consumers))
			return
		}
		if err := w.Add(to, v, rt.At); err != nil {
			rt.Fail(err)
		}
	}
}

// storedPick chooses the consumer of a record; nil: there is one to choose from.
func (x *exchange[T]) storedPick(j Joint, consumers int) func(T) int {
	switch p := j.Edge.Partitioner; {
	case p == jobpb.Partitioner_PARTITIONER_CUSTOM, p == jobpb.Partitioner_PARTITIONER_HASH && consumers > 1:
		return x.pick(j)
	case consumers > 1 && (p == jobpb.Partitioner_PARTITIONER_REBALANCE || p == jobpb.Partitioner_PARTITIONER_RESCALE):
		next := firstTurn(j, consumers)
		return func(T) int {
			to := next
			if next++; next == consumers {
				next = 0
			}
			return to
		}
	}
	return nil
}

// storedOutlet is the writing end of a BLOCKING edge.
type storedOutlet[T any] struct{ w *stored.Writer[T] }

func (o *storedOutlet[T]) Flush() error                     { return o.w.Flush() }
func (o *storedOutlet[T]) Broadcast(ev element.Event) error { return o.w.Broadcast(ev) }
func (o *storedOutlet[T]) Pending() bool                    { return o.w.Pending() }
func (o *storedOutlet[T]) Close(err error) error            { return o.w.Close(err) }
func (o *storedOutlet[T]) Partition() *jobpb.Partition      { return o.w.Result() }

func (o *storedOutlet[T]) Stats() chain.OutletStats {
	s := o.w.Stats()
	return chain.OutletStats{Records: s.Records, Stored: s.Bytes, Blocked: s.Blocked}
}

func (x *exchange[T]) storedGate(j Joint, push chain.Push[T]) (Gate, error) {
	r, err := stored.NewReader(stored.ReaderConfig[T]{
		Ctx: j.Ctx, Exchange: j.Stored.Exchange, Consumer: j.Self.Index, Producers: j.Stored.Producers, Codec: x.codec, Notify: j.Notify,
		From: j.Stored.From,
	})
	if err != nil {
		return nil, err
	}
	subtasks := make([]int32, len(j.Stored.Producers))
	for i, p := range j.Stored.Producers {
		subtasks[i] = p.Name.Producer
	}
	g := newGate(j, r, push, subtasks)
	g.pos = positions{at: r.Position, from: j.Stored.Read}
	for _, p := range j.Stored.Producers {
		g.pos.names = append(g.pos.names, p.Name)
	}
	g.lost = func() []stored.Name {
		ctx, cancel := context.WithTimeout(j.Ctx, askAround)
		defer cancel()
		return r.Unreadable(ctx)
	}
	return g, nil
}

// askAround is how long a subtask that has lost one of its inputs looks for others before it fails. The leader waits a moment,
// too; what comes later costs another restart and nothing else.
const askAround = 500 * time.Millisecond
