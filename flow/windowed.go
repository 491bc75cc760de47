package flow

import (
	"fmt"
	"iter"
	"slices"
	"time"

	winop "github.com/sluiceio/sluice/worker/operator/window"
	"github.com/sluiceio/sluice/worker/task"
)

// WindowSpec says which windows a record belongs to: by its time and aligned to the epoch, unless its methods ProcessingTime and
// Offset say otherwise.
type WindowSpec = winop.Spec

// Tumbling windows are size long, adjacent, and aligned to the epoch; Offset moves them.
func Tumbling(size time.Duration) WindowSpec { return winop.TumblingSpec(size) }

// Sliding windows are size long, and one begins every slide: a record is in size/slide of them, and costs the same whatever
// their number. Aligned to the epoch; Offset moves them.
func Sliding(size, slide time.Duration) WindowSpec { return winop.SlidingSpec(size, slide) }

// Session windows gather the records of a key that are no more than gap apart: a session ends gap after its last record.
func Session(gap time.Duration) WindowSpec { return winop.SessionSpec(gap) }

// GlobalWindow is one window for all time. It fires at the end of bounded input, or when a trigger says so; what it holds is
// kept until a trigger purges it.
func GlobalWindow() WindowSpec { return winop.GlobalSpec() }

// Win is a window of one key, as functions of a window see it.
type Win[K comparable] struct {
	Key K
	Window
	// Pane counts the results of the window: 0 is the first one, which is the one on time unless a trigger fires earlier; late
	// records make more.
	Pane int
}

// Window groups the records of a key by time.
func (k KeyedStream[K, T]) Window[_ OnCall](spec WindowSpec) WindowedStream[K, T] {
	return WindowedStream[K, T]{k: k, spec: spec, where: caller()}
}

// WindowedStream is a keyed stream divided into windows, to be aggregated. A window is emitted, with the time of its last
// instant, when the watermark has reached that. A record is late when every window that it belongs to has been emitted and
// AllowedLateness is over: it is counted and dropped, or goes to the side output of LateTo.
type WindowedStream[K comparable, T any] struct {
	k        KeyedStream[K, T]
	spec     WindowSpec
	lateness time.Duration
	late     string                                    // name of the side output
	trigger  func(by winop.Timing) winop.Trigger[K, T] // nil: windows fire at their end
	fires    string                                    // the trigger, for people
	where    string
}

// AllowedLateness lets a window take records for d after its end. Each makes it fire again, with all its records; state is
// kept for so long.
func (w WindowedStream[K, T]) AllowedLateness(d time.Duration) WindowedStream[K, T] {
	if d < 0 {
		w.k.s.end.p.fault("E018", caller(), fmt.Sprintf("the allowed lateness is %v", d), "use a duration that is zero or positive")
	}
	w.lateness = d
	return w
}

// LateTo gives late records to a side output, read by SideOutput(tag) on the aggregated stream.
func (w WindowedStream[K, T]) LateTo(tag Tag[T]) WindowedStream[K, T] {
	w.late = tag.name
	return w
}

// Count counts the records of each key and window.
func (w WindowedStream[K, T]) Count[R interface{ Windowed[K, int64] }]() Stream[R] {
	return windowed(w, "count", winop.Aggregation[K, T, int64, R]{
		Add:    func(acc *int64, _ T) { *acc++ },
		Merge:  func(a, b int64) int64 { return a + b },
		Result: func(k K, f winop.Firing, acc *int64) R { return R(Windowed[K, int64]{k, f.Window, *acc}) },
	})
}

// Fold folds the records of each key and window into an accumulator, which f may change in place and returns. merge combines
// the accumulators of two parts of a window, and may change and return the first.
func (w WindowedStream[K, T]) Fold[A any, R interface{ Windowed[K, A] }](zero func() A, f func(acc A, v T) A, merge func(a, b A) A) Stream[R] {
	clone := cloner[A](w.k.s.end.p)
	return windowed(w, "fold", winop.Aggregation[K, T, A, R]{
		New:   zero,
		Add:   func(acc *A, v T) { *acc = f(*acc, v) },
		Merge: merge,
		Clone: clone,
		Result: func(k K, f winop.Firing, acc *A) R {
			return R(Windowed[K, A]{k, f.Window, *acc})
		},
	})
}

// Reduce combines the records of each key and window pairwise; f must not change its arguments. The result has the type
// of the records; ReduceTo adds key and window.
func (w WindowedStream[K, T]) Reduce[_ OnCall](f func(a, b T) T) Stream[T] {
	return w.ReduceTo(f, func(_ Win[K], v T) T { return v })
}

// ReduceTo is Reduce with a function of the result and its window.
func (w WindowedStream[K, T]) ReduceTo[R any](f func(a, b T) T, out func(w Win[K], v T) R) Stream[R] {
	join := func(a, b Opt[T]) Opt[T] {
		switch {
		case !a.OK:
			return b
		case !b.OK:
			return a
		}
		return Some(f(a.Value, b.Value))
	}
	return windowed(w, "reduce", winop.Aggregation[K, T, Opt[T], R]{
		Add:    func(acc *Opt[T], v T) { *acc = join(*acc, Some(v)) },
		Merge:  join,
		Result: func(k K, f winop.Firing, acc *Opt[T]) R { return out(Win[K]{k, f.Window, f.Pane}, acc.Value) },
	})
}

