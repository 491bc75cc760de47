package sample

import (
	"errors"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/batch"
	"github.com/sluiceio/sluice/worker/operator/batch/queue"
	"github.com/sluiceio/sluice/worker/operator/batch/sort"
	"github.com/sluiceio/sluice/worker/spill"
	"github.com/sluiceio/sluice/worker/task"
)

// Ranged is a record with its place in the order, from 0 to Ranges-1; equal keys have equal places.
type Ranged[T any] struct {
	Range int32
	Value T
}

// Ranges is the number of places.
const Ranges = 1 << 16

// Route is the partitioner for Ranged records: subtask i gets the i-th share of the places.
func Route[T any](v Ranged[T], consumers int) int { return int(v.Range) * consumers / Ranges }

// Router has two inputs: the Bounds (phase 0) and the records (phase 1). Records that come before the bounds are kept, on
// disk if memory is short.
func Router[K, T any](key func(T) K, o sort.Order[K], reg *codec.Registry) (task.StageOf[Bounds[K], Ranged[T]], task.StageOf[T, Ranged[T]]) {
	shared := func(rt *task.Runtime, out task.Push[Ranged[T]]) (*router[K, T], error) {
		return task.Shared(rt, func() (*router[K, T], error) { return open(rt, out, key, o, reg) })
	}
	bounds := func(rt *task.Runtime, out task.Push[Ranged[T]]) (task.Push[Bounds[K]], task.Operator, error) {
		r, err := shared(rt, out)
		if err != nil {
			return nil, nil, err
		}
		return r.pushBounds, r, nil
	}
	records := func(rt *task.Runtime, out task.Push[Ranged[T]]) (task.Push[T], task.Operator, error) {
		r, err := shared(rt, out)
		if err != nil {
			return nil, nil, err
		}
		return r.push, r, nil
	}
	return bounds, records
}

type router[K, T any] struct {
	task.Base
	batch.Holder
	rt    *task.Runtime
	mem   *batch.Memory
	out   task.Push[Ranged[T]]
	key   func(T) K
	order sort.Order[K]

	early    *queue.Queue[T] // nil: the bounds are there
	bounds   []K
	prefixes []uint64 // of bounds
	failed   bool
}

var _ task.InputEnder = (*router[int, int])(nil)

func open[K, T any](rt *task.Runtime, out task.Push[Ranged[T]], key func(T) K, o sort.Order[K], reg *codec.Registry) (*router[K, T], error) {
	c, err := codec.Of[T](reg)
	if err != nil {
		return nil, err
	}
	mem, err := batch.Open(rt)
	if err != nil {
		return nil, err
	}
	if o.Prefix == nil {
		o.Prefix, o.Exact = func(K) uint64 { return 0 }, false
	}
	return &router[K, T]{rt: rt, mem: mem, out: out, key: key, order: o, early: queue.New(mem, c, spill.SizerOf(c))}, nil
}

func (r *router[K, T]) fail(err error) {
	if err != nil {
		r.failed = true
		r.rt.Fail(err)
	}
}

func (r *router[K, T]) pushBounds(b Bounds[K]) {
	if r.failed {
		return
	}
	if r.early == nil {
		r.fail(errors.New("bounds of ranges came twice"))
		return
	}
	at := r.rt.At
	r.bounds = b.Keys
	for _, k := range b.Keys {
		r.prefixes = append(r.prefixes, r.order.Prefix(k))
	}
	r.fail(r.begin())
	r.rt.At = at
}

// begin hands on what has come too early.
func (r *router[K, T]) begin() error {
	early := r.early
	r.early = nil
	return early.Drain(func(v T, at element.Time) error {
		r.rt.At = at
		r.emit(v)
		return r.rt.Stopped()
	})
}

func (r *router[K, T]) push(v T) {
	switch {
	case r.failed:
	case r.early != nil:
		r.fail(r.early.Add(v, r.rt.At))
	default:
		r.emit(v)
	}
}

func (r *router[K, T]) emit(v T) {
	r.out(Ranged[T]{Range: int32(r.place(r.key(v)) * Ranges / (len(r.bounds) + 1)), Value: v})
}

// place is the range of a key, of len(bounds)+1. A key that equals several bounds takes the middle one of the ranges between
// them.
func (r *router[K, T]) place(k K) int {
	p := r.order.Prefix(k)
	below := r.search(p, k, 0) // bounds below k
	upTo := below              // and those equal to it
	if upTo < len(r.bounds) && r.prefixes[upTo] == p {
		upTo = r.search(p, k, 1)
	}
	return (below + upTo) / 2
}

// search counts the bounds that compare with k to less than limit.
func (r *router[K, T]) search(p uint64, k K, limit int) int {
	lo, hi := 0, len(r.bounds)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if r.compare(mid, p, k) < limit {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// compare orders a bound and a key.
func (r *router[K, T]) compare(i int, p uint64, k K) int {
	switch b := r.prefixes[i]; {
	case b < p:
		return -1
	case b > p:
		return 1
	case r.order.Exact:
		return 0
	}
	return r.order.Compare(r.bounds[i], k)
}

// OnInputEnd finds out that there are no bounds.
func (r *router[K, T]) OnInputEnd(input int) error {
	if input == 0 && r.early != nil && !r.failed {
		return errors.New("the bounds of ranges are missing")
	}
	return nil
}

// OnWatermark counts what is kept.
func (r *router[K, T]) OnWatermark(element.Time) error {
	r.mem.Publish()
	return nil
}

// Close gives memory and disk back.
func (r *router[K, T]) Close() error {
	r.failed, r.early = true, nil
	return r.mem.Close()
}

// Unwrap takes records out of their places in front of s: the first thing in the consumer of a Route.
func Unwrap[T, Out any](s task.StageOf[T, Out]) task.StageOf[Ranged[T], Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[Ranged[T]], task.Operator, error) {
		push, op, err := s(rt, out)
		if err != nil {
			return nil, op, err
		}
		return func(v Ranged[T]) { push(v.Value) }, op, nil
	}
}
