package top

import (
	"errors"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/worker/task"
)

// Spec says which records are the first ones.
type Spec[T any] struct {
	N int
	// Compare is negative if a comes before b. Of records that compare equal the one that arrived first comes first.
	Compare func(a, b T) int
	// Registry holds the codecs of the pipeline; nil: none.
	Registry *codec.Registry
}

// PerKey emits the first N records of each key in order when the input has ended, each with its own event time.
func PerKey[K comparable, T any](key func(T) K, s Spec[T]) task.StageOf[T, T] {
	return func(*task.Runtime, task.Push[T]) (task.Push[T], task.Operator, error) {
		return nil, nil, errors.ErrUnsupported
	}
}

// Overall emits the first N records of the subtask in order when the input has ended, each with its own event time.
func Overall[T any](s Spec[T]) task.StageOf[T, T] {
	return func(*task.Runtime, task.Push[T]) (task.Push[T], task.Operator, error) {
		return nil, nil, errors.ErrUnsupported
	}
}
