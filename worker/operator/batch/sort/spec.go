package sort

import (
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/batch"
	"github.com/sluiceio/sluice/worker/spill"
	"github.com/sluiceio/sluice/worker/task"
)

// Spec says by what records are sorted.
type Spec[K, T any] struct {
	Key   func(T) K
	Order Order[K]
	// Most is how many records are wanted: the first ones in order. Zero: all.
	Most int64
	// Registry holds the codecs of the pipeline; nil: none.
	Registry *codec.Registry
}

// Sorted emits the records in order when the input has ended, each with its own event time. Records with equal keys come in
// the order of their arrival.
func Sorted[K, T any](spec Spec[K, T]) task.StageOf[T, T] {
	return func(rt *task.Runtime, out task.Push[T]) (task.Push[T], task.Operator, error) {
		c, err := codec.Of[T](spec.Registry)
		if err != nil {
			return nil, nil, err
		}
		mem, err := batch.Open(rt)
		if err != nil {
			return nil, nil, err
		}
		o := &sorted[K, T]{mem: mem, rt: rt, out: out}
		o.sorter = NewSorter(Config[K, T]{
			Memory: mem, Codec: c, Size: spill.SizerOf(c), Key: spec.Key, Order: spec.Order, Most: spec.Most,
		})
		return o.push, o, nil
	}
}

type sorted[K, T any] struct {
	task.Base
	batch.Holder
	mem    *batch.Memory
	rt     *task.Runtime
	sorter *Sorter[K, T]
	out    task.Push[T]
	failed bool
	ended  bool
}

func (o *sorted[K, T]) push(v T) {
	if o.failed {
		return
	}
	if err := o.sorter.Add(v, o.rt.At); err != nil {
		o.failed = true
		o.rt.Fail(err)
	}
}

// OnWatermark emits everything at the end of the input.
func (o *sorted[K, T]) OnWatermark(t element.Time) error {
	o.mem.Publish()
	if t != element.MaxTime || o.failed || o.ended {
		return nil
	}
	o.ended = true
	return o.emit()
}

func (o *sorted[K, T]) emit() error {
	m, err := o.sorter.Merge()
	if err != nil {
		return err
	}
	defer m.Close()
	var v T
	for {
		at, ok, err := m.Next(&v)
		if err != nil {
			return err
		}
		if !ok {
			m.Close()
			return o.sorter.Close()
		}
		o.rt.At = at
		o.out(v)
		if err := o.rt.Stopped(); err != nil {
			return err
		}
	}
}

// Close gives memory and disk back.
func (o *sorted[K, T]) Close() error {
	o.failed = true
	err := o.sorter.Close()
	if cerr := o.mem.Close(); err == nil {
		err = cerr
	}
	return err
}
