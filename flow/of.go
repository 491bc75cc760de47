package flow

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
)

// Values is a bounded source of the values given, in one split: every process of the job has them from its own build.
func Values[T any](vs ...T) Source[T] { return values[T](vs) }

type values[T any] []T

var _ Source[int] = values[int]{}

func (v values[T]) String() string {
	if len(v) == 1 {
		return "1 value"
	}
	return fmt.Sprintf("%d values", len(v))
}

// Bounded: always.
func (v values[T]) Bounded() bool { return true }

func (v values[T]) OpenEnumerator(context.Context, int, []byte) (Enumerator, error) {
	return &oneSplit{}, nil
}

func (v values[T]) OpenReader(context.Context, *Task) (Reader[T], error) {
	return &valuesReader[T]{vs: v}, nil
}

// valuesSplit is the split of all values, of which next were delivered.
func valuesSplit(next int) Split {
	return Split{ID: "values", Version: 1, Data: binary.AppendUvarint(nil, uint64(next))}
}

// oneSplit finds a single split.
type oneSplit struct{ found bool }

func (e *oneSplit) Next(context.Context) ([]Split, error) {
	if e.found {
		return nil, io.EOF
	}
	e.found = true
	return []Split{valuesSplit(0)}, io.EOF
}

func (e *oneSplit) Snapshot(element.CheckpointID) ([]byte, error) { return nil, nil }
func (e *oneSplit) Close() error                                  { return nil }

type valuesReader[T any] struct {
	vs   []T
	open bool // the split is assigned and not finished
	next int
}

// Assign opens the split where its data says: at the beginning, or behind the last record of a snapshot.
func (r *valuesReader[T]) Assign(splits []Split) error {
	for _, s := range splits {
		next, n := binary.Uvarint(s.Data)
		if s.Version != 1 || n <= 0 || n != len(s.Data) || next > uint64(len(r.vs)) {
			return Fatal(fmt.Errorf("split %q: version %d, position %x of %d values", s.ID, s.Version, s.Data, len(r.vs)))
		}
		r.next, r.open = int(next), true
	}
	return nil
}

func (r *valuesReader[T]) Poll(_ context.Context, out *Records[T]) error {
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

func (r *valuesReader[T]) Describe(_ connector.SplitIndex, pos int64) string {
	return fmt.Sprintf("value %d", pos)
}

func (r *valuesReader[T]) Snapshot(element.CheckpointID) ([]Split, error) {
	if !r.open {
		return nil, nil
	}
	return []Split{valuesSplit(r.next)}, nil
}

func (r *valuesReader[T]) Committed(context.Context, element.CheckpointID) error { return nil }
func (r *valuesReader[T]) Close() error                                          { return nil }
