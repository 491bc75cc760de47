package flow

import (
	"fmt"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/operator/batch/join"
	"github.com/sluiceio/sluice/worker/task"
)

// JoinOption sets how a join works. It changes no result.
type JoinOption func(*joinOptions)

type joinOptions struct {
	left, right, broadcast bool
}

// BuildRight makes the join keep the right side, that of its argument, in memory and stream the left one past it. It is
// the default: put the smaller side right.
func BuildRight() JoinOption { return func(o *joinOptions) { o.right = true } }

// BuildLeft makes the join keep the left side in memory and stream the right one past it.
func BuildLeft() JoinOption { return func(o *joinOptions) { o.left = true } }

// BroadcastRight hands the whole right side to every subtask, so that the left one need not be moved: for a right side
// that is small. It works with Join and LeftJoin.
func BroadcastRight() JoinOption { return func(o *joinOptions) { o.broadcast = true } }

// Join calls f for each pair of records with equal keys; f may emit any number of results. Both inputs must be bounded
// (E021). A result has the later one of the two event times; the order of the results is not defined.
//
// One side, the right one unless BuildLeft is given, is kept in the operator's share of the batch memory, as far as it goes;
// what exceeds it waits on disk, with those records of the other side that could match it.
func (k KeyedStream[K, T]) Join[B, R any](o KeyedStream[K, B], f func(T, B, func(R)), opts ...JoinOption) Stream[R] {
	return joined(k, o, "join", join.Spec[K, T, B, R]{Match: f}, opts)
}

// LeftJoin is Join that calls f once, without a right record, for each left record that has no partner; that result has the
// record's own time.
func (k KeyedStream[K, T]) LeftJoin[B, R any](o KeyedStream[K, B], f func(T, Opt[B], func(R)), opts ...JoinOption) Stream[R] {
	return joined(k, o, "leftjoin", join.Spec[K, T, B, R]{
		Match:    func(l T, r B, emit func(R)) { f(l, Some(r), emit) },
		LeftOnly: func(l T, emit func(R)) { f(l, Opt[B]{}, emit) },
	}, opts)
}

// FullJoin is Join that calls f once for each record of either side that has no partner; that result has the record's own
// time.
func (k KeyedStream[K, T]) FullJoin[B, R any](o KeyedStream[K, B], f func(Opt[T], Opt[B], func(R)), opts ...JoinOption) Stream[R] {
	return joined(k, o, "fulljoin", join.Spec[K, T, B, R]{
		Match:     func(l T, r B, emit func(R)) { f(Some(l), Some(r), emit) },
		LeftOnly:  func(l T, emit func(R)) { f(Some(l), Opt[B]{}, emit) },
		RightOnly: func(r B, emit func(R)) { f(Opt[T]{}, Some(r), emit) },
	}, opts)
}

// joined adds a join. Its build side is wanted first.
func joined[K comparable, T, B, R any](k KeyedStream[K, T], o KeyedStream[K, B], kind string, spec join.Spec[K, T, B, R], opts []JoinOption) Stream[R] {
	p := k.s.p
	if !p.same(o.s.p, kind) {
		return derive[R](p, p.add(kind, k.s.edge()))
	}
	how := p.joinOptions(kind, opts)
	spec.LeftKey, spec.RightKey, spec.Registry = k.key, o.key, p.registry
	left, right := k.s.edge(), o.s.edge()
	if how.left {
		spec.Build, right.Phase = join.Left, 1
	} else {
		left.Phase = 1
	}
	n := p.add(kind, left, right)
	stages := func() (task.StageOf[T, R], task.StageOf[B, R]) { return join.Stages(spec) }
	onLeft := func() task.Stage { st, _ := stages(); return st }
	onRight := func() task.Stage { _, st := stages(); return st }
	n.inputs = []input{k.input(onLeft), o.input(onRight)}
	if how.broadcast {
		left.Partitioner, right.Partitioner = jobpb.Partitioner_PARTITIONER_FORWARD, jobpb.Partitioner_PARTITIONER_BROADCAST
		n.op.Detail = "right side broadcast"
	} else {
		n.declare = append(n.declare, func(p *Pipeline) {
			declareKey[K](p, left, k.where)
			declareKey[K](p, right, o.where)
		})
	}
	n.spills()
	n.op.Unordered = true
	encodes[T](n)
	encodes[B](n)
	return derive[R](p, n)
}

func (p *Pipeline) joinOptions(kind string, opts []JoinOption) (how joinOptions) {
	for _, opt := range opts {
		opt(&how)
	}
	if how.left && how.right {
		p.fault("E018", caller(), kind+" is to build both sides", "choose one of BuildLeft and BuildRight: the smaller side")
	}
	if how.broadcast && kind == "fulljoin" {
		p.fault("E018", caller(), "a full join cannot broadcast its right side: every subtask would find the same records without partner",
			"drop BroadcastRight, or use LeftJoin")
	}
	return how
}

// same reports whether a stream is of this pipeline.
func (p *Pipeline) same(other *Pipeline, kind string) bool {
	if p == other {
		return true
	}
	p.fault("E018", caller(), fmt.Sprintf("a %s with a stream of another pipeline", kind), "build both with the same Pipeline")
	return false
}
