package process

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/state/unkeyed"
	"github.com/sluiceio/sluice/worker/task"
)

// RuleInput is the input of a broadcast processor that every subtask gets in full; the keyed one is 0.
const RuleInput = 1

// BroadcastFuncs are what a broadcast processor does with the records of its two inputs.
type BroadcastFuncs[K comparable, In, Rule, Out any] struct {
	Process   func(*KeyCtx[K, Out], In) error
	Broadcast func(*BroadcastCtx, Rule) error
}

// BroadcastSpec is how the keyed input is keyed, and how a processor is opened.
type BroadcastSpec[K comparable, In, Rule, Out any] struct {
	Key     func(In) K
	Open    func(*KeySetup[K, Out]) (BroadcastFuncs[K, In, Rule, Out], error)
	Options Options
}

// BroadcastCtx is the context of one call with a broadcast record. It has neither key, clock nor output: every subtask makes
// the same call, and must come to the same state.
type BroadcastCtx struct{ rt *task.Runtime }

// Timestamp is the time of the record in flight.
func (c *BroadcastCtx) Timestamp() element.Time { return c.rt.At }

// Context ends when the attempt has to stop.
func (c *BroadcastCtx) Context() context.Context { return c.rt.Ctx }

// Rules is a map that is the same in every subtask. Writing it takes the context of the side that may.
type Rules[MK comparable, V any] struct{ m *unkeyed.Broadcast[MK, V] }

// Get is the value of k and whether there is one.
func (r *Rules[MK, V]) Get(k MK) (V, bool) { return r.m.Get(k) }

// All yields the entries in no particular order.
func (r *Rules[MK, V]) All() iter.Seq2[MK, V] { return r.m.All() }

// Put sets the value of k.
func (r *Rules[MK, V]) Put(_ *BroadcastCtx, k MK, v V) { r.m.Put(k, v) }

// Delete removes k.
func (r *Rules[MK, V]) Delete(_ *BroadcastCtx, k MK) { r.m.Delete(k) }

var errNotRuled = errors.New("broadcast state belongs to a processor behind ConnectBroadcast")

// Broadcast declares a map that the broadcast input writes.
func (s *KeySetup[K, Out]) Broadcast[MK comparable, V any](name string) *Rules[MK, V] {
	if !s.ruled {
		declared[V](&s.declarations, "broadcast", name, nil, &state.Error{Code: state.CodeDeclare, State: name, Err: errNotRuled})
		return nil
	}
	o, subtask := state.Options{MaxParallelism: describedGroups, Registry: s.registry}, 0
	if s.rt != nil {
		o, subtask = s.rt.Options("broadcast/"+name, s.registry), s.rt.Task.Subtask
	}
	m, err := unkeyed.NewBroadcast[MK, V](o, subtask)
	r := &Rules[MK, V]{m}
	declared[V](&s.declarations, "broadcast", name, r, err)
	if err == nil && s.rt != nil {
		s.rt.Keep(m)
	}
	return r
}

// DescribeBroadcast is Describe for a processor that has a broadcast input.
func DescribeBroadcast[K comparable, Out any](r *codec.Registry, open func(*KeySetup[K, Out]) error) ([]State, error) {
	return Describe(r, func(s *KeySetup[K, Out]) error {
		s.ruled = true
		return open(s)
	})
}

// Broadcast makes the stages of a processor with keyed records, input 0, and broadcast ones, RuleInput.
func Broadcast[K comparable, In, Rule, Out any](s BroadcastSpec[K, In, Rule, Out]) (task.StageOf[In, Out], task.StageOf[Rule, Out]) {
	type operator = broadcast[K, In, Rule, Out]
	shared := func(rt *task.Runtime, out task.Push[Out]) (*operator, error) {
		return task.Shared(rt, func() (*operator, error) { return openBroadcast(s, rt, out) })
	}
	keyed := func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		o, err := shared(rt, out)
		if err != nil {
			return nil, nil, err
		}
		push, err := o.process(s)
		if err != nil {
			return nil, o, err
		}
		return push, o, o.set.started(rt.Task)
	}
	rules := func(rt *task.Runtime, out task.Push[Out]) (task.Push[Rule], task.Operator, error) {
		o, err := shared(rt, out)
		if err != nil {
			return nil, nil, err
		}
		return o.rule(s), o, nil
	}
	return keyed, rules
}

type broadcast[K comparable, In, Rule, Out any] struct {
	keyedOperator[K, Out]
	funcs BroadcastFuncs[K, In, Rule, Out]
}

func openBroadcast[K comparable, In, Rule, Out any](s BroadcastSpec[K, In, Rule, Out], rt *task.Runtime, out task.Push[Out]) (*broadcast[K, In, Rule, Out], error) {
	set, err := newKeySetup[K, Out](rt, s.Options.Registry)
	if err != nil {
		return nil, err
	}
	set.ruled = true
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
	return &broadcast[K, In, Rule, Out]{keyedOperator: keyedOperator[K, Out]{set: set}, funcs: funcs}, nil
}

func (o *broadcast[K, In, Rule, Out]) process(s BroadcastSpec[K, In, Rule, Out]) (task.Push[In], error) {
	return o.set.push(s.Key, o.funcs.Process, s.Options)
}

// rule has no error policy: a subtask that skipped a record would go on with other rules than the rest.
func (o *broadcast[K, In, Rule, Out]) rule(s BroadcastSpec[K, In, Rule, Out]) task.Push[Rule] {
	rt, f := o.set.rt, o.funcs.Broadcast
	c := &BroadcastCtx{rt}
	return func(v Rule) {
		if err := f(c, v); err != nil {
			rt.Fail(err)
		}
	}
}
