package either

import "github.com/sluiceio/sluice/worker/task"

// Of is a record of the left or of the right input.
type Of[A, B any] struct {
	Left    A // the zero value, if the record is of the right
	Right   B
	IsRight bool
}

// Key is a function of the key of either side.
func Key[A, B any, K comparable](left func(A) K, right func(B) K) func(Of[A, B]) K {
	return func(v Of[A, B]) K {
		if v.IsRight {
			return right(v.Right)
		}
		return left(v.Left)
	}
}

// Stages are the two inputs of an operator, in this order.
func Stages[A, B, Out any](stage task.StageOf[Of[A, B], Out]) (left task.StageOf[A, Out], right task.StageOf[B, Out]) {
	type built struct {
		push task.Push[Of[A, B]]
		op   task.Operator
	}
	shared := func(rt *task.Runtime, out task.Push[Out]) (*built, error) {
		return task.Shared(rt, func() (*built, error) {
			push, op, err := stage(rt, out)
			return &built{push, op}, err
		})
	}
	left = func(rt *task.Runtime, out task.Push[Out]) (task.Push[A], task.Operator, error) {
		b, err := shared(rt, out)
		if err != nil {
			return nil, nil, err
		}
		return func(v A) { b.push(Of[A, B]{Left: v}) }, b.op, nil
	}
	right = func(rt *task.Runtime, out task.Push[Out]) (task.Push[B], task.Operator, error) {
		b, err := shared(rt, out)
		if err != nil {
			return nil, nil, err
		}
		return func(v B) { b.push(Of[A, B]{Right: v, IsRight: true}) }, b.op, nil
	}
	return left, right
}
