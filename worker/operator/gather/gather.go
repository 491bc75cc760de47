package gather

import (
	"fmt"
	"time"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/state/unkeyed"
	"github.com/sluiceio/sluice/worker/task"
)

// Spec says when a batch is handed on.
type Spec[T any] struct {
	// Max is the largest number of records in a batch.
	Max int
	// Linger is how long the first record of a batch waits for the others.
	Linger time.Duration
	// Registry has the codecs of the pipeline; nil: none.
	Registry *codec.Registry
}

// held is a record of the batch, as it is kept in a snapshot.
type held[T any] struct {
	At element.Time
	V  T
}

// Stage is the operator. Each batch that it emits is a slice of its own.
func (s Spec[T]) Stage() task.StageOf[T, []T] {
	return func(rt *task.Runtime, out task.Push[[]T]) (task.Push[T], task.Operator, error) {
		list, err := unkeyed.NewList[held[T]](rt.Options("batch", s.Registry), unkeyed.Groups{First: rt.KeyGroups.First, End: rt.KeyGroups.End})
		if err != nil {
			return nil, nil, fmt.Errorf("batch: %w", err)
		}
		rt.Keep(list)
		o := &operator[T]{spec: s, rt: rt, out: out, list: list}
		return o.push, o, nil
	}
}

type operator[T any] struct {
	task.Base
	spec  Spec[T]
	rt    *task.Runtime
	out   task.Push[[]T]
	list  unkeyed.List[held[T]]
	batch []T
	times []element.Time
	// mark is the last watermark that came since the batch was begun, idle the idleness that came behind it; zero values: none.
	mark, idle element.Event
}

var (
	_ task.Relay    = (*operator[int])(nil)
	_ task.Waker    = (*operator[int])(nil)
	_ task.Restorer = (*operator[int])(nil)
)

func (o *operator[T]) push(v T) {
	if len(o.batch) == 0 {
		o.rt.WakeAt(o.rt.Now().Add(o.spec.Linger))
	}
	o.batch = append(o.batch, v)
	o.times = append(o.times, o.rt.At)
	if len(o.batch) >= o.spec.Max {
		at := o.rt.At
		o.rt.Fail(o.hand())
		o.rt.At = at
	}
}

// hand emits the batch, and what came behind it.
func (o *operator[T]) hand() error {
	if len(o.batch) == 0 {
		return nil
	}
	o.rt.WakeAt(time.Time{})
	newest := element.MinTime
	for _, t := range o.times {
		newest = max(newest, t)
	}
	batch := o.batch
	o.batch, o.times = nil, o.times[:0]
	o.rt.At = newest
	o.out(batch)
	events := [2]element.Event{o.mark, o.idle}
	o.mark, o.idle = element.Event{}, element.Event{}
	for _, ev := range events {
		if ev.Kind == element.None {
			continue
		}
		if err := o.rt.Pass(ev); err != nil {
			return err
		}
	}
	return nil
}

// HoldsWatermarks: until the batch is full.
func (o *operator[T]) HoldsWatermarks() {}

// OnEvent implements task.Relay.
func (o *operator[T]) OnEvent(ev element.Event) error {
	if len(o.batch) == 0 {
		return o.rt.Pass(ev)
	}
	if o.idle = ev; ev.Kind == element.Watermark {
		o.mark, o.idle = ev, element.Event{}
	}
	return nil
}

// OnTime implements task.Waker.
func (o *operator[T]) OnTime(time.Time) error { return o.hand() }

// OnWatermark comes at the end only.
func (o *operator[T]) OnWatermark(element.Time) error { return o.hand() }

// Finish hands on what is left, also if the end came without a watermark.
func (o *operator[T]) Finish() error { return o.hand() }

// OnBarrier makes state of the batch.
func (o *operator[T]) OnBarrier(element.CheckpointID) error {
	o.list.Clear()
	for i, v := range o.batch {
		o.list.Add(held[T]{o.times[i], v})
	}
	return o.list.Err()
}

// OnRestored begins with the batch of the snapshot. At a lower parallelism it may hold those of several subtasks.
func (o *operator[T]) OnRestored() error {
	for h := range o.list.All() {
		o.rt.At = h.At
		o.push(h.V)
	}
	return o.list.Err()
}
