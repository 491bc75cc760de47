package discard

import (
	"context"
	"sync/atomic"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
)

// Total is what Sum has added up, of all subtasks, after each flush.
type Total struct {
	Rows atomic.Int64
	Sum  atomic.Uint64
}

// Sum drops every record and adds up its hash: two runs with the same sums gave the same records, in whatever order. hash makes
// the function of one subtask.
func Sum[T any](total *Total, hash func() func(T) uint64) connector.Sink[T] {
	return sumSink[T]{total, hash}
}

// SumSeen is Sum that tells seen of the event time of each record, from all subtasks at the same time.
func SumSeen[T any](total *Total, hash func() func(T) uint64, seen func(element.Time)) connector.Sink[T] {
	return seenSink[T]{sumSink[T]{total, hash}, seen}
}

type seenSink[T any] struct {
	sumSink[T]
	seen func(element.Time)
}

func (s seenSink[T]) OpenWriter(context.Context, *connector.Task, [][]byte) (connector.Writer[T], error) {
	return &seenWriter[T]{sumWriter[T]{total: s.total, hash: s.hash()}, s.seen}, nil
}

type seenWriter[T any] struct {
	sumWriter[T]
	seen func(element.Time)
}

func (w *seenWriter[T]) Write(ctx context.Context, v T, at element.Time) error {
	w.seen(at)
	return w.sumWriter.Write(ctx, v, at)
}

type sumSink[T any] struct {
	total *Total
	hash  func() func(T) uint64
}

func (s sumSink[T]) Guarantee() connector.Guarantee { return connector.AtLeastOnce }

func (s sumSink[T]) OpenWriter(context.Context, *connector.Task, [][]byte) (connector.Writer[T], error) {
	return &sumWriter[T]{total: s.total, hash: s.hash()}, nil
}

type sumWriter[T any] struct {
	connector.NoCommit
	total *Total
	hash  func(T) uint64
	n     int64 // since the last flush
	sum   uint64
}

func (w *sumWriter[T]) Write(_ context.Context, v T, _ element.Time) error {
	w.n++
	w.sum += w.hash(v)
	return nil
}

func (w *sumWriter[T]) Flush(context.Context) error {
	w.total.Rows.Add(w.n)
	w.total.Sum.Add(w.sum)
	w.n, w.sum = 0, 0
	return nil
}

func (w *sumWriter[T]) End(ctx context.Context) error { return w.Flush(ctx) }
func (w *sumWriter[T]) Close() error                  { return w.Flush(context.Background()) }
