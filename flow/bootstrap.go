package flow

import (
	"context"
	"fmt"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/worker/operator/process"
	"github.com/sluiceio/sluice/worker/task"
)

// BootstrapProcessor is a KeyedProcessor whose state is loaded from a bounded input before the first record of the other
// one is processed.
type BootstrapProcessor[K comparable, Init, In, Out any] interface {
	Open(*Setup[K, Out]) error
	// Load takes a record of the bounded input into the state of its key.
	Load(*LoadCtx[K], Init) error
	Process(*Ctx[K, Out], In) error
}

// LoadCtx is the context of one call of Load, for one key, valid during the call. It has nothing to emit to: what is loaded
// may be loaded again.
type LoadCtx[K comparable] process.LoadCtx[K]

func (c *LoadCtx[K]) ctx() *process.LoadCtx[K] { return (*process.LoadCtx[K])(c) }

// Key is the key of the record in flight; state handles address its state.
func (c *LoadCtx[K]) Key() K { return c.ctx().Key() }

// Timestamp is the event time of the record in flight.
func (c *LoadCtx[K]) Timestamp() Time { return c.ctx().Timestamp() }

// Context ends when the attempt has to stop; what blocks must watch it.
func (c *LoadCtx[K]) Context() context.Context { return c.ctx().Context() }

// Bootstrap runs one P per subtask, with state by key: first P.Load for all records of init, then P.Process for those of k.
// init must be bounded (E016), and its exchange is always blocking; k may be unbounded. Nothing of k is read, and no source
// in its region emits, before every subtask has loaded.
//
// OnError(Skip) drops a record for which P.Load or P.Process fails, and undoes nothing that happened before the error.
func (k KeyedStream[K, T]) Bootstrap[B, Out any, P BootstrapProcessor[K, B, T, Out]](init KeyedStream[K, B], factory func() P) Stream[Out] {
	p := k.s.end.p
	if !p.same(init.s.end.p, "bootstrap") {
		return derive[Out](p, p.add("bootstrap", k.s.end.edge()))
	}
	main, first := k.s.end.edge(), init.s.end.whole("bootstrap", "state is loaded from it")
	main.Phase, main.Gated = 1, true
	n := p.add("bootstrap", main, first)
	n.op.Stateful, n.policy = true, true
	spec := func() process.BootstrapSpec[K, B, T, Out] {
		return process.BootstrapSpec[K, B, T, Out]{
			InitKey: init.key, Key: k.key, Options: p.processOptions(n),
			Open: func(set *process.KeySetup[K, Out]) (process.BootstrapFuncs[K, B, T, Out], error) {
				return opened[K, B, T, Out](set, factory())
			},
		}
	}
	n.inputs = []input{
		keyedInput(k, func() task.Stage { st, _ := process.Bootstrap(spec()); return st }),
		keyedInput(init, func() task.Stage { _, st := process.Bootstrap(spec()); return st }),
	}
	n.declare = append(n.declare, func(p *Pipeline) {
		n.op.Detail = fmt.Sprintf("loads %s", init.s.end.n.op.Id) // under the id that it got meanwhile
		declareKey[K](p, main, k.where)
		declareKey[K](p, first, init.where)
		describe[K](p, n, func(r *codec.Registry) ([]process.State, error) {
			return process.Describe(r, func(set *process.KeySetup[K, Out]) error {
				_, err := spec().Open(set)
				return err
			})
		})
	})
	return derive[Out](p, n)
}

func opened[K comparable, Init, In, Out any, P BootstrapProcessor[K, Init, In, Out]](set *process.KeySetup[K, Out], p P) (f process.BootstrapFuncs[K, Init, In, Out], err error) {
	if err := p.Open((*Setup[K, Out])(set)); err != nil {
		return f, err
	}
	f.Load = func(c *process.LoadCtx[K], v Init) error { return p.Load((*LoadCtx[K])(c), v) }
	f.Process = func(c *process.KeyCtx[K, Out], v In) error { return p.Process((*Ctx[K, Out])(c), v) }
	return f, nil
}
