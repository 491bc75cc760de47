package flow

import (
	"fmt"
	"iter"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/operator/stateless"
	"github.com/sluiceio/sluice/worker/task"
	"github.com/sluiceio/sluice/worker/task/reject"
)

// AllSlots as a parallelism means every slot that the job can get.
const AllSlots = -1

// Stream is a stream of records of type T. It is a value: using it twice branches the pipeline.
type Stream[T any] struct {
	p    *Pipeline
	n    *node
	port string // of a side output; empty: what the operator emits
	part jobpb.Partitioner
	to   func(v T, consumers int) int // of PARTITIONER_CUSTOM
	exch Exchange
	at   string // place of the call that chose exch
}

// edge is the input of a consumer of s.
func (s Stream[T]) edge() *jobpb.Input {
	return &jobpb.Input{
		Operator:    s.n.index,
		Port:        s.port,
		Partitioner: s.part,
		Exchange:    jobpb.ExchangeKind(s.exch),
		Location:    s.at,
	}
}

// ID names the operator that produced s: in plans, logs, metrics and savepoints. Unique within the job.
func (s Stream[T]) ID(id string) Stream[T] {
	if s.modifies("ID") {
		s.n.name(id)
	}
	return s
}

// Parallelism sets the number of subtasks of the operator that produced s. AllSlots means every slot that the job can get.
func (s Stream[T]) Parallelism(n int) Stream[T] {
	if s.modifies("Parallelism") {
		s.p.parallelism(s.n, n)
	}
	return s
}

// OnError sets what a failing record does to the operator that produced s: Skip, DeadLetters and Retry are for operators whose
// function returns an error, and for sources, which skip what they cannot decode.
func (s Stream[T]) OnError(pol ErrorPolicy) Stream[T] {
	if s.modifies("OnError") {
		s.p.onError(s.n, pol)
	}
	return s
}

// SlotGroup keeps operators of different groups out of each other's slots.
func (s Stream[T]) SlotGroup(name string) Stream[T] {
	if s.modifies("SlotGroup") {
		s.n.op.SlotGroup = name
	}
	return s
}

// modifies reports whether s stands for an operator, whose modifiers can be set. A side output is a port of one.
func (s Stream[T]) modifies(modifier string) bool {
	if s.port == "" {
		return true
	}
	s.p.fault("E017", caller(), fmt.Sprintf("%s on side output %q of %s", modifier, s.port, s.n.op.Id),
		fmt.Sprintf("a side output belongs to its operator: set %s on the operator's stream", modifier))
	return false
}

func (p *Pipeline) parallelism(n *node, parallelism int) {
	if parallelism < 1 && parallelism != AllSlots {
		p.fault("E018", caller(), fmt.Sprintf("parallelism of %s is %d", n.op.Id, parallelism),
			"use a positive number, or flow.AllSlots")
		return
	}
	n.op.Parallelism = int32(parallelism)
}

func (p *Pipeline) onError(n *node, pol ErrorPolicy) {
	parsed, err := reject.Parse(string(pol))
	switch {
	case err != nil:
		p.fault("E015", caller(), fmt.Sprintf("OnError of %s: %v", n.op.Id, err), "use flow.Fail, flow.Skip, flow.DeadLetters or flow.Retry")
	case pol != Fail && !n.policy:
		p.fault("E015", caller(), fmt.Sprintf("%s (%s) has nothing to skip: its function returns no error", n.op.Id, n.op.Kind),
			"use TryMap, TryFlatMap, MapWith or Process, or drop OnError")
	case parsed.Retries > 0 && n.processes():
		p.fault("E015", caller(), fmt.Sprintf("%s (%s) cannot try again: what it did before the error would be done twice", n.op.Id, n.op.Kind),
			"use flow.Skip or flow.DeadLetters, or try again in an operator in front of it")
	default:
		n.op.ErrorPolicy = string(pol)
	}
}

// Exchange overrides how the edges that leave this value are exchanged. What would make an operator wait for itself stays
// blocking; the plan says so (W024).
func (s Stream[T]) Exchange(e Exchange) Stream[T] {
	if e > Blocking {
		s.p.fault("E018", caller(), fmt.Sprintf("exchange %d behind %s does not exist", e, s.n.op.Id), "use flow.Auto, flow.Pipelined or flow.Blocking")
		return s
	}
	s.exch, s.at = e, caller()
	return s
}

// partitioned chooses how records of the edges that leave this value find their consumers, once.
func (s Stream[T]) partitioned(name string, by jobpb.Partitioner) Stream[T] {
	if s.part != jobpb.Partitioner_PARTITIONER_FORWARD && s.part != by {
		s.p.fault("E018", caller(), fmt.Sprintf("%s behind %s: its records are partitioned already", name, s.n.op.Id),
			"an edge has one partitioner: drop one of the calls, or put an operator between them")
	}
	s.part = by
	return s
}

