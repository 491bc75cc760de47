package process

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/state/handle"
	"github.com/sluiceio/sluice/worker/state/timer"
	"github.com/sluiceio/sluice/worker/task"
)

// State is what a processor has declared, for the graph.
type State struct {
	Kind, Name, Schema string
	Flat               bool
}

// Life is how long values live; the zero Life is for ever.
type Life = handle.Config

// declarations are the states that a processor has declared.
type declarations struct {
	registry *codec.Registry
	states   []State
	handles  map[string]any
	counts   int
	err      error // the first declaration that cannot be
}

// declared records a state; a fault is kept until open has returned, because handles are returned without error.
func declared[V any](d *declarations, kind, name string, h any, err error) {
	if err == nil && d.handles[name] != nil {
		err = &state.Error{Code: state.CodeDeclare, State: name, Err: errTwice}
	}
	if err != nil {
		if d.err == nil {
			d.err = err
		}
		return
	}
	c, err := codec.Of[V](d.registry)
	if err != nil {
		d.err = err
		return
	}
	d.handle(name, h)
	d.states = append(d.states, State{Kind: kind, Name: name, Schema: c.Schema(), Flat: c.Flat()})
}

// maxCounts is how many counters an operator may declare.
const maxCounts = 32

// count declares a counter. rt is nil while the plan is made.
func (d *declarations) count(rt *task.Runtime, name string) *task.Count {
	var wrong error
	switch d.counts++; {
	case name == "" || len(name) > maxCountName || !utf8.ValidString(name):
		wrong = fmt.Errorf("a counter's name has 1 to %d bytes of UTF-8", maxCountName)
	case d.handles[name] != nil:
		wrong = errTwice
	case d.counts > maxCounts:
		wrong = fmt.Errorf("%d counters; an operator may have %d", d.counts, maxCounts)
	}
	if wrong != nil {
		if d.err == nil {
			d.err = &state.Error{Code: state.CodeDeclare, State: name, Err: wrong}
		}
		return &task.Count{}
	}
	c := &task.Count{}
	if rt != nil {
		c = rt.Count(name)
	}
	d.handle(name, c)
	return c
}

// maxCountName is the longest name of a counter, in bytes.
const maxCountName = 100

func (d *declarations) handle(name string, h any) {
	if d.handles == nil {
		d.handles = map[string]any{}
	}
	d.handles[name] = h
}

// Counter declares a counter of the operator, which is shown with the status of the job.
func (s *KeySetup[K, Out]) Counter(name string) *task.Count { return s.count(s.rt, name) }

var errTwice = errors.New("the name is used twice: states, timers and counters of an operator have a name each")

// KeySetup is where a processor with keyed state declares what it needs.
type KeySetup[K comparable, Out any] struct {
	hooks[*KeyCtx[K, Out]]
	declarations
	rt     *task.Runtime // nil while the plan is made
	dir    *state.Directory[K]
	timers *timer.Service[K]
	ctx    *KeyCtx[K, Out] // of every call
	wake   element.Time    // when the loop will call OnTime; MaxTime: never
	// earliest is the earliest deadline that a timer by the clock can be set to: while such timers are called, one that is ahead.
	earliest element.Time
	ruled    bool         // there is a broadcast input
	calls    string       // the timer that is called; empty: none is
	deadline element.Time // of that timer
	ending   bool         // OnEnd is called
}

// describedGroups is the number of key groups of a directory that no record will reach.
const describedGroups = 1

func newKeySetup[K comparable, Out any](rt *task.Runtime, r *codec.Registry) (*KeySetup[K, Out], error) {
	o := state.Options{MaxParallelism: describedGroups, Registry: r}
	if rt != nil {
		o = rt.Options("keyed", r)
	}
	dir, err := state.NewDirectory[K](o)
	if err != nil {
		return nil, err
	}
	if rt != nil {
		rt.Keep(dir.Table())
	}
	s := &KeySetup[K, Out]{declarations: declarations{registry: r}, rt: rt, dir: dir, timers: timer.New(dir), wake: element.MaxTime, earliest: element.MinTime}
	s.ctx = &KeyCtx[K, Out]{Ctx: Ctx[Out]{rt: rt}, dir: dir}
	return s, nil
}

// Describe runs open as it is run at plan time: on a directory that no record will reach.
func Describe[K comparable, Out any](r *codec.Registry, open func(*KeySetup[K, Out]) error) ([]State, error) {
	s, err := newKeySetup[K, Out](nil, r)
	if err != nil {
		return nil, err
	}
	err = open(s)
	if err == nil {
		err = s.err
	}
	return s.states, errors.Join(err, s.timers.Close(), s.dir.Close())
}

// Value declares one value per key.
func (s *KeySetup[K, Out]) Value[V any](name string, l Life) *handle.Value[V] {
	v, err := handle.ValueOf[V](s.dir, name, l)
	declared[V](&s.declarations, "value", name, v, err)
	return v
}

// List declares a list per key.
func (s *KeySetup[K, Out]) List[V any](name string, l Life) *handle.List[V] {
	v, err := handle.ListOf[V](s.dir, name, l)
	declared[V](&s.declarations, "list", name, v, err)
	return v
}

