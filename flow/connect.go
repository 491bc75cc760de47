package flow

import (
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/operator/either"
	"github.com/sluiceio/sluice/worker/operator/process"
	"github.com/sluiceio/sluice/worker/task"
)

// CoProcessor is a KeyedProcessor with two inputs, A and B, which share the state and the timers of a key.
type CoProcessor[K comparable, A, B, Out any] interface {
	Open(*Setup[K, Out]) error
	ProcessA(*Ctx[K, Out], A) error
	ProcessB(*Ctx[K, Out], B) error
}

// Connected is a pair of keyed streams with one type of key, to be processed together.
type Connected[K comparable, A, B any] struct {
	a     KeyedStream[K, A]
	b     KeyedStream[K, B]
	where string
}

// Connect brings two streams together whose records share state by key.
func (k KeyedStream[K, T]) Connect[B any](o KeyedStream[K, B]) Connected[K, T, B] {
	return Connected[K, T, B]{a: k, b: o, where: caller()}
}

// Process runs one P per subtask, with state by key. The order between the two inputs is not defined, except that stored
// ones are read one after the other, A first. The watermark is the lower one of both.
//
// OnError(Skip) drops a record for which P.ProcessA or P.ProcessB fails, and undoes nothing that happened before the error.
func (c Connected[K, A, B]) Process[Out any, P CoProcessor[K, A, B, Out]](factory func() P) Stream[Out] {
	type both = either.Of[A, B]
	p := c.a.s.end.p
	open := func(set *process.KeySetup[K, Out]) (func(*process.KeyCtx[K, Out], both) error, error) {
		p := factory()
		if err := p.Open((*Setup[K, Out])(set)); err != nil {
			return nil, err
		}
		return func(c *process.KeyCtx[K, Out], v both) error {
			if v.IsRight {
				return p.ProcessB((*Ctx[K, Out])(c), v.Right)
			}
			return p.ProcessA((*Ctx[K, Out])(c), v.Left)
		}, nil
	}
	out, n := paired[K, A, B, Out](c.a, c.b, "coprocess", func(n *node) (task.Stage, task.Stage) {
		a, b := either.Stages(process.Keyed(either.Key(c.a.key, c.b.key), open, p.processOptions(n)))
		return a, b
	})
	n.policy = true
	n.declare = append(n.declare, func(p *Pipeline) {
		describe[K](p, n, func(r *codec.Registry) ([]process.State, error) {
			return process.Describe(r, func(set *process.KeySetup[K, Out]) error {
				_, err := open(set)
				return err
			})
		})
	})
	return out
}

// paired adds a stateful operator behind two edges keyed alike; stages makes its typed parts when the graph is complete.
func paired[K comparable, A, B, Out any](a KeyedStream[K, A], b KeyedStream[K, B], kind string, stages func(n *node) (task.Stage, task.Stage)) (Stream[Out], *node) {
	p := a.s.end.p
	if !p.same(b.s.end.p, kind) {
		n := p.add(kind, a.s.end.edge())
		return derive[Out](p, n), n
	}
	n := p.add(kind, a.s.end.edge(), b.s.end.edge())
	n.op.Stateful = true
	n.inputs = []input{
		keyedInput(a, func() task.Stage { st, _ := stages(n); return st }),
		keyedInput(b, func() task.Stage { _, st := stages(n); return st }),
	}
	n.declare = append(n.declare, func(p *Pipeline) {
		declareKey[K](p, n.op.Inputs[0], a.where)
		declareKey[K](p, n.op.Inputs[1], b.where)
	})
	return derive[Out](p, n), n
}

// BroadcastProcessor is a KeyedProcessor with a second input that every subtask gets in full: rules, for example. That
// input alone writes broadcast state, and all subtasks must write the same: ProcessBroadcast depends on its records and on
// broadcast state, and on nothing else.
type BroadcastProcessor[K comparable, In, R, Out any] interface {
	Open(*Setup[K, Out]) error
	Process(*Ctx[K, Out], In) error
	ProcessBroadcast(*BroadcastCtx, R) error
}

// BroadcastCtx is the context of one call of ProcessBroadcast, valid during the call. It has no key, no clock and nothing to
// emit to, because every subtask makes the same call.
type BroadcastCtx = process.BroadcastCtx

// BroadcastState is a map that is the same in every subtask. Get, All and, with the context of ProcessBroadcast, Put and
// Delete.
type BroadcastState[MK comparable, V any] struct{ *process.Rules[MK, V] }

// Broadcast declares a map that ProcessBroadcast writes and Process reads: for processors behind ConnectBroadcast.
func (s *Setup[K, Out]) Broadcast[MK comparable, V any](name string) BroadcastState[MK, V] {
	return BroadcastState[MK, V]{s.set().Broadcast[MK, V](name)}
}

// BroadcastConnected is a keyed stream together with one whose records go to every subtask.
type BroadcastConnected[K comparable, T, R any] struct {
	k KeyedStream[K, T]
	b Stream[R]
}

// ConnectBroadcast brings a keyed stream together with one whose records every subtask gets.
func (k KeyedStream[K, T]) ConnectBroadcast[R any](b Stream[R]) BroadcastConnected[K, T, R] {
	return BroadcastConnected[K, T, R]{k: k, b: Stream[R]{end: b.end.partitioned("ConnectBroadcast", jobpb.Partitioner_PARTITIONER_BROADCAST)}}
}

// Process runs one P per subtask, with state by key and broadcast state. The order between the two inputs is not defined,
// except that the broadcast one is read first if both are stored; to load rules before anything else, use Bootstrap.
//
// OnError(Skip) drops a record for which P.Process fails, and undoes nothing that happened before the error. An error of
// P.ProcessBroadcast fails the attempt: a subtask that skipped a rule would differ from the others.
func (c BroadcastConnected[K, T, R]) Process[Out any, P BroadcastProcessor[K, T, R, Out]](factory func() P) Stream[Out] {
	const kind = "broadcastprocess"
	p := c.k.s.end.p
	if !p.same(c.b.end.p, kind) {
		return derive[Out](p, p.add(kind, c.k.s.end.edge()))
	}
	open := func(set *process.KeySetup[K, Out]) (f process.BroadcastFuncs[K, T, R, Out], err error) {
		p := factory()
		if err := p.Open((*Setup[K, Out])(set)); err != nil {
			return f, err
		}
		f.Process = func(c *process.KeyCtx[K, Out], v T) error { return p.Process((*Ctx[K, Out])(c), v) }
		f.Broadcast = p.ProcessBroadcast
		return f, nil
	}
	keyed, rules := c.k.s.end.edge(), c.b.end.edge()
	n := p.add(kind, keyed, rules)
	if n.op.Bounded {
		keyed.Phase = 1
	}
	n.op.Stateful, n.policy = true, true
	spec := func() process.BroadcastSpec[K, T, R, Out] {
		return process.BroadcastSpec[K, T, R, Out]{Key: c.k.key, Open: open, Options: p.processOptions(n)}
	}
	n.inputs = []input{
		keyedInput(c.k, func() task.Stage { st, _ := process.Broadcast(spec()); return st }),
		inputOf(c.b, func() task.Stage { _, st := process.Broadcast(spec()); return st }),
	}
	n.declare = append(n.declare, func(p *Pipeline) {
		declareKey[K](p, keyed, c.k.where)
		describe[K](p, n, func(r *codec.Registry) ([]process.State, error) {
			return process.DescribeBroadcast(r, func(set *process.KeySetup[K, Out]) error {
				_, err := open(set)
				return err
			})
		})
	})
	return derive[Out](p, n)
}
