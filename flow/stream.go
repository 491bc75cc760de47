package flow

import (
	"iter"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// AllSlots as a parallelism means every slot that the job can get.
const AllSlots = -1

// Stream is a stream of records of type T. It is a value: using it twice branches the pipeline.
type Stream[T any] struct {
	p    *Pipeline
	n    *node
	part jobpb.Partitioner
	exch Exchange
}

// edge is the input of a consumer of s.
func (s Stream[T]) edge() *jobpb.Input {
	return &jobpb.Input{Operator: s.n.index, Partitioner: s.part, Exchange: jobpb.ExchangeKind(s.exch)}
}

// ID names the operator that produced s: in plans, logs, metrics and savepoints. Unique within the job.
func (s Stream[T]) ID(id string) Stream[T] {
	s.n.op.Id, s.n.op.GeneratedId = id, false
	return s
}

// Parallelism sets the number of subtasks of the operator that produced s.
func (s Stream[T]) Parallelism(n int) Stream[T] {
	s.n.op.Parallelism = int32(n)
	return s
}

// OnError sets what a failing record does to the operator that produced s: TryMap, TryFlatMap and sources only.
func (s Stream[T]) OnError(pol ErrorPolicy) Stream[T] {
	s.n.op.ErrorPolicy = string(pol)
	return s
}

// SlotGroup keeps operators of different groups out of each other's slots.
func (s Stream[T]) SlotGroup(name string) Stream[T] {
	s.n.op.SlotGroup = name
	return s
}

// Exchange overrides how the edges that leave this value are exchanged.
func (s Stream[T]) Exchange(e Exchange) Stream[T] {
	s.exch = e
	return s
}

// Rebalance hands the records of the edges that leave this value to all subtasks of the consumer in turn.
func (s Stream[T]) Rebalance() Stream[T] {
	s.part = jobpb.Partitioner_PARTITIONER_REBALANCE
	return s
}

// Rescale hands them in turn to those consumer subtasks that belong to the producing one: fewer channels than Rebalance, and
// local ones where possible.
func (s Stream[T]) Rescale() Stream[T] {
	s.part = jobpb.Partitioner_PARTITIONER_RESCALE
	return s
}

// Global hands everything to subtask 0 of the consumer.
func (s Stream[T]) Global() Stream[T] {
	s.part = jobpb.Partitioner_PARTITIONER_GLOBAL
	return s
}

// Broadcast hands every record to every subtask of the consumer.
func (s Stream[T]) Broadcast() Stream[T] {
	s.part = jobpb.Partitioner_PARTITIONER_BROADCAST
	return s
}

func derive[U any](p *Pipeline, n *node) Stream[U] { return Stream[U]{p: p, n: n} }

// Map replaces each record by f of it.
func (s Stream[T]) Map[U any](f func(T) U) Stream[U] {
	return derive[U](s.p, s.p.add("map", s.edge()))
}

// TryMap is Map with errors, which OnError decides about.
func (s Stream[T]) TryMap[U any](f func(T) (U, error)) Stream[U] {
	return derive[U](s.p, s.p.add("map", s.edge()))
}

// MapWith is TryMap with a function made once per subtask by open, so that it may own a buffer or a client.
func (s Stream[T]) MapWith[U any](open func(*Task) (func(T) (U, error), error)) Stream[U] {
	return derive[U](s.p, s.p.add("map", s.edge()))
}

// Filter keeps the records for which f is true.
func (s Stream[T]) Filter(f func(T) bool) Stream[T] {
	return derive[T](s.p, s.p.add("filter", s.edge()))
}

// FlatMap replaces each record by what f emits.
func (s Stream[T]) FlatMap[U any](f func(v T, emit func(U))) Stream[U] {
	return derive[U](s.p, s.p.add("flatmap", s.edge()))
}

// TryFlatMap is FlatMap with errors, which OnError decides about. What was emitted before the error stays emitted.
func (s Stream[T]) TryFlatMap[U any](f func(v T, emit func(U)) error) Stream[U] {
	return derive[U](s.p, s.p.add("flatmap", s.edge()))
}

// FlatMapSeq replaces each record by the values of a sequence.
func (s Stream[T]) FlatMapSeq[U any](f func(T) iter.Seq[U]) Stream[U] {
	return derive[U](s.p, s.p.add("flatmap", s.edge()))
}

// Peek shows each record to f and passes it on.
func (s Stream[T]) Peek(f func(T)) Stream[T] {
	return derive[T](s.p, s.p.add("peek", s.edge()))
}

// Union merges s with others. The order between the inputs is not defined.
func (s Stream[T]) Union(others ...Stream[T]) Stream[T] {
	in := []*jobpb.Input{s.edge()}
	for _, o := range others {
		in = append(in, o.edge())
	}
	return derive[T](s.p, s.p.add("union", in...))
}

// Process runs one P per subtask.
func (s Stream[T]) Process[Out any, P Processor[T, Out]](factory func() P) Stream[Out] {
	return derive[Out](s.p, s.p.add("process", s.edge()))
}

// Then applies f: it keeps a chain fluent across transforms of your own and across functions of this package.
func (s Stream[T]) Then[U any](f func(Stream[T]) Stream[U]) Stream[U] { return f(s) }

// KeyBy partitions s by the key that f takes from a record: all records of one key meet in one subtask. Keys are
// integers, strings, bool, and arrays and structs of those.
func (s Stream[T]) KeyBy[K comparable](f func(T) K) KeyedStream[K, T] {
	s.part = jobpb.Partitioner_PARTITIONER_HASH
	return KeyedStream[K, T]{s: s, key: f}
}

// To ends s in a sink.
func (s Stream[T]) To(id string, sink Sink[T]) SinkRef {
	n := s.p.add("sink", s.edge())
	n.op.Id, n.op.GeneratedId = id, false
	return SinkRef{n}
}

// SinkRef is a sink in the pipeline, to set its modifiers.
type SinkRef struct{ n *node }

// Parallelism sets the number of writing subtasks.
func (r SinkRef) Parallelism(n int) SinkRef {
	r.n.op.Parallelism = int32(n)
	return r
}

// SlotGroup keeps operators of different groups out of each other's slots.
func (r SinkRef) SlotGroup(name string) SinkRef {
	r.n.op.SlotGroup = name
	return r
}
