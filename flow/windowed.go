package flow

import (
	"fmt"
	"time"

	"github.com/sluiceio/sluice/flow/window"
	winop "github.com/sluiceio/sluice/worker/operator/window"
	"github.com/sluiceio/sluice/worker/task"
)

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

func (w WindowSpec) String() string {
	if w.offset == 0 {
		return fmt.Sprintf("tumbling %v", w.size)
	}
	return fmt.Sprintf("tumbling %v, offset %v", w.size, w.offset)
}

// Window groups the records of a key by event time.
func (k KeyedStream[K, T]) Window(spec WindowSpec) WindowedStream[K, T] {
	return WindowedStream[K, T]{k: k, spec: spec}
}

// WindowedStream is a keyed stream divided into windows, to be aggregated. A window is emitted when the watermark has
// reached its last instant; records that come later are counted and dropped, or go to the side output of LateTo.
type WindowedStream[K comparable, T any] struct {
	k    KeyedStream[K, T]
	spec WindowSpec
	late string // name of the side output
}

// LateTo gives late records to a side output, read by SideOutput(tag) on the aggregated stream.
func (w WindowedStream[K, T]) LateTo(tag Tag[T]) WindowedStream[K, T] {
	w.late = tag.name
	return w
}

// Count counts the records of each key and window.
func (w WindowedStream[K, T]) Count() Stream[Windowed[K, int64]] {
	return windowed(w, "count", winop.Aggregation[K, T, int64, Windowed[K, int64]]{
		Add:    func(acc *int64, _ T) { *acc++ },
		Result: func(k K, win Window, acc *int64) Windowed[K, int64] { return Windowed[K, int64]{k, win, *acc} },
	})
}

// Fold folds the records of each key and window into an accumulator, which f may change in place and returns.
func (w WindowedStream[K, T]) Fold[A any](zero func() A, f func(acc A, v T) A) Stream[Windowed[K, A]] {
	return windowed(w, "fold", winop.Aggregation[K, T, A, Windowed[K, A]]{
		New:    zero,
		Add:    func(acc *A, v T) { *acc = f(*acc, v) },
		Result: func(k K, win Window, acc *A) Windowed[K, A] { return Windowed[K, A]{k, win, *acc} },
	})
}

// Aggregate is Fold with a separate result. A is a constraint, not an interface, so that the compiler names the missing
// or wrong method.
func (w WindowedStream[K, T]) Aggregate[Acc, Out any, A Aggregator[T, Acc, Out]](a A) Stream[Windowed[K, Out]] {
	return windowed(w, "aggregate", winop.Aggregation[K, T, Acc, Windowed[K, Out]]{
		New:    a.New,
		Add:    func(acc *Acc, v T) { *acc = a.Add(*acc, v) },
		Result: func(k K, win Window, acc *Acc) Windowed[K, Out] { return Windowed[K, Out]{k, win, a.Result(*acc)} },
	})
}

// Aggregator folds records into an accumulator and makes a result of it. It is shared by all subtasks of a process and must
// not change itself.
type Aggregator[In, Acc, Out any] interface {
	New() Acc
	// Add may change acc in place and returns it.
	Add(acc Acc, v In) Acc
	// Merge combines the accumulators of two parts of the same window.
	Merge(a, b Acc) Acc
	Result(acc Acc) Out
}

func windowed[K comparable, T, Acc, R any](w WindowedStream[K, T], kind string, a winop.Aggregation[K, T, Acc, R]) Stream[R] {
	p := w.k.s.p
	spec, err := window.NewTumbling(w.spec.size, w.spec.offset)
	if err != nil {
		p.fault("E018", caller(), err.Error(), "use flow.Tumbling with a size of at least a microsecond")
	}
	out, n := keyedUnary[K, T, R](w.k, "window."+kind, func(*node) task.Stage {
		a.Key, a.LateOutput = w.k.key, w.late
		return winop.Tumbling(spec, a)
	})
	n.op.Detail = w.spec.String()
	declare[Acc](n, "window", "acc")
	if w.late != "" {
		sideOutput[T](p, n, w.late)
	}
	return out
}