// Aggregate is Fold with a separate result. A is a constraint, not an interface, so that the compiler names the missing
// or wrong method.
func (w WindowedStream[K, T]) Aggregate[Acc, Out any, A Aggregator[T, Acc, Out], R interface{ Windowed[K, Out] }](a A) Stream[R] {
	return windowed(w, "aggregate", winop.Aggregation[K, T, Acc, R]{
		New:   a.New,
		Add:   func(acc *Acc, v T) { *acc = a.Add(*acc, v) },
		Merge: a.Merge,
		Clone: cloner[Acc](w.k.s.end.p),
		Result: func(k K, f winop.Firing, acc *Acc) R {
			return R(Windowed[K, Out]{k, f.Window, a.Result(*acc)})
		},
	})
}

// Aggregator folds records into an accumulator and makes a result of it. It is shared by all subtasks of a process and must
// not change itself.
type Aggregator[In, Acc, Out any] interface {
	New() Acc
	// Add may change acc in place and returns it.
	Add(acc Acc, v In) Acc
	// Merge combines the accumulators of two parts of the same window, a before b. It may change a in place and returns the
	// result, which may keep what b leads to.
	Merge(a, b Acc) Acc
	// Result must not change acc: the window may fire again.
	Result(acc Acc) Out
}

// Apply calls f with all records of each key and window, which are kept until then; a record of overlapping windows is kept
// once, unless there is a trigger. vs may be ranged over more than once, while f runs. The order of records within a window is that
// of their arrival, by pane. An error of f fails the attempt.
func (w WindowedStream[K, T]) Apply[R any](f func(w Win[K], vs iter.Seq[T], emit func(R)) error) Stream[R] {
	return gathered(w, "apply", func(k K, g winop.Firing, vs iter.Seq[T], emit func(R)) error {
		return f(Win[K]{k, g.Window, g.Pane}, vs, emit)
	})
}

// Collect gathers the records of each key and window into a slice.
func Collect[K comparable, T any, R interface{ Windowed[K, []T] }](w WindowedStream[K, T]) Stream[R] {
	return gathered(w, "collect", func(k K, g winop.Firing, vs iter.Seq[T], emit func(R)) error {
		emit(R(Windowed[K, []T]{k, g.Window, slices.Collect(vs)}))
		return nil
	})
}

func windowed[K comparable, T, Acc, R any](w WindowedStream[K, T], kind string, a winop.Aggregation[K, T, Acc, R]) Stream[R] {
	p := w.k.s.end.p
	a.Key, a.LateOutput, a.Lateness = w.k.key, w.late, allowed(w.lateness)
	a.Registry = p.registry
	stage, err := winop.Aggregate(w.spec, w.trigger, a)
	out, n := windowNode[R](w, kind, stage, err)
	declare[Acc](n, "window", "acc")
	return out
}

func gathered[K comparable, T, R any](w WindowedStream[K, T], kind string, each func(K, winop.Firing, iter.Seq[T], func(R)) error) Stream[R] {
	g := winop.Gathering[K, T, R]{
		Key: w.k.key, Each: each, Lateness: allowed(w.lateness), LateOutput: w.late, Registry: w.k.s.end.p.registry,
	}
	stage, err := winop.Keep(w.spec, w.trigger, g)
	out, n := windowNode[R](w, kind, stage, err)
	declare[T](n, "window", "records")
	return out
}

func allowed(lateness time.Duration) Time { return Time(lateness.Microseconds()) }

// windowNode adds the operator to the graph.
func windowNode[R any, K comparable, T any](w WindowedStream[K, T], kind string, stage task.Stage, err error) (Stream[R], *node) {
	p := w.k.s.end.p
	if err != nil {
		p.fault("E018", w.where, err.Error(), "use durations of at least a microsecond")
	}
	out, n := keyedUnary[K, T, R](w.k, "window."+kind, func(*node) task.Stage { return stage })
	n.op.Detail = w.spec.String()
	if w.lateness > 0 {
		n.op.Detail += fmt.Sprintf(", lateness %v", w.lateness)
	}
	if w.fires != "" {
		n.op.Detail += ", " + w.fires
	}
	n.op.Nondeterministic = w.spec.Timing() == winop.ByClock || w.fires == earlyFires
	if w.late != "" {
		sideOutput[T](p, n, w.late)
	}
	return out, n
}

// PerWindow brings the results of one window together, whatever their keys: for what is best or most in a window. It closes
// with the window, so it adds no delay.
func PerWindow[K comparable, V any](s Stream[Windowed[K, V]]) WindowedStream[Window, Windowed[K, V]] {
	// A result has the time of the last instant of its window, and nothing else of the window has another.
	return s.KeyBy(func(w Windowed[K, V]) Window { return w.Window }).Window(Tumbling(time.Microsecond))
}
