package flow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/operator/process"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/task"
)

// KeyedProcessor is an operator of your own with keyed state. A factory makes one per subtask, so its fields need no locks.
// Open declares state; it also runs when the plan is made and must open nothing: resources belong into OnStart.
type KeyedProcessor[K comparable, In, Out any] interface {
	Open(*Setup[K, Out]) error
	Process(*Ctx[K, Out], In) error
}

// Process runs one P per subtask, with state by key. OnError(Skip) drops a record for which P.Process fails, and undoes
// nothing that happened before the error.
func (k KeyedStream[K, T]) Process[Out any, P KeyedProcessor[K, T, Out]](factory func() P) Stream[Out] {
	open := func(set *process.KeySetup[K, Out]) (func(*process.KeyCtx[K, Out], T) error, error) {
		p := factory()
		if err := p.Open((*Setup[K, Out])(set)); err != nil {
			return nil, err
		}
		return func(c *process.KeyCtx[K, Out], v T) error { return p.Process((*Ctx[K, Out])(c), v) }, nil
	}
	p := k.s.end.p
	out, n := keyedUnary[K, T, Out](k, "process", func(n *node) task.Stage {
		return process.Keyed(k.key, open, p.processOptions(n))
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

// MapWithState is the short form of Process for one state value per key. name is that of the state.
func (k KeyedStream[K, T]) MapWithState[S, U any](name string, f func(c *Cell[K, S], v T, emit func(U)) error, opts ...StateOption) Stream[U] {
	p := k.s.end.p
	d := process.Declared{Name: name, Life: lifeOf(opts)}
	out, n := keyedUnary[K, T, U](k, "process", func(n *node) task.Stage {
		call := func(c *process.Cell[K, S], v T, emit func(U)) error { return f((*Cell[K, S])(c), v, emit) }
		return process.WithState(k.key, d, call, p.processOptions(n))
	})
	n.policy = true
	n.declare = append(n.declare, func(p *Pipeline) {
		describe[K](p, n, func(r *codec.Registry) ([]process.State, error) {
			return process.Describe(r, func(set *process.KeySetup[K, U]) error {
				set.Value[S](d.Name, d.Life)
				return nil
			})
		})
	})
	return out
}

// describe tells the graph which states n declares, and reports what is wrong with them. A wrong K has been reported.
func describe[K comparable](p *Pipeline, n *node, states func(*codec.Registry) ([]process.State, error)) {
	_, noCodec := codecOf[K](p)
	if _, err := codec.Hasher[K](); err != nil || noCodec != nil {
		return
	}
	p.describeStates(n, states)
}

func (p *Pipeline) describeStates(n *node, states func(*codec.Registry) ([]process.State, error)) {
	defer func() {
		if v := recover(); v != nil {
			p.fault("E043", panicPlace(), fmt.Sprintf("Open panicked while the plan was made: %v", v),
				"Open only declares; what needs a running task belongs into OnStart")
		}
	}()
	found, err := states(p.registry)
	if t, ok := errors.AsType[*codec.TypeError](err); ok {
		p.typeFault(n.op.Location, t)
		return
	}
	if err != nil {
		p.openFault(n, err)
		return
	}
	for _, s := range found {
		n.op.States = append(n.op.States, &jobpb.StateDeclaration{Kind: s.Kind, Name: s.Name, Schema: s.Schema, Flat: s.Flat})
	}
}

func (p *Pipeline) openFault(n *node, err error) {
	if wrong, ok := errors.AsType[*state.Error](err); ok {
		message := fmt.Sprintf("state %q of %s: %v", wrong.State, n.op.Id, wrong.Err)
		p.fault(wrong.Code, n.op.Location, message, "give each state and timer of an operator a name of its own, one type a time to live that is positive, and broadcast states to the processor of a ConnectBroadcast alone")
		return
	}
	p.fault("E047", n.op.Location, fmt.Sprintf("Open of %s returned an error while the plan was made: %v", n.op.Id, err),
		"Open only declares, each state under a name of its own; what can fail belongs into OnStart")
}

// Setup is where a KeyedProcessor declares its state. It is valid during Open. Names of states are part of what a
// snapshot says: they must not change.
type Setup[K comparable, Out any] process.KeySetup[K, Out]

func (s *Setup[K, Out]) set() *process.KeySetup[K, Out] { return (*process.KeySetup[K, Out])(s) }

// OnStart adds f, called before the first record of an attempt, to open resources.
func (s *Setup[K, Out]) OnStart(f func(*Task) error) { s.set().OnStart(f) }

// Counter declares a number that the operator counts and that the status of the job shows. It begins at zero in every attempt.
func (s *Setup[K, Out]) Counter(name string) *Counter { return s.set().Counter(name) }

// OnEnd adds f, called once per key with state, when all bounded inputs have ended. What it emits has the time MaxTime.
func (s *Setup[K, Out]) OnEnd(f func(*Ctx[K, Out]) error) {
	s.set().OnEnd(func(c *process.KeyCtx[K, Out]) error { return f((*Ctx[K, Out])(c)) })
}

// OnClose adds f, called when the attempt ends, in any way; the last one added is called first. An error or a panic of f is
// logged and changes nothing: what happened before decides about the attempt.
func (s *Setup[K, Out]) OnClose(f func() error) { s.set().OnClose(f) }

// Ctx is the context of one call of a KeyedProcessor, for one key, valid during the call.
type Ctx[K comparable, Out any] process.KeyCtx[K, Out]

func (c *Ctx[K, Out]) ctx() *process.KeyCtx[K, Out] { return (*process.KeyCtx[K, Out])(c) }

// Key is the key of the record in flight; state handles address its state.
func (c *Ctx[K, Out]) Key() K { return c.ctx().Key() }

// Emit emits v with the time of the record in flight.
func (c *Ctx[K, Out]) Emit(v Out) { c.ctx().Emit(v) }

// EmitAt emits v with the time t, which should be above the watermark: below it v may be late downstream.
func (c *Ctx[K, Out]) EmitAt(v Out, t Time) { c.ctx().EmitAt(v, t) }

// Side emits v to a side output, with the time of the record in flight. Without a reader it is dropped.
func (c *Ctx[K, Out]) Side[S any](tag Tag[S], v S) { c.ctx().Side(tag.name, v) }

// Timestamp is the event time of the record in flight.
func (c *Ctx[K, Out]) Timestamp() Time { return c.ctx().Timestamp() }

// Watermark promises that no record with a time at or below it follows.
func (c *Ctx[K, Out]) Watermark() Time { return c.ctx().Watermark() }

// Now is the clock of the machine. Results that depend on it differ when records are processed again.
func (c *Ctx[K, Out]) Now() time.Time { return c.ctx().Now() }

// Context ends when the attempt has to stop; what blocks must watch it.
func (c *Ctx[K, Out]) Context() context.Context { return c.ctx().Context() }

// Cell is the state of the current key, for MapWithState.
type Cell[K comparable, S any] process.Cell[K, S]

func (c *Cell[K, S]) cell() *process.Cell[K, S] { return (*process.Cell[K, S])(c) }

// Key is the key of the record in flight.
func (c *Cell[K, S]) Key() K { return c.cell().Key() }

// Ref is the state in place, the zero value at first. It is valid until the function returns.
func (c *Cell[K, S]) Ref() *S { return c.cell().Ref() }

// Exists reports whether the key has a state.
func (c *Cell[K, S]) Exists() bool { return c.cell().Exists() }

// Clear removes the state of the key.
func (c *Cell[K, S]) Clear() { c.cell().Clear() }
