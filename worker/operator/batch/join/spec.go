package join

import (
	"errors"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/worker/task"
)

// Side is one of the two inputs. The operator's input 0 is Left, input 1 is Right.
type Side int

const (
	Left Side = iota
	Right
)

// Spec is what a join does with records L and R of equal keys.
type Spec[K comparable, L, R, Out any] struct {
	LeftKey  func(L) K
	RightKey func(R) K
	// Match is called for each pair of equal keys. It may emit any number of records.
	Match func(l L, r R, emit func(Out))
	// LeftOnly is called for each record without a partner; nil: it is dropped. RightOnly is the same for the other side.
	LeftOnly  func(l L, emit func(Out))
	RightOnly func(r R, emit func(Out))
	// Build is the side that is kept in memory: the smaller one. It makes no difference to the result.
	Build Side
	// Registry holds the codecs of the pipeline; nil: none.
	Registry *codec.Registry
}

// Stages are the inputs of the join, Left and Right.
//
// A pair is emitted with the later of the two event times, and a record without partner with its own.
func Stages[K comparable, L, R, Out any](s Spec[K, L, R, Out]) (task.StageOf[L, Out], task.StageOf[R, Out]) {
	left := func(*task.Runtime, task.Push[Out]) (task.Push[L], task.Operator, error) {
		return nil, nil, errors.ErrUnsupported
	}
	right := func(*task.Runtime, task.Push[Out]) (task.Push[R], task.Operator, error) {
		return nil, nil, errors.ErrUnsupported
	}
	return left, right
}
