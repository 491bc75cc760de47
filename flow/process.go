package flow

import (
	"context"
	"iter"
	"time"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/worker/operator/process"
	"github.com/sluiceio/sluice/worker/state/unkeyed"
	"github.com/sluiceio/sluice/worker/task"
)

// Processor is an operator of your own. A factory makes one per subtask, so its fields need no locks. Open declares; it also
// runs when the plan is made and must open nothing: resources belong into OnStart.
type Processor[In, Out any] interface {
	Open(*OpSetup[Out]) error
	Process(*OpCtx[Out], In) error
}

// Process runs one P per subtask. OnError(Skip) drops a record for which P.Process fails, and undoes nothing that
// happened before the error.
func (s Stream[T]) Process[Out any, P Processor[T, Out]](factory func() P) Stream[Out] {
	open := func(set *process.Setup[Out]) (func(*process.Ctx[Out], T) error, error) {
		p := factory()
		if err := p.Open((*OpSetup[Out])(set)); err != nil {
			return nil, err
		}
		return func(c *process.Ctx[Out], v T) error { return p.Process((*OpCtx[Out])(c), v) }, nil
	}
	p := s.end.p
	out, n := unary[T, Out](s, "process", func(n *node) task.Stage { return process.Process(open, p.processOptions(n)) })
	n.policy = true
	n.declare = append(n.declare, func(p *Pipeline) {
		p.describeStates(n, func(r *codec.Registry) ([]process.State, error) {
			return process.DescribeUnkeyed(r, func(set *process.Setup[Out]) error {
				_, err := open(set)
				return err
			})
		})
		n.op.Stateful = len(n.op.States) > 0
	})
	return out
}

// OpSetup is where a Processor declares what it needs. It is valid during Open.
type OpSetup[Out any] process.Setup[Out]

// OperatorList declares a list of the subtask, which belongs to no key. Its elements are redistributed when the job is restored
// with another parallelism: each belongs to one subtask then.
func (s *OpSetup[Out]) OperatorList[V any](name string) OperatorList[V] {
	return OperatorList[V]{(*process.Setup[Out])(s).List[V](name)}
}

// UnionList declares a list of the subtask of which every subtask sees all parts, its own and those of the others as they were
// at the last restore.
func (s *OpSetup[Out]) UnionList[V any](name string) UnionList[V] {
	return UnionList[V]{(*process.Setup[Out])(s).Union[V](name)}
}

// OperatorList is a list of a subtask.
type OperatorList[V any] struct{ l unkeyed.List[V] }

// Add adds elements at the end.
func (s OperatorList[V]) Add(vs ...V) { s.l.Add(vs...) }

// All yields the elements in the order of adding.
func (s OperatorList[V]) All() iter.Seq[V] { return s.l.All() }

// Clear removes all elements.
func (s OperatorList[V]) Clear() { s.l.Clear() }

// UnionList is a list of a subtask that all of them read.
type UnionList[V any] struct{ l *unkeyed.Union[V] }

// Add adds elements at the end of the own part.
func (s UnionList[V]) Add(vs ...V) { s.l.Add(vs...) }

// All yields the elements that other subtasks had at the last restore, and then the own ones.
func (s UnionList[V]) All() iter.Seq[V] { return s.l.All() }

// Own yields the elements of this subtask.
func (s UnionList[V]) Own() iter.Seq[V] { return s.l.Own() }

// Clear removes the elements of this subtask.
func (s UnionList[V]) Clear() { s.l.Clear() }

// Counter declares a number that the operator counts and that the status of the job shows. It begins at zero in every attempt.
func (s *OpSetup[Out]) Counter(name string) *Counter { return (*process.Setup[Out])(s).Counter(name) }

// OnStart adds f, called before the first record of an attempt, to open resources.
func (s *OpSetup[Out]) OnStart(f func(*Task) error) { (*process.Setup[Out])(s).OnStart(f) }

// OnEnd adds f, called when all bounded inputs have ended. What it emits has the time MaxTime.
func (s *OpSetup[Out]) OnEnd(f func(*OpCtx[Out]) error) {
	(*process.Setup[Out])(s).OnEnd(func(c *process.Ctx[Out]) error { return f((*OpCtx[Out])(c)) })
}

// OnClose adds f, called when the attempt ends, in any way; the last one added is called first. An error or a panic of f is
// logged and changes nothing: what happened before decides about the attempt.
func (s *OpSetup[Out]) OnClose(f func() error) { (*process.Setup[Out])(s).OnClose(f) }

// OpCtx is the context of one call of a Processor, valid during the call.
type OpCtx[Out any] process.Ctx[Out]

// Emit emits v with the time of the record in flight.
func (c *OpCtx[Out]) Emit(v Out) { (*process.Ctx[Out])(c).Emit(v) }

// EmitAt emits v with the time t, which should be above the watermark: below it v may be late downstream.
func (c *OpCtx[Out]) EmitAt(v Out, t Time) { (*process.Ctx[Out])(c).EmitAt(v, t) }

// Side emits v to a side output, with the time of the record in flight. Without a reader it is dropped.
func (c *OpCtx[Out]) Side[S any](tag Tag[S], v S) { (*process.Ctx[Out])(c).Side(tag.name, v) }

// Timestamp is the event time of the record in flight.
func (c *OpCtx[Out]) Timestamp() Time { return (*process.Ctx[Out])(c).Timestamp() }

// Watermark promises that no record with a time at or below it follows.
func (c *OpCtx[Out]) Watermark() Time { return (*process.Ctx[Out])(c).Watermark() }

// Now is the clock of the machine. Results that depend on it differ when records are processed again.
func (c *OpCtx[Out]) Now() time.Time { return (*process.Ctx[Out])(c).Now() }

// Context ends when the attempt has to stop; what blocks must watch it.
func (c *OpCtx[Out]) Context() context.Context { return (*process.Ctx[Out])(c).Context() }
