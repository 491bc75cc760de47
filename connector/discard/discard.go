package discard

import (
	"context"
	"sync/atomic"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
)

// Sink drops every record. count, if not nil, holds the number of records of all subtasks after each flush.
func Sink[T any](count *atomic.Int64) connector.Sink[T] { return sink[T]{count} }

type sink[T any] struct{ count *atomic.Int64 }

func (s sink[T]) Guarantee() connector.Guarantee { return connector.AtLeastOnce }

func (s sink[T]) OpenWriter(context.Context, *connector.Task, [][]byte) (connector.Writer[T], error) {
	return &writer[T]{total: s.count}, nil
}

type writer[T any] struct {
	connector.NoCommit
	total *atomic.Int64
	n     int64 // since the last flush
}

func (w *writer[T]) Write(context.Context, T, element.Time) error {
	w.n++
	return nil
}

func (w *writer[T]) Flush(context.Context) error {
	if w.total != nil {
		w.total.Add(w.n)
	}
	w.n = 0
	return nil
}

func (w *writer[T]) End(ctx context.Context) error { return w.Flush(ctx) }
func (w *writer[T]) Close() error                  { return w.Flush(context.Background()) }
