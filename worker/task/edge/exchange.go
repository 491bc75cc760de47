package edge

import (
	"context"
	"time"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/stored"
	"github.com/sluiceio/sluice/worker/task/chain"
	"github.com/sluiceio/sluice/worker/task/layout"
)

// Exchange is both ends of one logical edge: typed where the record type is known, erased here. The exchange kind of
// the plan's edge decides whether they are live or stored.
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
	Edge    *jobpb.Edge
	// From is the id of the producing operator, To that of the consuming one, whose partitioner it is.
	From, To string
	Input    int    // of a gate: which one of the operator it is
	Notify   func() // of a gate: there may be something
	Live     Live   // of a PIPELINED edge
	Stored   Stored // of a BLOCKING edge
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

// Live is what an end of a PIPELINED edge is made of.
type Live struct {
	Network     *shuffle.Network
	Ends        []shuffle.End // the other ends of the channels
	Finished    []int32       // of a gate: producers that do not run, because the checkpoint that is restored contains their end
	Compression shuffle.Compression
	// ConnectTimeout is how long a gate waits for its producers; 0: as the network says.
	ConnectTimeout time.Duration
	// First is called by an outlet before its first record, watermark or end is handed to the network; nil: nobody wants
	// to know.
	First func()
}

// Stored is what an end of a BLOCKING edge is made of.
type Stored struct {
	Exchange *stored.Exchange
	// First and Consumers say whom an outlet writes for.
	First, Consumers int32
	Producers        []stored.Producer      // of a gate
	From             stored.Position        // where a gate begins
	Read             []*snapshotpb.Position // what that means, by producer
	Compression      stored.Compression
}

// Blocking reports whether the results of an edge are stored.
func Blocking(e *jobpb.Edge) bool { return e.Exchange == jobpb.ExchangeKind_EXCHANGE_BLOCKING }

// New serves edges that route without looking at the record: forward, rebalance, rescale, broadcast, global. The
// partitioner of the plan's edge chooses.
func New[T any](c *codec.Codec[T]) Exchange { return &exchange[T]{codec: c, routes: layout.Plain} }

// NewKeyed routes by key group: codec.KeyGroup of hash(key(v)), then codec.Subtask.
func NewKeyed[K comparable, T any](c *codec.Codec[T], key func(T) K, hash func(K) uint64) Exchange {
	return &exchange[T]{
		codec: c, routes: layout.Keyed,
		route: func(w *shuffle.Writer[T], j Joint) chain.Push[T] { return toOwner(w, j, key, hash) },
		pick: func(j Joint) func(T) int {
			owner := layout.Owners(int(j.Stored.Consumers), j.Runtime.MaxParallelism)
			groups := len(owner)
			return func(v T) int { return int(owner[codec.KeyGroup(hash(key(v)), groups)]) }
		},
	}
}

// NewCustom routes by the user's own function: the index of one of the consumers, from 0 up to, without, consumers. Any
// other index fails the attempt (E128).
func NewCustom[T any](c *codec.Codec[T], route func(v T, consumers int) int) Exchange {
	return &exchange[T]{
		codec: c, routes: layout.Custom,
		route: func(w *shuffle.Writer[T], j Joint) chain.Push[T] { return toChosen(w, j, route) },
		pick: func(j Joint) func(T) int {
			consumers := int(j.Stored.Consumers)
			return func(v T) int { return route(v, consumers) }
		},
	}
}

type exchange[T any] struct {
	codec  *codec.Codec[T]
	routes layout.Link
	// route makes the push of a live edge that is keyed or custom. It is written out where pick would do: to ask a
	// function for the consumer costs as much as handing the record over.
	route func(w *shuffle.Writer[T], j Joint) chain.Push[T]
	// pick makes the choice of consumers of such an edge when it is stored.
	pick func(j Joint) func(T) int
}

func (x *exchange[T]) Link() layout.Link { return x.routes }

func (x *exchange[T]) Outlet(j Joint) (any, chain.Outlet, error) {
	if Blocking(j.Edge) {
		return x.storedOutlet(j)
	}
	return x.liveOutlet(j)
}

func (x *exchange[T]) Gate(j Joint, push any) (Gate, error) {
	p, ok := push.(chain.Push[T])
	if !ok {
		return nil, chain.Mismatch[T](push)
	}
	if Blocking(j.Edge) {
		return x.storedGate(j, p)
	}
	return x.liveGate(j, p)
}
