package sort

import (
	"cmp"
	"errors"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/worker/task"
)

// Order is a total order of keys.
type Order[K any] struct {
	Compare func(a, b K) int
	// Prefix agrees with Compare as far as it goes: if it differs, so does Compare, in the same direction. nil: none.
	Prefix func(K) uint64
}

// Ascending is the natural order of K; NaN comes before every other number.
func Ascending[K cmp.Ordered]() Order[K] { return Order[K]{Compare: cmp.Compare[K]} }

// Descending is the reverse of Ascending.
func Descending[K cmp.Ordered]() Order[K] {
	return Order[K]{Compare: func(a, b K) int { return cmp.Compare(b, a) }}
}

// Spec says by what records are sorted.
type Spec[K, T any] struct {
	Key   func(T) K
	Order Order[K]
	// Registry holds the codecs of the pipeline; nil: none.
	Registry *codec.Registry
}

// Sorted emits the records in order when the input has ended, each with its own event time.
func Sorted[K, T any](s Spec[K, T]) task.StageOf[T, T] {
	return func(*task.Runtime, task.Push[T]) (task.Push[T], task.Operator, error) {
		return nil, nil, errors.ErrUnsupported
	}
}
