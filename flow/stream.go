package flow

import (
	"fmt"
	"iter"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/operator/stateless"
	"github.com/sluiceio/sluice/worker/task"
)

// OnCall is the constraint of a type parameter that is not there to be set: it stands for struct{}, wherever the method is
// called. A method with a type parameter is compiled for the types that it is called for, one without for each type of records
// that a job has, with all that it leads to. For the same reason results are named by parameters, as R in
//
//	func (k KeyedStream[K, T]) Count[R interface{ KV[K, int64] }]() Stream[R]
//
// which is a Stream[KV[K, int64]].
type OnCall interface{ struct{} }

// Stream is a stream of records of type T. It is a value: using it twice branches the pipeline.
type Stream[T any] struct {
	_   [0]func(T) // streams of other records are other types
	end *outlet
}

// ID names the operator that produced s: in plans, logs, metrics and savepoints. Unique within the job.
func (s Stream[T]) ID(id string) Stream[T] {
	s.end.setID(id)
	return s
}

// Parallelism sets the number of subtasks of the operator that produced s. AllSlots means every slot that the job can get.
func (s Stream[T]) Parallelism(n int) Stream[T] {
	s.end.setParallelism(n)
	return s
}

// OnError sets what a failing record does to the operator that produced s: Skip, DeadLetters and Retry are for operators whose
// function returns an error, and for sources, which skip what they cannot decode.
func (s Stream[T]) OnError(pol ErrorPolicy) Stream[T] {
	s.end.setOnError(pol)
	return s
}

// SlotGroup keeps operators of different groups out of each other's slots.
func (s Stream[T]) SlotGroup(name string) Stream[T] {
	s.end.setSlotGroup(name)
	return s
}

// Nondeterministic says that the operator that produced s may give other output when it gets the same records again, or gets
// them in another order than before. If one of its stored results is lost, everybody who has read the result runs again.
func (s Stream[T]) Nondeterministic() Stream[T] {
	s.end.setNondeterministic()
	return s
}

// Exchange overrides how the edges that leave this value are exchanged. What would make an operator wait for itself stays
// blocking; the plan says so (W024).
func (s Stream[T]) Exchange(e Exchange) Stream[T] {
	s.end = s.end.exchanged(e)
	return s
}

// PartitionBy hands each record of the edges that leave this value to the subtask of the consumer that f chooses: an index
// from 0 up to, without, consumers. Another index fails the job (E128). f must give the same answer for equal arguments.
func (s Stream[T]) PartitionBy[_ OnCall](f func(v T, consumers int) int) Stream[T] {
	if f == nil {
		s.end.p.fault("E018", caller(), fmt.Sprintf("PartitionBy behind %s has no function", s.end.n.op.Id), "give a function that returns the index of a consumer")
		return s
	}
	s.end = s.end.partitioned("PartitionBy", jobpb.Partitioner_PARTITIONER_CUSTOM)
	s.end.to = f
	return s
}

// Rebalance hands the records of the edges that leave this value to all subtasks of the consumer in turn.
func (s Stream[T]) Rebalance() Stream[T] {
	s.end = s.end.partitioned("Rebalance", jobpb.Partitioner_PARTITIONER_REBALANCE)
	return s
}

// Rescale hands them in turn to those consumer subtasks that belong to the producing one: fewer channels than Rebalance, and
// local ones where possible.
func (s Stream[T]) Rescale() Stream[T] {
	s.end = s.end.partitioned("Rescale", jobpb.Partitioner_PARTITIONER_RESCALE)
	return s
}

// Global hands everything to subtask 0 of the consumer.
func (s Stream[T]) Global() Stream[T] {
	s.end = s.end.partitioned("Global", jobpb.Partitioner_PARTITIONER_GLOBAL)
	return s
}

// Broadcast hands every record to every subtask of the consumer.
func (s Stream[T]) Broadcast() Stream[T] {
	s.end = s.end.partitioned("Broadcast", jobpb.Partitioner_PARTITIONER_BROADCAST)
	return s
}

