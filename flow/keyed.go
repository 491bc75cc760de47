package flow

import (
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/operator/batch/aggregate"
	"github.com/sluiceio/sluice/worker/operator/keyed"
	"github.com/sluiceio/sluice/worker/task"
)

// KeyedStream is a stream partitioned by key.
type KeyedStream[K comparable, T any] struct {
	s     Stream[T]
	key   func(T) K
	where string // of KeyBy
}

// Exchange overrides how the keyed edge is exchanged.
func (k KeyedStream[K, T]) Exchange(e Exchange) KeyedStream[K, T] {
	k.s = k.s.Exchange(e)
	return k
}

// Reduce combines the records of a key pairwise; f must not change its arguments. Unbounded input: every update is
// emitted, with the time of its record. Bounded input: the final value of each key, at the end of the input.
func (k KeyedStream[K, T]) Reduce[_ OnCall](f func(acc, v T) T) Stream[T] {
	return aggregated(k, "reduce", "acc", func() keyed.Aggregation[K, T, T, T] {
		return keyed.Aggregation[K, T, T, T]{
			Key: k.key, Add: f,
			First:  func(v T) T { return v },
			Result: func(_ K, acc T) T { return acc },
		}
	})
}

// Count counts the records of a key. Unbounded input: every update is emitted, with the time of its record. Bounded input:
// the final count of each key, at the end of the input.
func (k KeyedStream[K, T]) Count[R interface{ KV[K, int64] }]() Stream[R] {
	return aggregated(k, "count", "count", func() keyed.Aggregation[K, T, int64, R] {
		return keyed.Aggregation[K, T, int64, R]{
			Key:    k.key,
			First:  func(T) int64 { return 1 },
			Add:    func(acc int64, _ T) int64 { return acc + 1 },
			Result: pair[K, int64, R],
		}
	})
}

// Fold folds the records of a key into an accumulator, which f may change in place and returns. Unbounded input: every
// update is emitted, with the time of its record; an accumulator with slices, maps or pointers is copied for that.
// Bounded input: the final value of each key, at the end of the input.
func (k KeyedStream[K, T]) Fold[A any, R interface{ KV[K, A] }](zero func() A, f func(acc A, v T) A) Stream[R] {
	return aggregated(k, "fold", "acc", func() keyed.Aggregation[K, T, A, R] {
		return keyed.Aggregation[K, T, A, R]{
			Key: k.key, Add: f,
			First:  func(v T) A { return f(zero(), v) },
			Result: pair[K, A, R],
			Clone:  cloner[A](k.s.end.p),
		}
	})
}

func pair[K comparable, V any, R interface{ KV[K, V] }](k K, v V) R { return R(KV[K, V]{k, v}) }

// aggregated adds an aggregation of k: with final values in a share of the batch memory if the input is bounded, otherwise
// with every update and keyed state.
func aggregated[K comparable, T, Acc, Out any](k KeyedStream[K, T], kind, state string, make func() keyed.Aggregation[K, T, Acc, Out]) Stream[Out] {
	out, n := keyedUnary[K, T, Out](k, kind, func(n *node) task.Stage {
		a := make()
		a.State, a.Registry = state, k.s.end.p.registry
		if n.op.Bounded {
			return aggregate.Final(a)
		}
		return keyed.Updates(a)
	})
	if n.op.Bounded {
		n.spills()
		n.op.Unordered = true
		encodes[Acc](n)
	} else {
		declare[Acc](n, "value", state)
	}
	return out
}

// spills makes n a batch operator: it works in a share of the batch memory and keeps nothing in checkpoints.
func (n *node) spills() { n.op.BatchMemory, n.op.Stateful = true, false }

// cloner copies what a plain copy would share; nil if there is nothing such in A.
func cloner[A any](p *Pipeline) func(A) (A, error) {
	c, err := codecOf[A](p)
	if err != nil || c.Flat() { // the error is reported where the state is declared
		return nil
	}
	return func(a A) (b A, err error) {
		bytes, err := c.Append(nil, &a)
		if err == nil {
			_, err = c.Decode(bytes, &b)
		}
		return b, err
	}
}

// keyedUnary adds a stateful operator behind a keyed edge; stage makes its typed part when the graph is complete.
func keyedUnary[K comparable, T, U any](k KeyedStream[K, T], kind string, stage func(n *node) task.Stage) (Stream[U], *node) {
	p := k.s.end.p
	n := p.add(kind, k.s.end.edge())
	n.op.Stateful = true
	n.inputs = []input{keyedInput(k, func() task.Stage { return stage(n) })}
	n.declare = append(n.declare, func(p *Pipeline) { declareKey[K](p, n.op.Inputs[0], k.where) })
	return derive[U](p, n), n
}

// keyedInput is the typed part of an edge that is partitioned by k, and of what it leads to.
func keyedInput[K comparable, T any](k KeyedStream[K, T], stage func() task.Stage) input {
	return input{stage: stage, exchange: func(p *Pipeline) (task.Exchange, error) {
		c, err := codecOf[T](p)
		if err != nil {
			return nil, err
		}
		hash, err := codec.Hasher[K]()
		if err != nil {
			return nil, err
		}
		return task.NewKeyedExchange(c, k.key, hash), nil
	}}
}

// declareKey checks that K can be a key and tells the graph its schema.
func declareKey[K comparable](p *Pipeline, in *jobpb.Input, where string) {
	if _, err := codec.Hasher[K](); err != nil {
		p.typeFault(where, err)
		return
	}
	c, err := codecOf[K](p)
	if err != nil {
		p.typeFault(where, err)
		return
	}
	in.KeySchema = c.Schema()
}

// encodes checks that V can be encoded: n may write values of it to disk, or keep them by their bytes.
func encodes[V any](n *node) {
	n.declare = append(n.declare, func(p *Pipeline) {
		if _, err := codecOf[V](p); err != nil {
			p.typeFault(n.op.Location, err)
		}
	})
}

// declare tells the graph about a state of n.
func declare[V any](n *node, kind, name string) {
	n.declare = append(n.declare, func(p *Pipeline) {
		c, err := codecOf[V](p)
		if err != nil {
			p.typeFault(n.op.Location, err)
			return
		}
		n.op.States = append(n.op.States, &jobpb.StateDeclaration{Kind: kind, Name: name, Schema: c.Schema(), Flat: c.Flat()})
	})
}
