package flowtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/launch"
)

// Collected is a sink that keeps what the job has committed.
type Collected[T any] struct {
	id string

	mu struct {
		sync.Mutex
		prepared  map[string]part[T] // by name, until committed or aborted
		committed map[string]part[T]
	}
}

// part is what one attempt has prepared.
type part[T any] struct {
	subtask int
	batch   element.Batch[T]
}

// Sink makes To(id, …) write into the returned collection.
func Sink[T any](id string) *Collected[T] {
	c := &Collected[T]{id: id}
	c.empty()
	return c
}

// prepare forgets what an earlier run has left.
func (c *Collected[T]) prepare(p *flow.Pipeline, _ *launch.Embedding) {
	c.empty()
	p.ReplaceSink(c.id, flow.Sink[T](c))
}

func (c *Collected[T]) empty() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.prepared, c.mu.committed = map[string]part[T]{}, map[string]part[T]{}
}

// Values are the committed records: those of subtask 0 first, each subtask's in the order of writing.
func (c *Collected[T]) Values() []T {
	var all []T
	for _, p := range c.parts() {
		all = append(all, p.batch.Vals...)
	}
	return all
}

// Times are the event times of Values.
func (c *Collected[T]) Times() []flow.Time {
	var all []flow.Time
	for _, p := range c.parts() {
		all = append(all, p.batch.Times...)
	}
	return all
}

func (c *Collected[T]) parts() []part[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []part[T]
	for _, p := range c.mu.committed {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b part[T]) int { return cmp.Compare(a.subtask, b.subtask) })
	return all
}

// Guarantee is exactly-once: records of failed attempts are never committed.
func (c *Collected[T]) Guarantee() flow.Guarantee { return flow.ExactlyOnce }

// OpenWriter is called by the engine.
func (c *Collected[T]) OpenWriter(_ context.Context, t *flow.Task, _ [][]byte) (flow.Writer[T], error) {
	return &writer[T]{sink: c, task: t}, nil
}

// OpenCommitter is called by the engine.
func (c *Collected[T]) OpenCommitter(context.Context, *flow.Task) (connector.Committer, error) {
	return committer[T]{c}, nil
}

type writer[T any] struct {
	sink  *Collected[T]
	task  *flow.Task
	batch element.Batch[T]
}

func (w *writer[T]) Write(_ context.Context, v T, at flow.Time) error {
	w.batch.Append(v, at)
	return nil
}

func (w *writer[T]) Prepare(_ context.Context, id element.CheckpointID) ([]connector.Committable, error) {
	if w.batch.Len() == 0 {
		return nil, nil
	}
	name := fmt.Sprintf("%d/%d/%d", w.task.Subtask, w.task.Attempt, id)
	w.sink.mu.Lock()
	w.sink.mu.prepared[name] = part[T]{w.task.Subtask, w.batch}
	w.sink.mu.Unlock()
	w.batch = element.Batch[T]{}
	return []connector.Committable{{Subtask: w.task.Subtask, Checkpoint: id, Data: []byte(name)}}, nil
}

func (w *writer[T]) Flush(context.Context) error                   { return nil }
func (w *writer[T]) End(context.Context) error                     { return nil }
func (w *writer[T]) Snapshot(element.CheckpointID) ([]byte, error) { return nil, nil }
func (w *writer[T]) Close() error                                  { return nil }

type committer[T any] struct{ sink *Collected[T] }

func (c committer[T]) Commit(_ context.Context, cs []connector.Committable) ([]connector.CommitResult, error) {
	c.sink.mu.Lock()
	defer c.sink.mu.Unlock()
	results := make([]connector.CommitResult, len(cs))
	for i, x := range cs {
		name := string(x.Data)
		p, prepared := c.sink.mu.prepared[name]
		_, done := c.sink.mu.committed[name]
		switch {
		case prepared:
			c.sink.mu.committed[name] = p
			delete(c.sink.mu.prepared, name)
		case done:
			results[i] = connector.AlreadyCommitted
		default:
			results[i] = connector.Lost
		}
	}
	return results, nil
}

func (c committer[T]) Abort(_ context.Context, cs []connector.Committable) error {
	c.sink.mu.Lock()
	defer c.sink.mu.Unlock()
	for _, x := range cs {
		delete(c.sink.mu.prepared, string(x.Data))
	}
	return nil
}

func (c committer[T]) AbortUnknown(context.Context, []connector.Committable) error { return nil }
func (c committer[T]) Close() error                                                { return nil }
