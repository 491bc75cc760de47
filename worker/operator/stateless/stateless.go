package stateless

import (
	"iter"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/worker/task"
)

// Map emits f of each record.
func Map[In, Out any](f func(In) Out) task.StageOf[In, Out] {
	return func(_ *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		return func(v In) { out(f(v)) }, task.Base{}, nil
	}
}

// TryMap emits f of each record; p decides about those for which f fails.
func TryMap[In, Out any](f func(In) (Out, error), p task.ErrorPolicy) task.StageOf[In, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		return tryMap(rt, out, f, p), task.Base{}, nil
	}
}

// MapWith is TryMap with a function of the subtask's own.
func MapWith[In, Out any](open func(*connector.Task) (func(In) (Out, error), error), p task.ErrorPolicy) task.StageOf[In, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		f, err := open(rt.Task)
		if err != nil {
			return nil, nil, err
		}
		return tryMap(rt, out, f, p), task.Base{}, nil
	}
}

func tryMap[In, Out any](rt *task.Runtime, out task.Push[Out], f func(In) (Out, error), p task.ErrorPolicy) task.Push[In] {
	failed := OnError(rt, p)
	return func(v In) {
		u, err := f(v)
		if err != nil {
			failed(err)
			return
		}
		out(u)
	}
}

// OnError is what an error policy does with the error of a record. A fatal error is skipped by none.
func OnError(rt *task.Runtime, p task.ErrorPolicy) func(error) {
	if p != task.SkipOnError {
		return rt.Fail
	}
	return func(err error) {
		if connector.IsFatal(err) {
			rt.Fail(err)
			return
		}
		rt.Skip(err)
	}
}

// Filter emits the records for which f is true.
func Filter[T any](f func(T) bool) task.StageOf[T, T] {
	return func(_ *task.Runtime, out task.Push[T]) (task.Push[T], task.Operator, error) {
		return func(v T) {
			if f(v) {
				out(v)
			}
		}, task.Base{}, nil
	}
}

// FlatMap emits what f emits.
func FlatMap[In, Out any](f func(In, func(Out))) task.StageOf[In, Out] {
	return func(_ *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		emit := (func(Out))(out)
		return func(v In) { f(v, emit) }, task.Base{}, nil
	}
}

// TryFlatMap emits what f emits; p decides about the records for which f fails. What f had emitted stays emitted.
func TryFlatMap[In, Out any](f func(In, func(Out)) error, p task.ErrorPolicy) task.StageOf[In, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		failed, emit := OnError(rt, p), (func(Out))(out)
		return func(v In) {
			if err := f(v, emit); err != nil {
				failed(err)
			}
		}, task.Base{}, nil
	}
}

// FlatMapSeq emits the values of the sequence that f makes of each record.
func FlatMapSeq[In, Out any](f func(In) iter.Seq[Out]) task.StageOf[In, Out] {
	return func(_ *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		yield := func(u Out) bool { // one for the life of the subtask: a range statement would make one per record
			out(u)
			return true
		}
		return func(v In) { f(v)(yield) }, task.Base{}, nil
	}
}

// Peek shows each record to f and emits it.
func Peek[T any](f func(T)) task.StageOf[T, T] {
	return func(_ *task.Runtime, out task.Push[T]) (task.Push[T], task.Operator, error) {
		return func(v T) {
			f(v)
			out(v)
		}, task.Base{}, nil
	}
}

// Pass emits each record as it is: one input of a union.
func Pass[T any]() task.StageOf[T, T] {
	return func(_ *task.Runtime, out task.Push[T]) (task.Push[T], task.Operator, error) {
		return out, task.Base{}, nil
	}
}
