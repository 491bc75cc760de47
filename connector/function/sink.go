package function

import (
	"context"
	"fmt"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
)

// batch is the largest number of records of one call of a sink's function.
const batch = 1024

// Sink hands records to f, many at a time and at least ten times a second while there are some. f is called by several subtasks
// at once and must not keep vs. What it returned nil for has left the process; after a failure it may be called for the same
// records again, in other batches. Its error fails the attempt.
func Sink[T any](f func(ctx context.Context, vs []T) error) connector.Sink[T] { return sink[T](f) }

type sink[T any] func(ctx context.Context, vs []T) error

func (s sink[T]) Guarantee() connector.Guarantee { return connector.AtLeastOnce }

// String is the detail that a plan shows.
func (s sink[T]) String() string { return "function" }

func (s sink[T]) OpenWriter(context.Context, *connector.Task, [][]byte) (connector.Writer[T], error) {
	if s == nil {
		return nil, connector.Fatal(fmt.Errorf("there is no function to write to"))
	}
	return &writer[T]{f: s}, nil
}

type writer[T any] struct {
	connector.NoCommit
	f  sink[T]
	vs []T
}

func (w *writer[T]) Write(ctx context.Context, v T, _ element.Time) error {
	if w.vs = append(w.vs, v); len(w.vs) < batch {
		return nil
	}
	return w.Flush(ctx)
}

func (w *writer[T]) Flush(ctx context.Context) error {
	if len(w.vs) == 0 {
		return nil
	}
	if err := w.f(ctx, w.vs); err != nil {
		return fmt.Errorf("write %d records: %w", len(w.vs), err)
	}
	clear(w.vs)
	w.vs = w.vs[:0]
	return nil
}

func (w *writer[T]) End(ctx context.Context) error { return w.Flush(ctx) }
func (w *writer[T]) Close() error                  { return nil }
