package flow

import (
	"fmt"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task"
)

// JoinOption sets how a join works. It changes no result.
type JoinOption func(*joinOptions)

type joinOptions struct {
	buildLeft, buildRight, broadcast bool
}

// BuildRight makes the join keep the right side, that of its argument, in memory and stream the left one past it. It is
// the default: put the smaller side right.
func BuildRight() JoinOption { return func(o *joinOptions) { o.buildRight = true } }

// BuildLeft makes the join keep the left side in memory and stream the right one past it.
func BuildLeft() JoinOption { return func(o *joinOptions) { o.buildLeft = true } }

// BroadcastRight hands the whole right side to every subtask, so that the left one need not be moved: for a right side
// that is small. It works with Join and LeftJoin.
func BroadcastRight() JoinOption { return func(o *joinOptions) { o.broadcast = true } }

// Join calls f for each pair of records with equal keys; f may emit any number of results. Both inputs must be bounded
// (E021). Results have the time MaxTime, and no order.
func (k KeyedStream[K, T]) Join[B, R any](o KeyedStream[K, B], f func(T, B, func(R)), opts ...JoinOption) Stream[R] {
	return joined[K, T, B, R](k, o, "join", opts)
}

// LeftJoin is Join that calls f once, without a right record, for each left record that has no partner.
func (k KeyedStream[K, T]) LeftJoin[B, R any](o KeyedStream[K, B], f func(T, Opt[B], func(R)), opts ...JoinOption) Stream[R] {
	return joined[K, T, B, R](k, o, "leftjoin", opts)
}

// FullJoin is Join that calls f once for each record of either side that has no partner.
func (k KeyedStream[K, T]) FullJoin[B, R any](o KeyedStream[K, B], f func(Opt[T], Opt[B], func(R)), opts ...JoinOption) Stream[R] {
	return joined[K, T, B, R](k, o, "fulljoin", opts)
}

func joined[K comparable, T, B, R any](k KeyedStream[K, T], o KeyedStream[K, B], kind string, opts []JoinOption) Stream[R] {
	p := k.s.p
	n := p.add(kind, k.s.edge(), o.s.edge())
	n.inputs = []input{k.input(unlinked[T, R](kind)), o.input(unlinked[B, R](kind))}
	return derive[R](p, n)
}

// unlinked stands for an operator until its package is there.
func unlinked[T, U any](kind string) func() task.Stage {
	return func() task.Stage {
		return task.StageOf[T, U](func(*task.Runtime, task.Push[U]) (task.Push[T], task.Operator, error) {
			return nil, nil, fmt.Errorf("%s is not linked", kind)
		})
	}
}

var _ = jobpb.ExchangeKind_EXCHANGE_BLOCKING
