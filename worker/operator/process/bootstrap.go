package process

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/task"
)

// InitInput is the input of a Bootstrap that state is loaded from; the other one is 0.
const InitInput = 1

// BootstrapFuncs are what a bootstrap processor does with the records of its two inputs.
type BootstrapFuncs[K comparable, Init, In, Out any] struct {
	Load    func(*LoadCtx[K], Init) error
	Process func(*KeyCtx[K, Out], In) error
}

// BootstrapSpec is how the two inputs are keyed, and how a processor is opened.
type BootstrapSpec[K comparable, Init, In, Out any] struct {
	InitKey func(Init) K
	Key     func(In) K
	Open    func(*KeySetup[K, Out]) (BootstrapFuncs[K, Init, In, Out], error)
	Options Options
}

// LoadCtx is the context of one call of Load. It has nothing to emit to: what is loaded may be loaded again.
type LoadCtx[K comparable] struct {
	rt  *task.Runtime
	dir *state.Directory[K]
}

// Key is the key of the record in flight.
func (c *LoadCtx[K]) Key() K { return c.dir.Key() }

// Timestamp is the time of the record in flight.
func (c *LoadCtx[K]) Timestamp() element.Time { return c.rt.At }

// Context ends when the attempt has to stop.
func (c *LoadCtx[K]) Context() context.Context { return c.rt.Ctx }

// Bootstrap makes the stages of a processor whose state is loaded from one input before the other one is processed: that of
// the records, input 0, which has to be gated, and that of the bounded init, InitInput.
func Bootstrap[K comparable, Init, In, Out any](s BootstrapSpec[K, Init, In, Out]) (task.StageOf[In, Out], task.StageOf[Init, Out]) {
	type operator = bootstrap[K, Init, In, Out]
	shared := func(rt *task.Runtime, out task.Push[Out]) (*operator, error) {
		return task.Shared(rt, func() (*operator, error) { return openBootstrap(s, rt, out) })
	}
	process := func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		o, err := shared(rt, out)
		if err != nil {
			return nil, nil, err
		}
		push, err := o.process(s)
		if err != nil {
			return nil, o, err
		}
		return push, o, o.start()
	}
	load := func(rt *task.Runtime, out task.Push[Out]) (task.Push[Init], task.Operator, error) {
		o, err := shared(rt, out)
		if err != nil {
			return nil, nil, err
		}
		push, err := o.load(s)
		if err != nil {
			return nil, o, err
		}
		return push, o, o.start()
	}
	return process, load
}

type bootstrap[K comparable, Init, In, Out any] struct {
	keyedOperator[K, Out]
	funcs   BootstrapFuncs[K, Init, In, Out]
	started bool
	loaded  bool
}

func openBootstrap[K comparable, Init, In, Out any](s BootstrapSpec[K, Init, In, Out], rt *task.Runtime, out task.Push[Out]) (*bootstrap[K, Init, In, Out], error) {
	set, err := newKeySetup[K, Out](rt, s.Options.Registry)
	if err != nil {
		return nil, err
	}
	funcs, err := s.Open(set)
	if err == nil {
		err = set.err
	}
	if err != nil {
		return nil, fmt.Errorf("open: %w", errors.Join(err, set.timers.Close()))
	}
	if err := set.connect(out, s.Options); err != nil {
		return nil, err
	}
	return &bootstrap[K, Init, In, Out]{keyedOperator: keyedOperator[K, Out]{set: set}, funcs: funcs}, nil
}

// start calls what OnStart has added, once for both inputs. The operator exists already, so that it is closed if that fails.
func (o *bootstrap[K, Init, In, Out]) start() error {
	if o.started {
		return nil
	}
	o.started = true
	return o.set.started(o.set.rt.Task)
}

// errNotLoaded is a record that has come past the gate: a fault of the engine, which must not be mistaken for a result.
var errNotLoaded = errors.New("a record came before the state was loaded")

func (o *bootstrap[K, Init, In, Out]) process(s BootstrapSpec[K, Init, In, Out]) (task.Push[In], error) {
	rt := o.set.rt
	push, err := o.set.push(s.Key, o.funcs.Process, s.Options)
	return func(v In) {
		if !o.loaded {
			rt.Fail(connector.Fatal(errNotLoaded))
			return
		}
		push(v)
	}, err
}

func (o *bootstrap[K, Init, In, Out]) load(s BootstrapSpec[K, Init, In, Out]) (task.Push[Init], error) {
	rt := o.set.rt
	c := &LoadCtx[K]{rt, o.set.dir}
	load := func(_ *KeyCtx[K, Out], v Init) error { return o.funcs.Load(c, v) }
	return o.set.push(s.InitKey, load, s.Options)
}

// Reloads implements task.Reloader: until everything is loaded, no record has come and no timer is set, so that the tables hold
// nothing but what Load has put there.
func (o *bootstrap[K, Init, In, Out]) Reloads() {}

// OnInputEnd lets records pass when the state is loaded.
func (o *bootstrap[K, Init, In, Out]) OnInputEnd(input int) error {
	o.loaded = o.loaded || input == InitInput
	return nil
}
