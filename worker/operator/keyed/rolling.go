package keyed

import (
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/table"
	"github.com/sluiceio/sluice/worker/task"
)

// Aggregation is what is kept per key.
type Aggregation[K comparable, In, Acc, Out any] struct {
	Key  func(In) K
	Hash func(K) uint64
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
		t, emit := table.New[K, Acc](&rt.Counters.StateBytes), emitter(rt, out, a)
		return func(v In) {
			k := a.Key(v)
			acc, fresh := t.Find(k, a.Hash(k))
			if fresh {
				*acc = a.First(v)
			} else {
				*acc = a.Add(*acc, v)
			}
			emit(k, acc)
		}, &updates[K, Acc]{table: t}, nil
	}
}

// emitter emits the result of a key as it is now.
func emitter[K comparable, In, Acc, Out any](rt *task.Runtime, out task.Push[Out], a Aggregation[K, In, Acc, Out]) func(K, *Acc) {
	if a.Clone == nil {
		return func(k K, acc *Acc) { out(a.Result(k, *acc)) }
	}
	return func(k K, acc *Acc) {
		c, err := a.Clone(*acc)
		if err != nil {
			rt.Fail(err)
			return
		}
		out(a.Result(k, c))
	}
}

// Final emits the result of each key at the end of the input.
func Final[K comparable, In, Acc, Out any](a Aggregation[K, In, Acc, Out]) task.StageOf[In, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		t := table.New[K, Acc](&rt.Counters.StateBytes)
		o := &final[K, Acc]{updates[K, Acc]{table: t}, func(k K, acc *Acc) {
			rt.At = element.MaxTime
			out(a.Result(k, *acc))
		}}
		return func(v In) {
			k := a.Key(v)
			acc, fresh := t.Find(k, a.Hash(k))
			if fresh {
				*acc = a.First(v)
			} else {
				*acc = a.Add(*acc, v)
			}
		}, o, nil
	}
}

type updates[K comparable, Acc any] struct {
	task.Base
	table *table.Table[K, Acc]
}

// Close drops the state.
func (o *updates[K, Acc]) Close() error {
	o.table.Release()
	return nil
}

type final[K comparable, Acc any] struct {
	updates[K, Acc]
	emit func(K, *Acc)
}

// OnWatermark emits everything at the end of the input. Not in Finish: then consumers would already have been
// promised that nothing follows.
func (o *final[K, Acc]) OnWatermark(t element.Time) error {
	if t == element.MaxTime {
		o.table.Each(o.emit)
	}
	return nil
}
