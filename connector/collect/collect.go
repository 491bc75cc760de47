package collect

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
)

// Records is a collection and the sink that fills it. Its methods may be called from any goroutine.
type Records[T any] struct {
	mu struct {
		sync.Mutex
		next      uint64 // number of the next part
		parts     map[uint64]*part[T]
		committed []*part[T] // in the order of their commits
	}
}

// Record is a value with its event time and the subtask that wrote it.
type Record[T any] struct {
	Value   T
	Time    element.Time
	Subtask int
}

// part is what one Prepare has made.
type part[T any] struct {
	task      connector.Task
	committed bool
	records   []Record[T]
}

// New is an empty collection.
func New[T any]() *Records[T] {
	r := &Records[T]{}
	r.Reset()
	return r
}

// Reset forgets everything. No job may run meanwhile.
func (r *Records[T]) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.parts, r.mu.committed = map[uint64]*part[T]{}, nil
}

// All returns the committed records: those of subtask 0 first, each subtask's in the order of their commits.
func (r *Records[T]) All() []Record[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	parts := slices.Clone(r.mu.committed)
	slices.SortStableFunc(parts, func(a, b *part[T]) int { return cmp.Compare(a.task.Subtask, b.task.Subtask) })
	var all []Record[T]
	for _, p := range parts {
		all = append(all, p.records...)
	}
	return all
}

// Values are the values of All.
func (r *Records[T]) Values() []T {
	var vs []T
	for _, rec := range r.All() {
		vs = append(vs, rec.Value)
	}
	return vs
}

// Times are the event times of All.
func (r *Records[T]) Times() []element.Time {
	var ts []element.Time
	for _, rec := range r.All() {
		ts = append(ts, rec.Time)
	}
	return ts
}

// Guarantee is exactly-once: records of failed attempts are never committed.
func (r *Records[T]) Guarantee() connector.Guarantee { return connector.ExactlyOnce }

// OpenWriter implements connector.Sink.
func (r *Records[T]) OpenWriter(_ context.Context, t *connector.Task, _ [][]byte) (connector.Writer[T], error) {
	return &writer[T]{records: r, task: *t}, nil
}

// OpenCommitter implements connector.CommittingSink.
func (r *Records[T]) OpenCommitter(_ context.Context, t *connector.Task) (connector.Committer, error) {
	return committer[T]{records: r, task: *t}, nil
}

type writer[T any] struct {
	records *Records[T]
	task    connector.Task
	pending []Record[T]
}

func (w *writer[T]) Write(_ context.Context, v T, at element.Time) error {
	w.pending = append(w.pending, Record[T]{v, at, w.task.Subtask})
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
	r.mu.parts[r.mu.next] = &part[T]{task: w.task, records: w.pending}
	w.pending = nil
	return []connector.Committable{{Subtask: w.task.Subtask, Checkpoint: id, Data: binary.BigEndian.AppendUint64(nil, r.mu.next)}}, nil
}

func (w *writer[T]) Snapshot(element.CheckpointID) ([]byte, error) { return nil, nil }
func (w *writer[T]) Close() error                                  { return nil }

type committer[T any] struct {
	records *Records[T]
	task    connector.Task
}

func (c committer[T]) Commit(_ context.Context, cs []connector.Committable) ([]connector.CommitResult, error) {
	r := c.records
	r.mu.Lock()
	defer r.mu.Unlock()
	results := make([]connector.CommitResult, len(cs))
	for i, cm := range cs {
		n, err := number(cm)
		if err != nil {
			return nil, err
		}
		switch p := r.mu.parts[n]; {
		case p == nil:
			results[i] = connector.Lost
		case p.committed:
			results[i] = connector.AlreadyCommitted
		default:
			p.committed = true
			r.mu.committed = append(r.mu.committed, p)
		}
	}
	return results, nil
}

func (c committer[T]) Abort(_ context.Context, cs []connector.Committable) error {
	r := c.records
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, cm := range cs {
		n, err := number(cm)
		if err != nil {
			return err
		}
		if p := r.mu.parts[n]; p != nil && !p.committed {
			delete(r.mu.parts, n)
		}
	}
	return nil
}

func (c committer[T]) AbortUnknown(_ context.Context, keep []connector.Committable) error {
	r := c.records
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := map[uint64]bool{}
	for _, cm := range keep {
		n, err := number(cm)
		if err != nil {
			return err
		}
		kept[n] = true
	}
	for n, p := range r.mu.parts {
		if !p.committed && !kept[n] && c.leftover(&p.task) {
			delete(r.mu.parts, n)
		}
	}
	return nil
}

// leftover reports whether t is an earlier attempt of the committer's own subtask.
func (c committer[T]) leftover(t *connector.Task) bool {
	older := cmp.Or(cmp.Compare(t.JobEpoch, c.task.JobEpoch), cmp.Compare(t.RegionEpoch, c.task.RegionEpoch)) < 0
	return older && t.Job == c.task.Job && t.Operator == c.task.Operator && t.Subtask%max(1, c.task.Parallelism) == c.task.Subtask
}

func (c committer[T]) Close() error { return nil }

// number is that of the part.
func number(cm connector.Committable) (uint64, error) {
	if len(cm.Data) != 8 {
		return 0, fmt.Errorf("committable of %d bytes is not from this sink", len(cm.Data))
	}
	return binary.BigEndian.Uint64(cm.Data), nil
}
