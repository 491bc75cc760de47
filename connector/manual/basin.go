package manual

import (
	"context"
	"sync"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
)

// Basin is a sink that shows records as soon as they are written.
type Basin[T any] struct {
	mu struct {
		sync.Mutex
		vs []T
	}
}

// Take returns what was written since the last call: each subtask's in the order of writing.
func (b *Basin[T]) Take() []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	vs := b.mu.vs
	b.mu.vs = nil
	return vs
}

// Guarantee is at-least-once: an attempt that begins anew writes again.
func (b *Basin[T]) Guarantee() connector.Guarantee { return connector.AtLeastOnce }

// String is the detail that a plan shows.
func (b *Basin[T]) String() string { return "by hand" }

// OpenWriter implements connector.Sink.
func (b *Basin[T]) OpenWriter(context.Context, *connector.Task, [][]byte) (connector.Writer[T], error) {
	return &writer[T]{basin: b}, nil
}

type writer[T any] struct {
	connector.NoCommit
	basin *Basin[T]
}

func (w *writer[T]) Write(_ context.Context, v T, _ element.Time) error {
	w.basin.mu.Lock()
	defer w.basin.mu.Unlock()
	w.basin.mu.vs = append(w.basin.mu.vs, v)
	return nil
}

func (w *writer[T]) Flush(context.Context) error { return nil }
func (w *writer[T]) End(context.Context) error   { return nil }
func (w *writer[T]) Close() error                { return nil }