// Map declares a map per key.
func (s *KeySetup[K, Out]) Map[MK comparable, V any](name string, l Life) *handle.Map[MK, V] {
	v, err := handle.MapOf[MK, V](s.dir, name, l)
	declared[V](&s.declarations, "map", name, v, err)
	return v
}

// Reducing declares one value per key that f combines from all that are added.
func (s *KeySetup[K, Out]) Reducing[V any](name string, f func(a, b V) V, l Life) *handle.Reducing[V] {
	v, err := handle.ReducingOf(s.dir, name, f, l)
	declared[V](&s.declarations, "reducing", name, v, err)
	return v
}

// Aggregating declares one accumulator per key.
func (s *KeySetup[K, Out]) Aggregating[In, Acc, R any](name string, f handle.Aggregate[In, Acc, R], l Life) *handle.Aggregating[In, Acc, R] {
	v, err := handle.AggregatingOf(s.dir, name, f, l)
	declared[Acc](&s.declarations, "aggregating", name, v, err)
	return v
}

// EventTimer declares a timer by event time, one deadline per key.
func (s *KeySetup[K, Out]) EventTimer(name string, f func(*KeyCtx[K, Out], element.Time) error) *timer.Timer {
	t, err := s.timers.Event(name, s.onEvent(name, f))
	declared[element.Time](&s.declarations, "event timer", name, t, err)
	return t
}

// EventTimers declares a set of timers by event time.
func (s *KeySetup[K, Out]) EventTimers(name string, f func(*KeyCtx[K, Out], element.Time) error) *timer.Timers {
	t, err := s.timers.Events(name, s.onEvent(name, f))
	declared[element.Time](&s.declarations, "event timers", name, t, err)
	return t
}

// ProcTimer declares a timer by the clock, one deadline per key.
func (s *KeySetup[K, Out]) ProcTimer(name string, f func(*KeyCtx[K, Out], time.Time) error) *ProcTimer {
	t, err := s.timers.Proc(name, s.onTime(name, f))
	p := &ProcTimer{timer: t, now: s.now, await: s.await, earliest: &s.earliest}
	declared[element.Time](&s.declarations, "clock timer", name, p, err)
	return p
}

// onEvent is the call of a timer by event time: what it emits has the time of the deadline.
func (s *KeySetup[K, Out]) onEvent(name string, f func(*KeyCtx[K, Out], element.Time) error) func(element.Time) error {
	return func(at element.Time) error {
		s.rt.At = at
		s.calls, s.deadline = name, at
		if err := f(s.ctx, at); err != nil {
			return fmt.Errorf("timer %s, key %v: %w", name, s.dir.Key(), err)
		}
		s.calls = ""
		return nil
	}
}

// onTime is the call of a timer by the clock. The clock is no event time: what it emits has the earliest time that is not
// late, or the deadline if there are no watermarks.
func (s *KeySetup[K, Out]) onTime(name string, f func(*KeyCtx[K, Out], time.Time) error) func(element.Time) error {
	return func(at element.Time) error {
		s.rt.At = at
		if w := s.rt.Watermark; w > element.MinTime && w < element.MaxTime {
			s.rt.At = w + 1
		}
		s.calls, s.deadline = name, at
		if err := f(s.ctx, at.Std()); err != nil {
			return fmt.Errorf("timer %s, key %v: %w", name, s.dir.Key(), err)
		}
		s.calls = ""
		return nil
	}
}

func (s *KeySetup[K, Out]) now() time.Time { return s.rt.Now() }

// await has the loop call OnTime at a deadline, if not earlier.
func (s *KeySetup[K, Out]) await(at element.Time) {
	if at < s.wake {
		s.wake = at
		s.rt.WakeAt(at.Std())
	}
}

// OnStart adds f, called before the first record of an attempt.
func (s *KeySetup[K, Out]) OnStart(f startFunc) { s.start = append(s.start, f) }

// OnEnd adds f, called once per key with state when all bounded inputs have ended.
func (s *KeySetup[K, Out]) OnEnd(f func(*KeyCtx[K, Out]) error) { s.end = append(s.end, f) }

// OnClose adds f, called when the attempt ends, in any way.
func (s *KeySetup[K, Out]) OnClose(f func() error) { s.close = append(s.close, f) }

// ProcTimer is one deadline per key, by the clock.
type ProcTimer struct {
	timer *timer.Timer
	now   func() time.Time
	await func(element.Time)
	// earliest is the earliest deadline that counts now.
	earliest *element.Time
}

// rest is how far ahead a timer by the clock is set at least by the call of one, so that one that sets itself again at once
// leaves its subtask to other things.
const rest = time.Millisecond

// Set sets the deadline of the current key, in place of the one before.
func (t *ProcTimer) Set(at time.Time) {
	due := max(element.At(at), *t.earliest)
	t.timer.Set(due)
	t.await(due)
}

// SetIn is Set for d from now on.
func (t *ProcTimer) SetIn(d time.Duration) { t.Set(t.now().Add(d)) }

// Clear takes the deadline of the current key, if there is one.
func (t *ProcTimer) Clear() { t.timer.Clear() }

// At is the deadline of the current key.
func (t *ProcTimer) At() (at time.Time, ok bool) {
	due, ok := t.timer.At()
	return due.Std(), ok
}
