package process

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/ahead"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/state/handle"
	"github.com/sluiceio/sluice/worker/state/timer"
	"github.com/sluiceio/sluice/worker/task"
)

// KeyCtx is the context of one call for one key.
type KeyCtx[K comparable, Out any] struct {
	Ctx[Out]
	dir *state.Directory[K]
}

// Key is the key of the record in flight.
func (c *KeyCtx[K, Out]) Key() K { return c.dir.Key() }

// Keyed is the stage of a processor with keyed state.
func Keyed[K comparable, In, Out any](key func(In) K, open func(*KeySetup[K, Out]) (func(*KeyCtx[K, Out], In) error, error), o Options) task.StageOf[In, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		s, err := newKeySetup[K, Out](rt, o.Registry)
		if err != nil {
			return nil, nil, err
		}
		op := &keyedOperator[K, Out]{set: s}
		f, err := open(s)
		if err == nil {
			err = s.err
		}
		if err != nil {
			return nil, op, fmt.Errorf("open: %w", err)
		}
		if err := s.connect(out, o); err != nil {
			return nil, op, err
		}
		if err := s.started(rt.Task); err != nil {
			return nil, op, err
		}
		push, err := s.push(key, f, o)
		return push, op, err
	}
}

// connect tells the context where it emits to.
func (s *KeySetup[K, Out]) connect(out task.Push[Out], o Options) (err error) {
	s.ctx.out, s.ctx.unread = out, o.Unread
	s.ctx.sides, err = o.open(s.rt)
	return err
}

// push hands a record to f, with its key as the current one.
func (s *KeySetup[K, Out]) push[In any](key func(In) K, f func(*KeyCtx[K, Out], In) error, o Options) (task.Push[In], error) {
	c, dir, rt := s.ctx, s.dir, s.rt
	failed, err := task.NewKeyedFailed(rt, o.policy(), key)
	if err != nil {
		return nil, err
	}
	hash, err := codec.Hasher[K]()
	if err != nil {
		return nil, err
	}
	fault := dir.Fault() // what a call per record would cost is a tenth of a record
	next := ahead.Of(rt, key, hash, dir.Prefetch)
	return func(v In) {
		if !dir.SeekNext(next) {
			k := key(v)
			dir.Seek(k, hash(k))
		}
		if err := f(c, v); err != nil {
			failed(v, err, rt.Position())
		}
		if *fault != nil {
			rt.Fail(*fault)
		}
	}, nil
}

// keyedOperator drives the timers and the hooks of a processor with keyed state.
type keyedOperator[K comparable, Out any] struct {
	task.Base
	set *KeySetup[K, Out]
}

// OnWatermark fires the timers that are due, and runs OnEnd for every key at the end of the input: while emitting is
// still in time for everything downstream.
func (o *keyedOperator[K, Out]) OnWatermark(t element.Time) error {
	s := o.set
	if t != element.MaxTime {
		return s.timers.AdvanceEvents(t, s.rt.Stopped)
	}
	if err := s.timers.FinishEvents(s.rt.Stopped); err != nil || len(s.end) == 0 {
		return err
	}
	s.ending = true
	if err := s.dir.Each(func(K) error {
		s.rt.At = element.MaxTime
		if err := s.ended(s.ctx); err != nil {
			return err
		}
		return s.rt.Stopped()
	}); err != nil {
		return err
	}
	s.ending = false
	return nil
}

// Occasion is the timer that is called, or the key whose end it is. A deadline by the clock is another one on each attempt, and is
// left out.
func (o *keyedOperator[K, Out]) Occasion() string {
	s := o.set
	switch _, clock := s.handles[s.calls].(*ProcTimer); {
	case s.calls != "" && clock:
		return fmt.Sprintf("timer %s of %s, key %v", s.calls, s.rt.Task.Operator, s.dir.Key())
	case s.calls != "":
		return fmt.Sprintf("timer %s of %s at %v, key %v", s.calls, s.rt.Task.Operator, s.deadline, s.dir.Key())
	case s.ending:
		return fmt.Sprintf("the end of the input of %s, key %v", s.rt.Task.Operator, s.dir.Key())
	}
	return ""
}

// OnTime fires the timers by the clock that are due.
func (o *keyedOperator[K, Out]) OnTime(now time.Time) error {
	t := element.At(now)
	o.set.wake, o.set.earliest = element.MaxTime, t.Add(rest)
	err := o.set.timers.AdvanceProc(t, o.set.rt.Stopped)
	if o.set.earliest = element.MinTime; err != nil {
		return err
	}
	return o.OnRestored()
}

// OnRestored waits for the next deadline by the clock.
func (o *keyedOperator[K, Out]) OnRestored() error {
	if at, ok := o.set.timers.NextProc(); ok {
		o.set.await(at)
	}
	return o.set.dir.Err()
}

func (o *keyedOperator[K, Out]) Close() error {
	return errors.Join(o.set.closed(), o.set.timers.Close())
}

// Inspect makes k the current key and returns what was declared under a name, for harnesses; nil: nothing was.
func (o *keyedOperator[K, Out]) Inspect(k K, name string) any {
	o.set.dir.Seek(k, o.set.dir.Hash(k))
	return o.set.handles[name]
}

// Deadlines are those of all timers of a key, for harnesses, the earliest first.
func (o *keyedOperator[K, Out]) Deadlines(k K) (all []element.Time) {
	o.set.dir.Seek(k, o.set.dir.Hash(k))
	for _, h := range o.set.handles { // any order: they are sorted
		switch t := h.(type) {
		case *timer.Timer:
			if at, ok := t.At(); ok {
				all = append(all, at)
			}
		case *timer.Timers:
			all = slices.AppendSeq(all, t.All())
		case *ProcTimer:
			if at, ok := t.timer.At(); ok {
				all = append(all, at)
			}
		}
	}
	slices.Sort(all)
	return all
}

// Cell is the one value of the current key, for MapWithState.
type Cell[K comparable, S any] struct {
	dir   *state.Directory[K]
	value *handle.Value[S]
}

// Key is the key of the record in flight.
func (c *Cell[K, S]) Key() K { return c.dir.Key() }

// Ref is the value in place.
func (c *Cell[K, S]) Ref() *S { return c.value.Ref() }

// Exists reports whether the key has a value.
func (c *Cell[K, S]) Exists() bool { return c.value.Exists() }

// Clear removes the value.
func (c *Cell[K, S]) Clear() { c.value.Clear() }

// Declared is the name and the life of a state.
type Declared struct {
	Name string
	Life Life
}

// WithState is the stage of a function with one value per key.
func WithState[K comparable, S, In, Out any](key func(In) K, d Declared, f func(*Cell[K, S], In, func(Out)) error, o Options) task.StageOf[In, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		emit := (func(Out))(out)
		return Keyed(key, func(s *KeySetup[K, Out]) (func(*KeyCtx[K, Out], In) error, error) {
			c := &Cell[K, S]{dir: s.dir, value: s.Value[S](d.Name, d.Life)}
			return func(_ *KeyCtx[K, Out], v In) error { return f(c, v, emit) }, nil
		}, o)(rt, out)
	}
}
