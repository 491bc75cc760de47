package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/state/unkeyed"
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
type Setup[Out any] struct {
	hooks[*Ctx[Out]]
	declarations
	rt *task.Runtime // nil while the plan is made
}

// DescribeUnkeyed runs open as it is run at plan time.
func DescribeUnkeyed[Out any](r *codec.Registry, open func(*Setup[Out]) error) ([]State, error) {
	s := &Setup[Out]{declarations: declarations{registry: r}}
	if err := open(s); err != nil {
		return nil, err
	}
	return s.states, s.err
}

// table is how a state without keys is made.
func (s *Setup[Out]) table(name string) (state.Options, unkeyed.Groups) {
	if s.rt == nil {
		return state.Options{Table: name, MaxParallelism: describedGroups, Registry: s.registry}, unkeyed.Groups{First: 0, End: describedGroups}
	}
	return s.rt.Options(name, s.registry), unkeyed.Groups{First: s.rt.KeyGroups.First, End: s.rt.KeyGroups.End}
}

// keep makes t a table of the operator, or gives it back if there is none.
func (s *Setup[Out]) keep[V any](kind, name string, t state.Table, err error) {
	declared[V](&s.declarations, kind, name, t, err)
	switch {
	case err != nil:
	case s.rt != nil:
		s.rt.Keep(t)
	default:
		if err := t.Close(); err != nil && s.err == nil {
			s.err = err
		}
	}
}

// List declares a list whose elements are redistributed when the parallelism changes.
func (s *Setup[Out]) List[V any](name string) unkeyed.List[V] {
	o, own := s.table(name)
	l, err := unkeyed.NewList[V](o, own)
	s.keep[V]("operator list", name, l, err)
	return l
}

// Union declares a list that every subtask reads as a whole after a restore.
func (s *Setup[Out]) Union[V any](name string) *unkeyed.Union[V] {
	o, own := s.table(name)
	l, err := unkeyed.NewUnion[V](o, own)
	s.keep[V]("union list", name, l, err)
	return l
}

// Counter declares a counter of the operator, which is shown with the status of the job.
func (s *Setup[Out]) Counter(name string) *task.Count { return s.count(s.rt, name) }

// OnStart adds f, called before the first record of an attempt.
func (s *Setup[Out]) OnStart(f startFunc) { s.start = append(s.start, f) }

// OnEnd adds f, called when all bounded inputs have ended.
func (s *Setup[Out]) OnEnd(f func(*Ctx[Out]) error) { s.end = append(s.end, f) }

// OnClose adds f, called when the attempt ends, in any way.
func (s *Setup[Out]) OnClose(f func() error) { s.close = append(s.close, f) }

// Ctx is the context of one call.
type Ctx[Out any] struct {
	rt     *task.Runtime
	out    task.Push[Out]
	sides  sides
	unread func(side string, v any, at element.Time) // nil: it is dropped
}

// Emit emits v with the time of the record in flight.
func (c *Ctx[Out]) Emit(v Out) { c.out(v) }

// EmitAt emits v with the time t.
func (c *Ctx[Out]) EmitAt(v Out, t element.Time) { emitAt(c.rt, c.out, v, t) }

// Side emits v to the side output of this name, with the time of the record in flight.
func (c *Ctx[Out]) Side[S any](name string, v S) {
	if !side(c.rt, c.sides, name, v) && c.unread != nil {
		c.unread(name, v, c.rt.At)
	}
}

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
		s := Setup[Out]{rt: rt, declarations: declarations{registry: o.Registry}}
		f, err := open(&s)
		if err == nil {
			err = s.err
		}
		if err != nil {
			return nil, nil, fmt.Errorf("open: %w", err)
		}
		c := &Ctx[Out]{rt: rt, out: out, unread: o.Unread}
		if c.sides, err = o.open(rt); err != nil {
			return nil, nil, err
		}
		op := &processOperator[Out]{ctx: c, hooks: &s.hooks}
		if err := s.started(rt.Task); err != nil {
			return nil, op, err
		}
		failed, err := task.NewFailed[In](rt, o.policy())
		return func(v In) {
			if err := f(c, v); err != nil {
				failed(v, err, rt.Position())
			}
		}, op, err
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

// closed runs every OnClose, the last first, whatever the others return, and also if they panic.
func (h *hooks[C]) closed() error {
	var errs []error
	for i := len(h.close) - 1; i >= 0; i-- {
		errs = append(errs, task.Protect(h.close[i]))
	}
	h.close = nil
	return errors.Join(errs...)
}
