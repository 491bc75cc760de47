package flow

import (
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/worker/operator/batch/aggregate"
	"github.com/sluiceio/sluice/worker/operator/process"
	"github.com/sluiceio/sluice/worker/task"
)

// Distinct emits each value once: the first record that has it, with the time of that record. T must be a type that can be a
// key. On unbounded input every value is kept in state for good, so there should be few of them.
func Distinct[T comparable](s Stream[T]) Stream[T] {
	out, n := keyedUnary[T, T, T](s.KeyBy(Self), "distinct", func(n *node) task.Stage {
		if n.op.Bounded {
			return aggregate.Distinct(Self[T], s.end.p.registry)
		}
		return process.WithState(Self[T], process.Declared{Name: "seen"}, firstOnly[T], s.end.p.processOptions(n))
	})
	n.op.OrderDependent = true // the time of the first record
	if n.op.Bounded {
		n.spills()
		n.op.Unordered = true
		return out
	}
	n.declare = append(n.declare, func(p *Pipeline) {
		describe[T](p, n, func(r *codec.Registry) ([]process.State, error) {
			return process.Describe(r, func(set *process.KeySetup[T, T]) error {
				set.Value[bool]("seen", process.Life{})
				return nil
			})
		})
	})
	return out
}

func firstOnly[T comparable](c *process.Cell[T, bool], v T, emit func(T)) error {
	if seen := c.Ref(); !*seen {
		*seen = true
		emit(v)
	}
	return nil
}
