package flow

import (
	"iter"
	"slices"

	"github.com/sluiceio/sluice/worker/operator/either"
	winop "github.com/sluiceio/sluice/worker/operator/window"
	"github.com/sluiceio/sluice/worker/task"
)

// CoGroup calls f with all records of both streams of each key and window, which are kept until then; a window that has records
// of one stream only is among them. as and bs may be ranged over more than once, while f runs. A result has the time of the
// last instant of its window. An error of f fails the attempt.
func (k KeyedStream[K, T]) CoGroup[B, R any](o KeyedStream[K, B], w WindowSpec, f func(w Win[K], as iter.Seq[T], bs iter.Seq[B], emit func(R)) error) Stream[R] {
	return coGrouped(k, o, "cogroup", w, f)
}

// WindowJoin calls f for each pair of records of equal keys that are in one window, in each window that they share. f may emit
// any number of results, which have the time of the last instant of the window.
func (k KeyedStream[K, T]) WindowJoin[B, R any](o KeyedStream[K, B], w WindowSpec, f func(T, B, func(R))) Stream[R] {
	return coGrouped(k, o, "windowjoin", w, func(_ Win[K], as iter.Seq[T], bs iter.Seq[B], emit func(R)) error {
		right := slices.Collect(bs)
		if len(right) == 0 {
			return nil
		}
		for a := range as {
			for _, b := range right {
				f(a, b, emit)
			}
		}
		return nil
	})
}

// coGrouped adds an operator that keeps the records of both inputs by window.
func coGrouped[K comparable, T, B, R any](k KeyedStream[K, T], o KeyedStream[K, B], kind string, w WindowSpec, f func(Win[K], iter.Seq[T], iter.Seq[B], func(R)) error) Stream[R] {
	type both = either.Of[T, B]
	p := k.s.end.p
	stage, err := winop.Keep(w, nil, winop.Gathering[K, both, R]{
		Key: either.Key(k.key, o.key), Registry: p.registry,
		Each: func(key K, g winop.Firing, vs iter.Seq[both], emit func(R)) error {
			return f(Win[K]{key, g.Window, g.Pane}, lefts(vs), rights(vs), emit)
		},
	})
	if err != nil {
		p.fault("E018", caller(), err.Error(), "use durations of at least a microsecond")
	}
	out, n := paired[K, T, B, R](k, o, kind, func(*node) (task.Stage, task.Stage) {
		a, b := either.Stages(stage)
		return a, b
	})
	n.op.Detail = w.String()
	n.op.Nondeterministic = w.Timing() == winop.ByClock
	declare[both](n, "window", "records")
	return out
}

func lefts[T, B any](vs iter.Seq[either.Of[T, B]]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range vs {
			if !v.IsRight && !yield(v.Left) {
				return
			}
		}
	}
}

func rights[T, B any](vs iter.Seq[either.Of[T, B]]) iter.Seq[B] {
	return func(yield func(B) bool) {
		for v := range vs {
			if v.IsRight && !yield(v.Right) {
				return
			}
		}
	}
}
