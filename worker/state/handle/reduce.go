package handle

import "github.com/sluiceio/sluice/worker/state"

// Reducing is one value per key, combined from all that were added while it lived.
type Reducing[V any] struct {
	*Value[V]
	f func(a, b V) V
}

// ReducingOf declares a reducing state. f must be associative.
func ReducingOf[V any, K comparable](d *state.Directory[K], name string, f func(a, b V) V, c Config) (*Reducing[V], error) {
	v, err := ValueOf[V](d, name, c)
	return &Reducing[V]{v, f}, err
}

// Add combines v with what is there.
func (s *Reducing[V]) Add(v V) {
	exists := s.Exists()
	p := s.Ref()
	if exists {
		v = s.f(*p, v)
	}
	*p = v
}

// Aggregate says how an aggregating state accumulates.
type Aggregate[In, Acc, Out any] struct {
	New    func() Acc
	Add    func(Acc, In) Acc
	Result func(Acc) Out
}

// Aggregating is one accumulator per key.
type Aggregating[In, Acc, Out any] struct {
	v *Value[Acc]
	f Aggregate[In, Acc, Out]
}

// AggregatingOf declares an aggregating state.
func AggregatingOf[In, Acc, Out any, K comparable](d *state.Directory[K], name string, f Aggregate[In, Acc, Out], c Config) (*Aggregating[In, Acc, Out], error) {
	v, err := ValueOf[Acc](d, name, c)
	return &Aggregating[In, Acc, Out]{v, f}, err
}

// Add accumulates v.
func (s *Aggregating[In, Acc, Out]) Add(v In) {
	exists := s.v.Exists()
	acc := s.v.Ref()
	if !exists {
		*acc = s.f.New()
	}
	*acc = s.f.Add(*acc, v)
}

// Get is the result so far; that of a new accumulator if nothing was added.
func (s *Aggregating[In, Acc, Out]) Get() Out {
	acc, ok := s.v.Load()
	if !ok {
		acc = s.f.New()
	}
	return s.f.Result(acc)
}

// Exists reports whether something was added.
func (s *Aggregating[In, Acc, Out]) Exists() bool { return s.v.Exists() }

// Clear starts again.
func (s *Aggregating[In, Acc, Out]) Clear() { s.v.Clear() }
