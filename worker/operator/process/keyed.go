package process

import (
	"fmt"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/stateless"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/task"
)

// State is what a processor has declared, for the graph.
type State struct {
	Kind, Name, Schema string
	Flat               bool
}

// KeySetup is where a processor with keyed state declares what it needs.
type KeySetup[K comparable, Out any] struct {
	hooks[*KeyCtx[K, Out]]
	dir      *state.Directory[K]
	registry *codec.Registry
	states   []State
	err      error  // the first declaration that cannot be
	ruled    *ruled // nil: there is no broadcast input
}

func newKeySetup[K comparable, Out any](maxParallelism int, r *codec.Registry) (*KeySetup[K, Out], error) {
	dir, err := state.NewDirectory[K](state.Options{MaxParallelism: maxParallelism, Registry: r})
	if err != nil {
		return nil, err
	}
	return &KeySetup[K, Out]{dir: dir, registry: r}, nil
}

// Describe runs open as it is run at plan time: on a directory that no record will reach.
func Describe[K comparable, Out any](r *codec.Registry, open func(*KeySetup[K, Out]) error) ([]State, error) {
	s, err := newKeySetup[K, Out](1, r)
	if err != nil {
		return nil, err
	}
	if err := open(s); err != nil {
		return nil, err
	}
	return s.states, s.err
}

// declared records a state; a fault is kept until open has returned, because handles are returned without error.
func declared[V any, K comparable, Out any](s *KeySetup[K, Out], kind, name string, err error) {
	if err != nil {
		if s.err == nil {
			s.err = err
		}
		return
	}
	c, err := codec.Of[V](s.registry)
	if err != nil {
		s.err = err
		return
	}
	s.states = append(s.states, State{Kind: kind, Name: name, Schema: c.Schema(), Flat: c.Flat()})
}

// Value declares one value per key.
func (s *KeySetup[K, Out]) Value[V any](name string) *state.Value[V] {
	v, err := state.ValueOf[V](s.dir, name)
	declared[V](s, "value", name, err)
	return v
}

// List declares a list per key.
func (s *KeySetup[K, Out]) List[V any](name string) *state.List[V] {
	l, err := state.ListOf[V](s.dir, name)
	declared[V](s, "list", name, err)
	return l
}

// Map declares a map per key.
func (s *KeySetup[K, Out]) Map[MK comparable, V any](name string) *state.Map[MK, V] {
	m, err := state.MapOf[MK, V](s.dir, name)
	declared[V](s, "map", name, err)
	return m
}

// OnStart adds f, called before the first record of an attempt.
func (s *KeySetup[K, Out]) OnStart(f startFunc) { s.start = append(s.start, f) }

// OnEnd adds f, called once per key with state when all bounded inputs have ended.
func (s *KeySetup[K, Out]) OnEnd(f func(*KeyCtx[K, Out]) error) { s.end = append(s.end, f) }

// OnClose adds f, called when the attempt ends, in any way.
func (s *KeySetup[K, Out]) OnClose(f func() error) { s.close = append(s.close, f) }

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
		s, err := newKeySetup[K, Out](rt.MaxParallelism, o.Registry)
		if err != nil {
			return nil, nil, err
		}
		f, err := open(s)
		if err == nil {
			err = s.err
		}
		if err != nil {
			return nil, nil, fmt.Errorf("open: %w", err)
		}
		c := &KeyCtx[K, Out]{Ctx: Ctx[Out]{rt: rt, out: out}, dir: s.dir}
		if c.sides, err = o.open(rt); err != nil {
			return nil, nil, err
		}
		op := &keyedOperator[K, Out]{ctx: c, hooks: &s.hooks}
		if err := s.started(rt.Task); err != nil {
			return nil, op, err
		}
		failed := stateless.OnError(rt, o.OnError)
		return func(v In) {
			k := key(v)
			s.dir.Seek(k, s.dir.Hash(k))
			if err := f(c, v); err != nil {
				failed(err)
			}
			if err := s.dir.Err(); err != nil {
				rt.Fail(err)
			}
		}, op, nil
	}
}

type keyedOperator[K comparable, Out any] struct {
	task.Base
	ctx   *KeyCtx[K, Out]
	hooks *hooks[*KeyCtx[K, Out]]
	bytes int64 // as measured
}

// OnWatermark measures the state, and runs OnEnd for every key at the end of the input: while emitting is still in
// time for everything downstream.
func (o *keyedOperator[K, Out]) OnWatermark(t element.Time) error {
	dir, rt := o.ctx.dir, o.ctx.rt
	now := int64(dir.Bytes())
	rt.Counters.StateBytes += now - o.bytes
	o.bytes = now
	if t == element.MaxTime && len(o.hooks.end) > 0 {
		if err := dir.Each(func(K) error {
			rt.At = element.MaxTime
			if err := o.hooks.ended(o.ctx); err != nil {
				return err
			}
			return rt.Stopped()
		}); err != nil {
			return err
		}
	}
	return dir.Err()
}

func (o *keyedOperator[K, Out]) Close() error { return o.hooks.closed() }

// Cell is the one value of the current key, for MapWithState.
type Cell[K comparable, S any] struct {
	dir   *state.Directory[K]
	value *state.Value[S]
}

// Key is the key of the record in flight.
func (c *Cell[K, S]) Key() K { return c.dir.Key() }

// Ref is the value in place.
func (c *Cell[K, S]) Ref() *S { return c.value.Ref() }

// Exists reports whether the key has a value.
func (c *Cell[K, S]) Exists() bool { return c.value.Exists() }

// Clear removes the value.
func (c *Cell[K, S]) Clear() { c.value.Clear() }

// WithState is the stage of a function with one value per key.
func WithState[K comparable, S, In, Out any](key func(In) K, name string, f func(*Cell[K, S], In, func(Out)) error, o Options) task.StageOf[In, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		emit := (func(Out))(out)
		return Keyed(key, func(s *KeySetup[K, Out]) (func(*KeyCtx[K, Out], In) error, error) {
			c := &Cell[K, S]{dir: s.dir, value: s.Value[S](name)}
			return func(_ *KeyCtx[K, Out], v In) error { return f(c, v, emit) }, nil
		}, o)(rt, out)
	}
}
