package flow

import (
	"iter"
	"time"

	"github.com/sluiceio/sluice/worker/operator/process"
	"github.com/sluiceio/sluice/worker/state/handle"
)

// StateOption is what a state may be declared with.
type StateOption func(*process.Life)

// TTL lets the values of a state live for d after their last write. What has expired is absent for every method, however
// long it stays in memory. The clock is that of the machine, read once per batch of records. Entries of a map and elements
// of a list live on their own. The shortest d is a microsecond (E145).
func TTL(d time.Duration) StateOption {
	return func(l *process.Life) { *l = process.Life{After: lived(d)} }
}

// TTLOnRead lets the values of a state live for d after they were last written or read. Not for lists (E145).
func TTLOnRead(d time.Duration) StateOption {
	return func(l *process.Life) { *l = process.Life{After: lived(d), Refresh: handle.OnRead} }
}

// lived is a time to live that was given, if too short a one: 0 in Life is for ever.
func lived(d time.Duration) time.Duration {
	if d == 0 {
		return time.Nanosecond
	}
	return d
}

func lifeOf(opts []StateOption) (l process.Life) {
	for _, o := range opts {
		o(&l)
	}
	return l
}

// Value declares one value per key.
func (s *Setup[K, Out]) Value[V any](name string, opts ...StateOption) ValueState[V] {
	return ValueState[V]{s.set().Value[V](name, lifeOf(opts))}
}

// List declares a list per key.
func (s *Setup[K, Out]) List[V any](name string, opts ...StateOption) ListState[V] {
	return ListState[V]{s.set().List[V](name, lifeOf(opts))}
}

// Map declares a map per key.
func (s *Setup[K, Out]) Map[MK comparable, V any](name string, opts ...StateOption) MapState[MK, V] {
	return MapState[MK, V]{s.set().Map[MK, V](name, lifeOf(opts))}
}

// Reducing declares one value per key, which f combines from everything that is added to it. f must be associative, and
// must not change its arguments.
func (s *Setup[K, Out]) Reducing[V any](name string, f func(a, b V) V, opts ...StateOption) ReducingState[V] {
	return ReducingState[V]{s.set().Reducing(name, f, lifeOf(opts))}
}

// Aggregating declares one accumulator per key, which a makes and adds to. A is a constraint, not an interface, so that the
// compiler names the missing or wrong method.
func (s *Setup[K, Out]) Aggregating[In, Acc, R any, A Aggregator[In, Acc, R]](name string, a A, opts ...StateOption) AggregatingState[In, Acc, R] {
	f := handle.Aggregate[In, Acc, R]{New: a.New, Add: a.Add, Result: a.Result}
	return AggregatingState[In, Acc, R]{s.set().Aggregating(name, f, lifeOf(opts))}
}

// ValueState is one value per key. It addresses the key of the record in flight, as all states of keys do. Handles return
// no errors: a state that cannot be read or written ends the attempt (E140 to E144).
type ValueState[V any] struct{ v *handle.Value[V] }

// Get is the value, or the zero value if there is none.
func (s ValueState[V]) Get() V { return s.v.Get() }

// Load is the value and whether there is one.
func (s ValueState[V]) Load() (v V, ok bool) { return s.v.Load() }

// Exists reports whether there is a value.
func (s ValueState[V]) Exists() bool { return s.v.Exists() }

// Ref is the value in place, the zero value at first; it counts as a write and is valid until the callback returns. For
// large values it costs half of Get and Set.
func (s ValueState[V]) Ref() *V { return s.v.Ref() }

// Set replaces the value.
func (s ValueState[V]) Set(v V) { s.v.Set(v) }

// Clear removes the value.
func (s ValueState[V]) Clear() { s.v.Clear() }

// ListState is a list per key.
type ListState[V any] struct{ l *handle.List[V] }

// Append adds elements at the end.
func (s ListState[V]) Append(vs ...V) { s.l.Append(vs...) }

// All yields the elements in order.
func (s ListState[V]) All() iter.Seq[V] { return s.l.All() }

// Len is the number of elements.
func (s ListState[V]) Len() int { return s.l.Len() }

// Clear removes all elements.
func (s ListState[V]) Clear() { s.l.Clear() }

// MapState is a map per key.
type MapState[MK comparable, V any] struct{ m *handle.Map[MK, V] }

// Get is the value of k and whether there is one.
func (s MapState[MK, V]) Get(k MK) (v V, ok bool) { return s.m.Load(k) }

// Has reports whether k has a value.
func (s MapState[MK, V]) Has(k MK) bool { return s.m.Has(k) }

// Ref is the value of k in place, the zero value at first; it counts as a write and is valid until the callback returns.
func (s MapState[MK, V]) Ref(k MK) *V { return s.m.Ref(k) }

// Put sets the value of k.
func (s MapState[MK, V]) Put(k MK, v V) { s.m.Put(k, v) }

// Delete removes k.
func (s MapState[MK, V]) Delete(k MK) { s.m.Delete(k) }

// All yields the entries in no defined order. The current entry may be deleted meanwhile.
func (s MapState[MK, V]) All() iter.Seq2[MK, V] { return s.m.All() }

// Len is the number of entries.
func (s MapState[MK, V]) Len() int { return s.m.Len() }

// Clear removes all entries.
func (s MapState[MK, V]) Clear() { s.m.Clear() }

// ReducingState is one value per key, combined from all that was added.
type ReducingState[V any] struct{ r *handle.Reducing[V] }

// Add combines v with what is there.
func (s ReducingState[V]) Add(v V) { s.r.Add(v) }

// Get is the value, or the zero value if nothing was added.
func (s ReducingState[V]) Get() V { return s.r.Get() }

// Load is the value and whether anything was added.
func (s ReducingState[V]) Load() (v V, ok bool) { return s.r.Load() }

// Clear starts again.
func (s ReducingState[V]) Clear() { s.r.Clear() }

// AggregatingState is one accumulator per key.
type AggregatingState[In, Acc, R any] struct {
	a *handle.Aggregating[In, Acc, R]
}

// Add accumulates v.
func (s AggregatingState[In, Acc, R]) Add(v In) { s.a.Add(v) }

// Get is the result so far; that of a new accumulator if nothing was added.
func (s AggregatingState[In, Acc, R]) Get() R { return s.a.Get() }

// Exists reports whether anything was added.
func (s AggregatingState[In, Acc, R]) Exists() bool { return s.a.Exists() }

// Clear starts again.
func (s AggregatingState[In, Acc, R]) Clear() { s.a.Clear() }
