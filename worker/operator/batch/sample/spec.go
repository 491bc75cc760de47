package sample

import (
	"errors"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/worker/operator/batch/sort"
	"github.com/sluiceio/sluice/worker/task"
)

// Sample is what one subtask knows of its keys.
type Sample[K any] struct {
	Seen int64 // records that the keys stand for
	Keys []K
}

// Bounds are the quantiles of a bounded input, ascending. Keys below the first one are range 0.
type Bounds[K any] struct{ Keys []K }

// Ranged is a record with its place in the order, from 0 to Ranges-1; equal keys have equal places.
type Ranged[T any] struct {
	Range int32
	Value T
}

// Ranges is the number of places.
const Ranges = 1 << 16

// Route is the partitioner for Ranged records: subtask i gets the i-th share of the places.
func Route[T any](v Ranged[T], consumers int) int { return int(v.Range) * consumers / Ranges }

// Keys draws a sample and emits one Sample when the input has ended. The same input gives the same sample in every
// attempt.
func Keys[K, T any](key func(T) K) task.StageOf[T, Sample[K]] {
	return func(*task.Runtime, task.Push[Sample[K]]) (task.Push[T], task.Operator, error) {
		return nil, nil, errors.ErrUnsupported
	}
}

// Quantiles emits one Bounds when the input has ended. It depends on the set of samples, not on their order.
func Quantiles[K any](o sort.Order[K]) task.StageOf[Sample[K], Bounds[K]] {
	return func(*task.Runtime, task.Push[Bounds[K]]) (task.Push[Sample[K]], task.Operator, error) {
		return nil, nil, errors.ErrUnsupported
	}
}

// Router has two inputs: the Bounds (phase 0) and the records (phase 1). Records that come before the bounds are kept.
func Router[K, T any](key func(T) K, o sort.Order[K], r *codec.Registry) (task.StageOf[Bounds[K], Ranged[T]], task.StageOf[T, Ranged[T]]) {
	bounds := func(*task.Runtime, task.Push[Ranged[T]]) (task.Push[Bounds[K]], task.Operator, error) {
		return nil, nil, errors.ErrUnsupported
	}
	records := func(*task.Runtime, task.Push[Ranged[T]]) (task.Push[T], task.Operator, error) {
		return nil, nil, errors.ErrUnsupported
	}
	return bounds, records
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
