package collect

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
)

// Records is a collection and the sink that fills it. Its methods may be called from any goroutine.
type Records[T any] struct {
	mu struct {
		sync.Mutex
		next     uint64
		prepared map[uint64][]Record[T]
		done     map[uint64]bool // committed or aborted
		visible  []Record[T]
	}
}

// Record is a value with its event time and the subtask that wrote it.
type Record[T any] struct {
	Value   T
	Time    element.Time
	Subtask int
}

// New is an empty collection.
func New[T any]() *Records[T] {
	r := &Records[T]{}
	r.mu.prepared, r.mu.done = map[uint64][]Record[T]{}, map[uint64]bool{}
	return r
}

// All returns the committed records in the order of their commits.
func (r *Records[T]) All() []Record[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Record[T](nil), r.mu.visible...)
}

// Values returns the committed values.
func (r *Records[T]) Values() []T {
	var vs []T
	for _, rec := range r.All() {
		vs = append(vs, rec.Value)
	}
	return vs
}

// Guarantee is exactly-once.
func (r *Records[T]) Guarantee() connector.Guarantee { return connector.ExactlyOnce }

// OpenWriter implements connector.Sink.
func (r *Records[T]) OpenWriter(_ context.Context, t *connector.Task, _ [][]byte) (connector.Writer[T], error) {
	return &writer[T]{records: r, subtask: t.Subtask}, nil
}

// OpenCommitter implements connector.CommittingSink.
func (r *Records[T]) OpenCommitter(context.Context, *connector.Task) (connector.Committer, error) {
	return committer[T]{r}, nil
}

type writer[T any] struct {
	records *Records[T]
	subtask int
	pending []Record[T]
}

func (w *writer[T]) Write(_ context.Context, v T, at element.Time) error {
	w.pending = append(w.pending, Record[T]{v, at, w.subtask})
	return nil
}

func (w *writer[T]) Flush(context.Context) error { return nil }
func (w *writer[T]) End(context.Context) error   { return nil }

func (w *writer[T]) Prepare(_ context.Context, id element.CheckpointID) ([]connector.Committable, error) {
	if len(w.pending) == 0 {
		return nil, nil
	}
	r := w.records
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.next++
	r.mu.prepared[r.mu.next] = w.pending
	w.pending = nil
	return []connector.Committable{{Subtask: w.subtask, Checkpoint: id, Data: binary.BigEndian.AppendUint64(nil, r.mu.next)}}, nil
}

func (w *writer[T]) Snapshot(element.CheckpointID) ([]byte, error) { return nil, nil }
func (w *writer[T]) Close() error                                  { return nil }

type committer[T any] struct{ r *Records[T] }

func (c committer[T]) Commit(_ context.Context, cs []connector.Committable) ([]connector.CommitResult, error) {
	results := make([]connector.CommitResult, len(cs))
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	for i, cm := range cs {
		id, err := key(cm)
		if err != nil {
			return nil, err
		}
		recs, ok := c.r.mu.prepared[id]
		switch {
		case ok:
			c.r.mu.visible = append(c.r.mu.visible, recs...)
			delete(c.r.mu.prepared, id)
			c.r.mu.done[id] = true
		case c.r.mu.done[id]:
			results[i] = connector.AlreadyCommitted
		default:
			results[i] = connector.Lost
		}
	}
	return results, nil
}

func (c committer[T]) Abort(_ context.Context, cs []connector.Committable) error {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	for _, cm := range cs {
		id, err := key(cm)
		if err != nil {
			return err
		}
		delete(c.r.mu.prepared, id)
	}
	return nil
}

// AbortUnknown has nothing to do: what was not prepared died with its writer.
func (c committer[T]) AbortUnknown(context.Context, []connector.Committable) error { return nil }
func (c committer[T]) Close() error                                                { return nil }

func key(cm connector.Committable) (uint64, error) {
	if len(cm.Data) != 8 {
		return 0, fmt.Errorf("committable of %d bytes is not from this sink", len(cm.Data))
	}
	return binary.BigEndian.Uint64(cm.Data), nil
}