// PartitionBy hands each record of the edges that leave this value to the subtask of the consumer that f chooses: an index
// from 0 up to, without, consumers. Another index fails the job (E128). f must give the same answer for equal arguments.
func (s Stream[T]) PartitionBy(f func(v T, consumers int) int) Stream[T] {
	if f == nil {
		s.p.fault("E018", caller(), fmt.Sprintf("PartitionBy behind %s has no function", s.n.op.Id), "give a function that returns the index of a consumer")
		return s
	}
	s = s.partitioned("PartitionBy", jobpb.Partitioner_PARTITIONER_CUSTOM)
	s.to = f
	return s
}

// Rebalance hands the records of the edges that leave this value to all subtasks of the consumer in turn.
func (s Stream[T]) Rebalance() Stream[T] {
	return s.partitioned("Rebalance", jobpb.Partitioner_PARTITIONER_REBALANCE)
}

// Rescale hands them in turn to those consumer subtasks that belong to the producing one: fewer channels than Rebalance, and
// local ones where possible.
func (s Stream[T]) Rescale() Stream[T] {
	return s.partitioned("Rescale", jobpb.Partitioner_PARTITIONER_RESCALE)
}

// Global hands everything to subtask 0 of the consumer.
func (s Stream[T]) Global() Stream[T] {
	return s.partitioned("Global", jobpb.Partitioner_PARTITIONER_GLOBAL)
}

// Broadcast hands every record to every subtask of the consumer.
func (s Stream[T]) Broadcast() Stream[T] {
	return s.partitioned("Broadcast", jobpb.Partitioner_PARTITIONER_BROADCAST)
}

// Nondeterministic says that the operator that produced s may give other output when it gets the same records again, or gets
// them in another order than before. If one of its stored results is lost, everybody who has read the result runs again.
func (s Stream[T]) Nondeterministic() Stream[T] {
	if s.modifies("Nondeterministic") {
		s.n.op.Nondeterministic = true
	}
	return s
}

// Map replaces each record by f of it.
func (s Stream[T]) Map[U any](f func(T) U) Stream[U] {
	u, _ := unary[T, U](s, "map", func(*node) task.Stage { return stateless.Map(f) })
	return u
}

// TryMap is Map with errors, which OnError decides about.
func (s Stream[T]) TryMap[U any](f func(T) (U, error)) Stream[U] {
	u, n := unary[T, U](s, "map", func(n *node) task.Stage { return stateless.TryMap(f, n.policyOf(s.p)) })
	n.policy = true
	return u
}

// MapWith is TryMap with a function made once per subtask by open, so that it may own a buffer or a client.
func (s Stream[T]) MapWith[U any](open func(*Task) (func(T) (U, error), error)) Stream[U] {
	u, n := unary[T, U](s, "map", func(n *node) task.Stage { return stateless.MapWith(open, n.policyOf(s.p)) })
	n.policy = true
	return u
}

// Filter keeps the records for which f is true.
func (s Stream[T]) Filter(f func(T) bool) Stream[T] {
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
	u, n := unary[T, U](s, "flatmap", func(n *node) task.Stage { return stateless.TryFlatMap(f, n.policyOf(s.p)) })
	n.policy = true
	return u
}

// FlatMapSeq replaces each record by the values of a sequence.
func (s Stream[T]) FlatMapSeq[U any](f func(T) iter.Seq[U]) Stream[U] {
	u, _ := unary[T, U](s, "flatmap", func(*node) task.Stage { return stateless.FlatMapSeq(f) })
	return u
}

// Peek shows each record to f and passes it on.
func (s Stream[T]) Peek(f func(T)) Stream[T] {
	u, _ := unary[T, T](s, "peek", func(*node) task.Stage { return stateless.Peek(f) })
	return u
}

// Union merges s with others. The order between the inputs is not defined.
func (s Stream[T]) Union(others ...Stream[T]) Stream[T] {
	all := append([]Stream[T]{s}, others...)
	var edges []*jobpb.Input
	var inputs []input
	for _, o := range all {
		if o.p != s.p {
			s.p.fault("E018", caller(), "a union with a stream of another pipeline", "build both with the same Pipeline")
			return s
		}
		edges = append(edges, o.edge())
		inputs = append(inputs, o.input(func() task.Stage { return stateless.Pass[T]() }))
	}
	n := s.p.add("union", edges...)
	n.inputs = inputs
	return derive[T](s.p, n)
}

// Then applies f: it keeps a chain fluent across transforms of your own.
func (s Stream[T]) Then[U any](f func(Stream[T]) Stream[U]) Stream[U] { return f(s) }

// KeyBy partitions s by the key that f takes from a record: all records of one key meet in one subtask. Keys are
// integers, strings, bool, and arrays and structs of those. f is called more than once per record and must always give the
// same key.
func (s Stream[T]) KeyBy[K comparable](f func(T) K) KeyedStream[K, T] {
	return KeyedStream[K, T]{s: s.partitioned("KeyBy", jobpb.Partitioner_PARTITIONER_HASH), key: f, where: caller()}
}
