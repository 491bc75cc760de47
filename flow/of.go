package flow

import (
	"context"

	"github.com/sluiceio/sluice/connector/function"
	"github.com/sluiceio/sluice/connector/values"
	"github.com/sluiceio/sluice/worker/operator/stateless"
	"github.com/sluiceio/sluice/worker/task"
)

// SliceSource is a bounded source of its elements, in one split, in order: every process of the job has them from its own build.
type SliceSource[T any] = values.Slice[T]

// Values is the SliceSource of its arguments.
func Values[T any](vs ...T) Source[T] { return SliceSource[T](vs) }

// PollFunc is an unbounded source of what f returns, read by one subtask: f(start), then f of the offset that it has returned,
// and so on. The offset is the position that is restored. f may block until there is something or its context ends; if it returns
// no records it is left alone for a while, up to a second. io.EOF ends the source, any other error fails the attempt.
//
// After a failure f is called again with an offset of before, and must return again what it has returned for that, and may return
// more.
func PollFunc[T, Off any](start Off, f func(ctx context.Context, off Off) (vs []T, next Off, err error)) Source[T] {
	return function.Poll(start, f)
}

// PollAll is PollFunc for an input that is known to end with io.EOF: a bounded source.
func PollAll[T, Off any](start Off, f func(ctx context.Context, off Off) (vs []T, next Off, err error)) Source[T] {
	return function.PollAll(start, f)
}

// SinkFunc is a sink that hands records to f by the batch, at least ten times a second while there are some. It is at-least-once:
// after a failure f may be called for the same records again. f is called by several subtasks at once and must not keep vs.
func SinkFunc[T any](f func(ctx context.Context, vs []T) error) Sink[T] { return function.Sink(f) }

// Entries makes pairs of records and their keys.
func Entries[K comparable, T any, R interface{ KV[K, T] }](k KeyedStream[K, T]) Stream[R] {
	n := k.s.end.p.add("entries", k.s.end.edge())
	n.inputs = []input{keyedInput(k, func() task.Stage { return stateless.Map(func(v T) R { return pair[K, T, R](k.key(v), v) }) })}
	n.declare = append(n.declare, func(p *Pipeline) { declareKey[K](p, n.op.Inputs[0], k.where) })
	return derive[R](k.s.end.p, n)
}