// Map replaces each record by f of it.
func (s Stream[T]) Map[U any](f func(T) U) Stream[U] {
	u, _ := unary[T, U](s, "map", func(*node) task.Stage { return stateless.Map(f) })
	return u
}

// TryMap is Map with errors, which OnError decides about.
func (s Stream[T]) TryMap[U any](f func(T) (U, error)) Stream[U] {
	u, n := unary[T, U](s, "map", func(n *node) task.Stage { return stateless.TryMap(f, n.policyOf(s.end.p)) })
	n.policy = true
	return u
}

// MapWith is TryMap with a function made once per subtask by open, so that it may own a buffer or a client.
func (s Stream[T]) MapWith[U any](open func(*Task) (func(T) (U, error), error)) Stream[U] {
	u, n := unary[T, U](s, "map", func(n *node) task.Stage { return stateless.MapWith(open, n.policyOf(s.end.p)) })
	n.policy = true
	return u
}

// Filter keeps the records for which f is true.
func (s Stream[T]) Filter[_ OnCall](f func(T) bool) Stream[T] {
	u, _ := unary[T, T](s, "filter", func(*node) task.Stage { return stateless.Filter(f) })
	return u
}

// FlatMap replaces each record by what f emits.
func (s Stream[T]) FlatMap[U any](f func(v T, emit func(U))) Stream[U] {
	u, _ := unary[T, U](s, "flatmap", func(*node) task.Stage { return stateless.FlatMap(f) })
	return u
}

// TryFlatMap is FlatMap with errors, which OnError decides about. What was emitted before the error stays emitted, unless OnError
// is a Retry, with which nothing is emitted before the function has returned.
func (s Stream[T]) TryFlatMap[U any](f func(v T, emit func(U)) error) Stream[U] {
	u, n := unary[T, U](s, "flatmap", func(n *node) task.Stage { return stateless.TryFlatMap(f, n.policyOf(s.end.p)) })
	n.policy = true
	return u
}

// FlatMapSeq replaces each record by the values of a sequence.
func (s Stream[T]) FlatMapSeq[U any](f func(T) iter.Seq[U]) Stream[U] {
	u, _ := unary[T, U](s, "flatmap", func(*node) task.Stage { return stateless.FlatMapSeq(f) })
	return u
}

// Peek shows each record to f and passes it on.
func (s Stream[T]) Peek[_ OnCall](f func(T)) Stream[T] {
	u, _ := unary[T, T](s, "peek", func(*node) task.Stage { return stateless.Peek(f) })
	return u
}

// Union merges s with others. The order between the inputs is not defined.
func (s Stream[T]) Union[_ OnCall](others ...Stream[T]) Stream[T] {
	p := s.end.p
	all := append([]Stream[T]{s}, others...)
	var edges []*jobpb.Input
	var inputs []input
	for _, o := range all {
		if o.end.p != p {
			p.fault("E018", caller(), "a union with a stream of another pipeline", "build both with the same Pipeline")
			return s
		}
		edges = append(edges, o.end.edge())
		inputs = append(inputs, inputOf(o, func() task.Stage { return stateless.Pass[T]() }))
	}
	n := p.add("union", edges...)
	n.inputs = inputs
	return derive[T](p, n)
}

// Then applies f: it keeps a chain fluent across transforms of your own.
func (s Stream[T]) Then[U any](f func(Stream[T]) Stream[U]) Stream[U] { return f(s) }

// KeyBy partitions s by the key that f takes from a record: all records of one key meet in one subtask. Keys are
// integers, strings, bool, and arrays and structs of those. f is called more than once per record and must always give the
// same key.
func (s Stream[T]) KeyBy[K comparable](f func(T) K) KeyedStream[K, T] {
	s.end = s.end.partitioned("KeyBy", jobpb.Partitioner_PARTITIONER_HASH)
	return KeyedStream[K, T]{s: s, key: f, where: caller()}
}
