package keyed

import (
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/worker/operator/ahead"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/task"
)

// Aggregation is what is kept per key.
type Aggregation[K comparable, In, Acc, Out any] struct {
	Key func(In) K
	// State is the name of the accumulators; Registry has the codecs of the pipeline.
	State    string
	Registry *codec.Registry
	// First makes the accumulator of a key from its first record.
	First func(v In) Acc
	// Add adds a further record.
	Add func(acc Acc, v In) Acc
	// Result is what is emitted.
	Result func(k K, acc Acc) Out
	// Clone copies an accumulator that Add may change in place after its value was emitted; nil: a plain copy will do.
	Clone func(Acc) (Acc, error)
}

// Updates emits the result of a key after each of its records.
func Updates[K comparable, In, Acc, Out any](a Aggregation[K, In, Acc, Out]) task.StageOf[In, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		r, err := open(rt, a)
		if err != nil {
			return nil, nil, err
		}
		emit := emitter(rt, out, a)
		keyed := ahead.Keys(rt, a.Key, r.dir.Hash, r.dir.Prefetch)
		return func(v In) {
			k, h := keyed(v)
			emit(k, *r.add(k, h, v))
		}, r, nil
	}
}

// emitter emits the result of a key as it is now.
func emitter[K comparable, In, Acc, Out any](rt *task.Runtime, out task.Push[Out], a Aggregation[K, In, Acc, Out]) func(K, Acc) {
	if a.Clone == nil {
		return func(k K, acc Acc) { out(a.Result(k, acc)) }
	}
	return func(k K, acc Acc) {
		c, err := a.Clone(acc)
		if err != nil {
			rt.Fail(err)
			return
		}
		out(a.Result(k, c))
	}
}

// rolling is the state of an aggregation.
type rolling[K comparable, In, Acc, Out any] struct {
	task.Base
	dir   *state.Directory[K]
	acc   *state.Value[Acc]
	first func(In) Acc
	fold  func(Acc, In) Acc
}

func open[K comparable, In, Acc, Out any](rt *task.Runtime, a Aggregation[K, In, Acc, Out]) (*rolling[K, In, Acc, Out], error) {
	dir, err := state.NewDirectory[K](rt.Options("keyed", a.Registry))
	if err != nil {
		return nil, err
	}
	rt.Keep(dir.Table())
	acc, err := state.ValueOf[Acc](dir, a.State)
	if err != nil {
		return nil, err
	}
	return &rolling[K, In, Acc, Out]{dir: dir, acc: acc, first: a.First, fold: a.Add}, nil
}

// add folds v into the accumulator of k. The pointer is valid until the next call.
func (r *rolling[K, In, Acc, Out]) add(k K, h uint64, v In) *Acc {
	r.dir.Seek(k, h)
	if !r.acc.Exists() {
		first := r.first(v)
		acc := r.acc.Ref()
		*acc = first
		return acc
	}
	acc := r.acc.Ref()
	*acc = r.fold(*acc, v)
	return acc
}
