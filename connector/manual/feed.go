package manual

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
)

// Feed is a source of one split whose records are pushed.
type Feed[T any] struct {
	bounded bool

	mu struct {
		sync.Mutex
		items []item[T]
		ended bool
		// changed is closed, and replaced, when there is more.
		changed chan struct{}
	}
}

// item is a record, or a promise that none at or below at follows.
type item[T any] struct {
	v    T
	at   element.Time
	kind itemKind
}

type itemKind uint8

const (
	record itemKind = iota
	promise
)

func newFeed[T any]() *Feed[T] {
	f := &Feed[T]{}
	f.mu.changed = make(chan struct{})
	return f
}

// Push adds a record. It is an error after End.
func (f *Feed[T]) Push(v T, at element.Time) error { return f.add(item[T]{v: v, at: at}) }

// Watermark promises that no record with a time at or below at follows.
func (f *Feed[T]) Watermark(at element.Time) error { return f.add(item[T]{at: at, kind: promise}) }

func (f *Feed[T]) add(i item[T]) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.ended {
		return fmt.Errorf("the source has ended")
	}
	f.mu.items = append(f.mu.items, i)
	f.wake()
	return nil
}

// End says that no record follows. It may be repeated.
func (f *Feed[T]) End() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.ended = true
	f.wake()
}

// wake tells readers of a change. The lock is held.
func (f *Feed[T]) wake() {
	close(f.mu.changed)
	f.mu.changed = make(chan struct{})
}

// after are the items from a position on, whether there will be more, and a channel that is closed when there are.
func (f *Feed[T]) after(next int) (items []item[T], ended bool, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.items[next:], f.mu.ended, f.mu.changed
}

// Bounded is as the source that it stands for.
func (f *Feed[T]) Bounded() bool { return f.bounded }

// String is the detail that a plan shows.
func (f *Feed[T]) String() string { return "by hand" }

// OpenEnumerator finds the one split.
func (f *Feed[T]) OpenEnumerator(context.Context, int, []byte) (connector.Enumerator, error) {
	return &oneSplit{splits: []connector.Split{splitAt(0)}}, nil
}

// OpenReader reads what was pushed and what will be.
func (f *Feed[T]) OpenReader(context.Context, *connector.Task) (connector.Reader[T], error) {
	return &reader[T]{feed: f}, nil
}

const splitVersion = 1

// splitAt is the split, of which next items were delivered.
func splitAt(next int) connector.Split {
	return connector.Split{ID: "pushed", Version: splitVersion, Data: binary.AppendUvarint(nil, uint64(next))}
}

func decode(s connector.Split, most int) (int, error) {
	next, n := binary.Uvarint(s.Data)
	if s.Version != splitVersion || n <= 0 || n != len(s.Data) || next > uint64(most) {
		return 0, connector.Fatal(fmt.Errorf("split %q: version %d, position %x of %d", s.ID, s.Version, s.Data, most))
	}
	return int(next), nil
}

type oneSplit struct{ splits []connector.Split }

func (e *oneSplit) Next(context.Context) (splits []connector.Split, err error) {
	splits, e.splits = e.splits, nil
	return splits, io.EOF
}

func (e *oneSplit) Snapshot(element.CheckpointID) ([]byte, error) { return nil, nil }
func (e *oneSplit) Close() error                                  { return nil }

type reader[T any] struct {
	feed *Feed[T]
	open bool // the split is assigned and not finished
	next int
}

func (r *reader[T]) Assign(splits []connector.Split) error {
	for _, s := range splits {
		items, _, _ := r.feed.after(0)
		next, err := decode(s, len(items))
		if err != nil {
			return err
		}
		r.next, r.open = next, true
	}
	return nil
}

func (r *reader[T]) Poll(ctx context.Context, out *connector.Records[T]) error {
	for r.open {
		items, ended, changed := r.feed.after(r.next)
		if r.deliver(items, out) || len(items) > 0 {
			return nil
		}
		if ended {
			r.open = false
			out.Finish(0)
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
	return io.EOF
}

// deliver adds items up to the first promise, which ends a poll. It reports whether there is more.
func (r *reader[T]) deliver(items []item[T], out *connector.Records[T]) bool {
	for _, i := range items {
		if out.Full() {
			return true
		}
		if i.kind == promise {
			out.Mark(0, i.at)
			r.next++
			return true
		}
		out.Add(0, i.v, i.at, int64(r.next))
		r.next++
	}
	return false
}

func (r *reader[T]) Describe(_ connector.SplitIndex, pos int64) string {
	return fmt.Sprintf("item %d of those pushed", pos)
}

func (r *reader[T]) Snapshot(element.CheckpointID) ([]connector.Split, error) {
	if !r.open {
		return nil, nil
	}
	return []connector.Split{splitAt(r.next)}, nil
}

func (r *reader[T]) Committed(context.Context, element.CheckpointID) error { return nil }
func (r *reader[T]) Close() error                                          { return nil }
