package edge

import (
	"context"
	"fmt"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/worker/task/chain"
	"github.com/sluiceio/sluice/worker/task/fault"
	"github.com/sluiceio/sluice/worker/task/layout"
	"github.com/sluiceio/sluice/worker/task/mark"
)

// Exchange is both ends of one logical edge: typed where the record type is known, erased here.
type Exchange interface {
	// Link says what the exchange can route by.
	Link() layout.Link
	// Outlet makes the writing end: the push that routes, a chain.Push of the record type, and its control side.
	Outlet(j Joint) (push any, o chain.Outlet, err error)
	// Gate makes the reading end, which gives its records to push.
	Gate(j Joint, push any) (Gate, error)
}

// Joint is one end of an edge in one attempt.
type Joint struct {
	Ctx     context.Context
	Self    Identity
	Runtime *chain.Runtime // of the operator at this end
	Network *shuffle.Network
	Edge    *jobpb.Edge
	Ends    []shuffle.End // the other ends of the channels
	// From is the id of the producing operator, To that of the consuming one, whose partitioner it is.
	From, To string
	Notify   func() // of a gate: there may be something
}

// Identity is the attempt that an end belongs to.
type Identity struct {
	Job         string
	JobEpoch    uint64
	Region      int32
	RegionEpoch uint64
	Index       int32
	Attempt     uint32
}

// New serves edges that route without looking at the record: forward, rebalance, rescale, broadcast, global.
// The partitioner of the plan's edge chooses.
func New[T any](c *codec.Codec[T]) Exchange {
	return &exchange[T]{codec: c, routes: layout.Plain}
}

// NewKeyed routes by key group: codec.KeyGroup of hash(key(v)), then codec.Subtask.
func NewKeyed[K comparable, T any](c *codec.Codec[T], key func(T) K, hash func(K) uint64) Exchange {
	return &exchange[T]{codec: c, routes: layout.Keyed, route: func(w *shuffle.Writer[T], j Joint) chain.Push[T] {
		rt, owner := j.Runtime, layout.Owners(len(j.Ends), j.Runtime.MaxParallelism)
		groups := len(owner)
		return func(v T) {
			to := owner[codec.KeyGroup(hash(key(v)), groups)]
			if err := w.Add(int(to), v, rt.At); err != nil {
				rt.Fail(err)
			}
		}
	}}
}

// NewCustom routes by the user's own function: the index of one of the consumers, from 0 up to, without,
// consumers. Any other index fails the attempt (E128).
func NewCustom[T any](c *codec.Codec[T], route func(v T, consumers int) int) Exchange {
	return &exchange[T]{codec: c, routes: layout.Custom, route: func(w *shuffle.Writer[T], j Joint) chain.Push[T] {
		rt, consumers, id := j.Runtime, len(j.Ends), j.To
		return func(v T) {
			to := route(v, consumers)
			if uint(to) >= uint(consumers) {
				rt.Fail(outOfRange(id, to, consumers))
				return
			}
			if err := w.Add(to, v, rt.At); err != nil {
				rt.Fail(err)
			}
		}
	}}
}

// outOfRange is the fault of a partitioner, which belongs to the operator behind the edge.
func outOfRange(operator string, index, consumers int) error {
	return &fault.Fault{
		Kind: jobpb.FailureKind_FAILURE_USER, Code: fault.CodeRoute, Operator: operator,
		Err: fmt.Errorf("the partitioner in front of %s returned consumer %d of %d: indices count from 0", operator, index, consumers),
	}
}

type exchange[T any] struct {
	codec  *codec.Codec[T]
	routes layout.Link
	// route makes the push of a keyed or custom edge.
	route func(w *shuffle.Writer[T], j Joint) chain.Push[T]
}

func (x *exchange[T]) Link() layout.Link { return x.routes }

func (x *exchange[T]) Outlet(j Joint) (any, chain.Outlet, error) {
	w, err := shuffle.NewWriter(j.Network, shuffle.WriterConfig[T]{
		Ctx: j.Ctx, Edge: j.Edge.Index, Producer: j.Self.Index, Consumers: j.Ends,
		Job: j.Self.Job, JobEpoch: j.Self.JobEpoch, Region: j.Self.Region, RegionEpoch: j.Self.RegionEpoch, Attempt: j.Self.Attempt,
		Codec: x.codec,
	})
	if err != nil {
		return nil, nil, err
	}
	return x.push(w, j), &liveOutlet[T]{w}, nil
}

func (x *exchange[T]) push(w *shuffle.Writer[T], j Joint) chain.Push[T] {
	if j.Edge.Partitioner == jobpb.Partitioner_PARTITIONER_CUSTOM { // it is asked even if there is one consumer: it may be wrong
		return x.route(w, j)
	}
	if len(j.Ends) == 1 { // whatever the partitioner, it leads there
		return toFirst(w, j.Runtime)
	}
	switch j.Edge.Partitioner {
	case jobpb.Partitioner_PARTITIONER_HASH:
		return x.route(w, j)
	case jobpb.Partitioner_PARTITIONER_BROADCAST:
		if x.codec.Flat() {
			return toAll(w, j.Runtime, len(j.Ends))
		}
		return copiesToAll(w, j.Runtime, j.Ends, x.codec)
	case jobpb.Partitioner_PARTITIONER_REBALANCE, jobpb.Partitioner_PARTITIONER_RESCALE:
		// Producers start at different consumers, so that short inputs spread, too.
		return inTurn(w, j.Runtime, len(j.Ends), int(j.Self.Index)%len(j.Ends))
	}
	return toFirst(w, j.Runtime) // forward and global
}

func (x *exchange[T]) Gate(j Joint, push any) (Gate, error) {
	p, ok := push.(chain.Push[T])
	if !ok {
		return nil, chain.Mismatch[T](push)
	}
	g, err := shuffle.NewGate(j.Network, shuffle.GateConfig[T]{
		Ctx: j.Ctx, Edge: j.Edge.Index, Consumer: j.Self.Index, Producers: j.Ends,
		Job: j.Self.Job, JobEpoch: j.Self.JobEpoch, Region: j.Self.Region, RegionEpoch: j.Self.RegionEpoch, Attempt: j.Self.Attempt,
		Codec: x.codec, Notify: j.Notify,
	})
	if err != nil {
		return nil, err
	}
	return &liveGate[T]{
		g: g, push: p, cur: j.Runtime.Cursor, marks: mark.New(len(j.Ends)),
		before: make([]int64, len(j.Ends)), ends: j.Ends, from: j.From,
	}, nil
}
