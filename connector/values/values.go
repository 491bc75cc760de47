package values

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
)

// Slice is a bounded source of its elements, in one split, in order.
type Slice[T any] []T

var _ connector.Source[int] = Slice[int]{}

// String is the detail that a plan shows.
func (v Slice[T]) String() string {
	if len(v) == 1 {
		return "1 value"
	}
	return fmt.Sprintf("%d values", len(v))
}

// Bounded: always.
func (v Slice[T]) Bounded() bool { return true }

// OpenEnumerator finds the one split.
func (v Slice[T]) OpenEnumerator(context.Context, int, []byte) (connector.Enumerator, error) {
	return &oneSplit{}, nil
}

// OpenReader reads the elements that this process has.
func (v Slice[T]) OpenReader(context.Context, *connector.Task) (connector.Reader[T], error) {
	return &reader[T]{vs: v}, nil
}

// split is the split of all values, of which next were delivered.
func split(next int) connector.Split {
	return connector.Split{ID: "values", Version: 1, Data: binary.AppendUvarint(nil, uint64(next))}
}

// oneSplit finds a single split.
type oneSplit struct{ found bool }

func (e *oneSplit) Next(context.Context) ([]connector.Split, error) {
	if e.found {
		return nil, io.EOF
	}
	e.found = true
	return []connector.Split{split(0)}, io.EOF
}

func (e *oneSplit) Snapshot(element.CheckpointID) ([]byte, error) { return nil, nil }
func (e *oneSplit) Close() error                                  { return nil }

type reader[T any] struct {
	vs   []T
	open bool // the split is assigned and not finished
	next int
}

// Assign opens the split where its data says: at the beginning, or behind the last record of a snapshot.
func (r *reader[T]) Assign(splits []connector.Split) error {
	for _, s := range splits {
		next, n := binary.Uvarint(s.Data)
		if s.Version != 1 || n <= 0 || n != len(s.Data) || next > uint64(len(r.vs)) {
			return connector.Fatal(fmt.Errorf("split %q: version %d, position %x of %d values", s.ID, s.Version, s.Data, len(r.vs)))
		}
		r.next, r.open = int(next), true
	}
	return nil
}

func (r *reader[T]) Poll(_ context.Context, out *connector.Records[T]) error {
	for r.open && r.next < len(r.vs) {
		if out.Full() {
			return nil
		}
		out.Add(0, r.vs[r.next], 0, int64(r.next))
		r.next++
	}
	if r.open {
		r.open = false
		out.Finish(0)
	}
	return io.EOF
}

func (r *reader[T]) Describe(_ connector.SplitIndex, pos int64) string {
	return fmt.Sprintf("value %d", pos)
}

func (r *reader[T]) Snapshot(element.CheckpointID) ([]connector.Split, error) {
	if !r.open {
		return nil, nil
	}
	return []connector.Split{split(r.next)}, nil
}

func (r *reader[T]) Committed(context.Context, element.CheckpointID) error { return nil }
func (r *reader[T]) Close() error                                          { return nil }
