package stateless

import (
	"iter"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
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
		return tryMap(rt, out, f, p)
	}
}

// MapWith is TryMap with a function of the subtask's own.
func MapWith[In, Out any](open func(*connector.Task) (func(In) (Out, error), error), p task.ErrorPolicy) task.StageOf[In, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		f, err := open(rt.Task)
		if err != nil {
			return nil, nil, err
		}
		return tryMap(rt, out, f, p)
	}
}

func tryMap[In, Out any](rt *task.Runtime, out task.Push[Out], f func(In) (Out, error), p task.ErrorPolicy) (task.Push[In], task.Operator, error) {
	failed, err := task.NewFailed[In](rt, p)
	return func(v In) {
		u, err := f(v)
		if err != nil && p.Retries > 0 {
			err = p.Again(rt, err, func() (err error) {
				u, err = f(v)
				return err
			})
		}
		if err != nil {
			failed(v, err, rt.Position())
			return
		}
		out(u)
	}, task.Base{}, err
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

// TryFlatMap emits what f emits; p decides about the records for which f fails. What f had emitted stays emitted, unless p
// tries again: then only what the last try emits counts, and nothing of a record that has failed for good.
func TryFlatMap[In, Out any](f func(In, func(Out)) error, p task.ErrorPolicy) task.StageOf[In, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		failed, err := task.NewFailed[In](rt, p)
		emit := (func(Out))(out)
		if p.Retries > 0 {
			return patient(rt, f, p, out, failed), task.Base{}, err
		}
		return func(v In) {
			if err := f(v, emit); err != nil {
				failed(v, err, rt.Position())
			}
		}, task.Base{}, err
	}
}

// patient holds what a try emits until it has not failed.
func patient[In, Out any](rt *task.Runtime, f func(In, func(Out)) error, p task.ErrorPolicy, out task.Push[Out], failed task.Failed[In]) task.Push[In] {
	var held []Out
	hold := func(u Out) { held = append(held, u) }
	return func(v In) {
		try := func() error {
			clear(held)
			held = held[:0]
			return f(v, hold)
		}
		err := try()
		if err != nil {
			err = p.Again(rt, err, try)
		}
		if err != nil {
			failed(v, err, rt.Position())
			return
		}
		for _, u := range held {
			out(u)
		}
	}
}

// Timed emits f of each record and its time.
func Timed[In, Out any](f func(In, element.Time) Out) task.StageOf[In, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		return func(v In) { out(f(v, rt.At)) }, task.Base{}, nil
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
