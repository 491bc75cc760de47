package flow

import "time"

// WindowSpec says which windows a record belongs to.
type WindowSpec struct {
	size, offset time.Duration
}

// Tumbling windows are size long, adjacent, and aligned to the epoch; Offset moves them.
func Tumbling(size time.Duration) WindowSpec { return WindowSpec{size: size} }

// Offset moves the windows by d, as for days that begin at a local midnight.
func (w WindowSpec) Offset(d time.Duration) WindowSpec {
	w.offset = d
	return w
}

// WindowedStream is a keyed stream divided into windows, to be aggregated. A window is emitted when the watermark has
// reached its end; records that come later are counted and dropped.
type WindowedStream[K comparable, T any] struct {
	k    KeyedStream[K, T]
	spec WindowSpec
}

func windowed[K comparable, T, R any](w WindowedStream[K, T], kind string) Stream[R] {
	return derive[R](w.k.s.p, w.k.s.p.add("window."+kind, w.k.s.edge()))
}

// Count counts the records of each key and window.
func (w WindowedStream[K, T]) Count() Stream[Windowed[K, int64]] {
	return windowed[K, T, Windowed[K, int64]](w, "count")
}

// Fold folds the records of each key and window into an accumulator. f may change acc in place and return it.
func (w WindowedStream[K, T]) Fold[A any](zero func() A, f func(acc A, v T) A) Stream[Windowed[K, A]] {
	return windowed[K, T, Windowed[K, A]](w, "fold")
}

// Aggregate is Fold with a separate result. A is a constraint, not an interface, so that the compiler names the missing
// or wrong method.
func (w WindowedStream[K, T]) Aggregate[Acc, Out any, A Aggregator[T, Acc, Out]](a A) Stream[Windowed[K, Out]] {
	return windowed[K, T, Windowed[K, Out]](w, "aggregate")
}

// Aggregator folds records into an accumulator and makes a result of it. It is shared by all subtasks of a process and must
// not change itself.
type Aggregator[In, Acc, Out any] interface {
	New() Acc
	// Add may change acc in place and return it.
	Add(acc Acc, v In) Acc
	// Merge combines the accumulators of two parts of the same window.
	Merge(a, b Acc) Acc
	Result(acc Acc) Out
}
