package aggregate

import (
	"errors"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/worker/operator/keyed"
	"github.com/sluiceio/sluice/worker/task"
)

// Final emits the result of each key at the end of the input, with the time element.MaxTime.
func Final[K comparable, In, Acc, Out any](a keyed.Aggregation[K, In, Acc, Out]) task.StageOf[In, Out] {
	return func(*task.Runtime, task.Push[Out]) (task.Push[In], task.Operator, error) {
		return nil, nil, errors.ErrUnsupported
	}
}

// Distinct emits the first record of each key, with its own event time.
func Distinct[K comparable, T any](key func(T) K, r *codec.Registry) task.StageOf[T, T] {
	return func(*task.Runtime, task.Push[T]) (task.Push[T], task.Operator, error) {
		return nil, nil, errors.ErrUnsupported
	}
}
