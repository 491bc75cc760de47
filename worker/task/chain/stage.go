package chain

import (
	"fmt"
	"reflect"
)

// Push is the typed inside of a chain: a call hands over one record, whose event time is Cursor.At. It returns when
// every operator of the chain behind it is done with the record.
type Push[T any] func(v T)

// Stage is the typed part of one input of an operator, erased.
type Stage interface {
	// Build makes the operator of one subtask and the Push of this input. out is where it emits to: nil (nobody
	// listens), a Push of its output type, or a []any of several. in is a Push of its input type.
	//
	// An operator with several inputs has a stage for each; they are built with one Runtime, in order, and get the
	// same out. The loop drives the Operator that the first one returns; Shared lets the others find it.
	Build(rt *Runtime, out any) (in any, op Operator, err error)
}

// StageOf is a Stage by a typed function. It is called once per attempt and input, on the goroutine of the subtask,
// and is the place to open resources; Operator.Close releases them.
type StageOf[In, Out any] func(rt *Runtime, out Push[Out]) (Push[In], Operator, error)

// Build asserts the types of this joint of the chain, once.
func (s StageOf[In, Out]) Build(rt *Runtime, out any) (any, Operator, error) {
	push, err := Output[Out](rt, out)
	if err != nil {
		return nil, nil, err
	}
	in, op, err := s(rt, push)
	if err != nil {
		return nil, op, err
	}
	return in, op, nil
}

// Output is the one typed Push behind what Stage.Build gets.
func Output[T any](rt *Runtime, out any) (Push[T], error) {
	switch o := out.(type) {
	case nil:
		return func(T) {}, nil
	case Push[T]:
		return o, nil
	case []any:
		return fanOut[T](rt, o)
	}
	return nil, Mismatch[T](out)
}

// Mismatch is the error of a joint whose two sides differ in type.
func Mismatch[T any](out any) error {
	return fmt.Errorf("the operator emits %v, its consumer is a %T", reflect.TypeFor[T](), out)
}

// fanOut hands each record to several consumers, in order. It notes which one is at work, for Chain.Blame.
func fanOut[T any](rt *Runtime, outs []any) (Push[T], error) {
	pushes := make([]Push[T], len(outs))
	for i, o := range outs {
		p, ok := o.(Push[T])
		if !ok {
			return nil, Mismatch[T](o)
		}
		pushes[i] = p
	}
	switch len(pushes) {
	case 0:
		return func(T) {}, nil
	case 1:
		return pushes[0], nil
	case 2:
		a, b := pushes[0], pushes[1]
		return func(v T) {
			rt.branch = 0
			a(v)
			rt.branch = 1
			b(v)
		}, nil
	}
	return func(v T) {
		for i, p := range pushes {
			rt.branch = i
			p(v)
		}
	}, nil
}
