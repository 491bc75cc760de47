package edge

import (
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/worker/task/chain"
)

func (x *exchange[T]) liveOutlet(j Joint) (any, chain.Outlet, error) {
	w, err := shuffle.NewWriter(j.Live.Network, shuffle.WriterConfig[T]{
		Ctx: j.Ctx, Edge: j.Edge.Index, Producer: j.Self.Index, Consumers: j.Live.Ends,
		Job: j.Self.Job, JobEpoch: j.Self.JobEpoch, Region: j.Self.Region, RegionEpoch: j.Self.RegionEpoch, Attempt: j.Self.Attempt,
		Codec: x.codec, Compression: j.Live.Compression,
	})
	if err != nil {
		return nil, nil, err
	}
	o := &liveOutlet[T]{w: w, first: j.Live.First}
	push := x.livePush(w, j)
	if o.first == nil {
		return push, o, nil
	}
	return chain.Push[T](func(v T) {
		o.produce()
		push(v)
	}), o, nil
}

// liveOutlet is the writing end of a PIPELINED edge.
type liveOutlet[T any] struct {
	w     *shuffle.Writer[T]
	first func() // nil: it was called, or nobody wants to be
}

// produce says that there is something to consume, before it is written: a consumer that is not there yet may be waited
// for then.
func (o *liveOutlet[T]) produce() {
	if o.first != nil {
		o.first()
		o.first = nil
	}
}

// Broadcast puts ev behind the records. An idle producer has produced nothing yet.
func (o *liveOutlet[T]) Broadcast(ev element.Event) error {
	if ev.Kind != element.Idle {
		o.produce()
	}
	return o.w.Broadcast(ev)
}

func (o *liveOutlet[T]) Flush() error                { return o.w.Flush() }
func (o *liveOutlet[T]) Pending() bool               { return o.w.Pending() }
func (o *liveOutlet[T]) Close(err error) error       { return o.w.Close(err) }
func (o *liveOutlet[T]) Partition() *jobpb.Partition { return nil }

func (o *liveOutlet[T]) Stats() chain.OutletStats {
	s := o.w.Stats()
	return chain.OutletStats{Records: s.Records, Bytes: s.Bytes, Blocked: s.Blocked}
}

func (x *exchange[T]) liveGate(j Joint, push chain.Push[T]) (Gate, error) {
	g, err := shuffle.NewGate(j.Live.Network, shuffle.GateConfig[T]{
		Ctx: j.Ctx, Edge: j.Edge.Index, Consumer: j.Self.Index, Producers: j.Live.Ends,
		Job: j.Self.Job, JobEpoch: j.Self.JobEpoch, Region: j.Self.Region, RegionEpoch: j.Self.RegionEpoch, Attempt: j.Self.Attempt,
		Codec: x.codec, Notify: j.Notify, ConnectTimeout: j.Live.ConnectTimeout,
	})
	if err != nil {
		return nil, err
	}
	subtasks := make([]int32, len(j.Live.Ends))
	for i, e := range j.Live.Ends {
		subtasks[i] = e.Index
	}
	all := newGate(j, g, push, append(subtasks, j.Live.Finished...))
	all.live, all.holder = len(subtasks), g
	for i := range j.Live.Finished {
		all.marks.Finish(len(subtasks)+i, element.MaxTime)
	}
	return all, nil
}
