package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/stateless"
	"github.com/sluiceio/sluice/worker/task"
)

type startFunc = func(*connector.Task) error

// hooks are what a processor declared besides its function for records.
type hooks[C any] struct {
	start []startFunc
	end   []func(C) error
	close []func() error
}

// Setup is where a processor without keys declares what it needs.
type Setup[Out any] struct{ hooks[*Ctx[Out]] }

// OnStart adds f, called before the first record of an attempt.
func (s *Setup[Out]) OnStart(f startFunc) { s.start = append(s.start, f) }

// OnEnd adds f, called when all bounded inputs have ended.
func (s *Setup[Out]) OnEnd(f func(*Ctx[Out]) error) { s.end = append(s.end, f) }

// OnClose adds f, called when the attempt ends, in any way.
func (s *Setup[Out]) OnClose(f func() error) { s.close = append(s.close, f) }

// Ctx is the context of one call.
type Ctx[Out any] struct {
	rt    *task.Runtime
	out   task.Push[Out]
	sides sides
}

// Emit emits v with the time of the record in flight.
func (c *Ctx[Out]) Emit(v Out) { c.out(v) }

// EmitAt emits v with the time t.
func (c *Ctx[Out]) EmitAt(v Out, t element.Time) { emitAt(c.rt, c.out, v, t) }

// Side emits v to the side output of this name, with the time of the record in flight.
func (c *Ctx[Out]) Side[S any](name string, v S) { side(c.rt, c.sides, name, v) }

// Timestamp is the time of the record in flight.
func (c *Ctx[Out]) Timestamp() element.Time { return c.rt.At }

// Watermark is the last watermark that the operator has seen.
func (c *Ctx[Out]) Watermark() element.Time { return c.rt.Watermark }

// Now is the clock.
func (c *Ctx[Out]) Now() time.Time { return c.rt.Now() }

// Context ends when the attempt has to stop.
func (c *Ctx[Out]) Context() context.Context { return c.rt.Ctx }

// Process is the stage of a processor without keys: open declares into the Setup and returns the function for records.
func Process[In, Out any](open func(*Setup[Out]) (func(*Ctx[Out], In) error, error), o Options) task.StageOf[In, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		var s Setup[Out]
		f, err := open(&s)
		if err != nil {
			return nil, nil, fmt.Errorf("open: %w", err)
		}
		c := &Ctx[Out]{rt: rt, out: out}
		if c.sides, err = o.open(rt); err != nil {
			return nil, nil, err
		}
		op := &processOperator[Out]{ctx: c, hooks: &s.hooks}
		if err := s.started(rt.Task); err != nil {
			return nil, op, err
		}
		failed := stateless.OnError(rt, o.OnError)
		return func(v In) {
			if err := f(c, v); err != nil {
				failed(err)
			}
		}, op, nil
	}
}

type processOperator[Out any] struct {
	task.Base
	ctx   *Ctx[Out]
	hooks *hooks[*Ctx[Out]]
}

// OnWatermark runs OnEnd at the end of the input: while emitting is still in time for everything downstream.
func (o *processOperator[Out]) OnWatermark(t element.Time) error {
	if t != element.MaxTime {
		return nil
	}
	o.ctx.rt.At = element.MaxTime
	return o.hooks.ended(o.ctx)
}

func (o *processOperator[Out]) Close() error { return o.hooks.closed() }

func (h *hooks[C]) started(t *connector.Task) error {
	for _, f := range h.start {
		if err := f(t); err != nil {
			return fmt.Errorf("start: %w", err)
		}
	}
	return nil
}

func (h *hooks[C]) ended(c C) error {
	for _, f := range h.end {
		if err := f(c); err != nil {
			return fmt.Errorf("end of input: %w", err)
		}
	}
	return nil
}

// closed runs every OnClose, the last first, whatever the others return.
func (h *hooks[C]) closed() error {
	var errs []error
	for i := len(h.close) - 1; i >= 0; i-- {
		errs = append(errs, h.close[i]())
	}
	h.close = nil
	return errors.Join(errs...)
}
