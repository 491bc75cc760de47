package handle

import (
	"iter"

	"github.com/sluiceio/sluice/worker/state"
)

// List is a list per key, whose elements live on their own, from when they were added.
type List[V any] struct {
	life
	plain *state.List[V]
	timed *state.List[Stamped[V]] // nil: without a time to live
}

// ListOf declares a list state.
func ListOf[V any, K comparable](d *state.Directory[K], name string, c Config) (s *List[V], err error) {
	s = &List[V]{life: newLife(c, d.Now)}
	switch {
	case c.After == 0:
		s.plain, err = state.ListOf[V](d, name, plain[V](d.Registry()))
	case c.Refresh == OnRead:
		err = &state.Error{Code: state.CodeDeclare, State: name, Err: ErrListRefresh}
	default:
		s.timed, err = state.ListOf[Stamped[V]](d, name, timed[V](c, d.Registry(), d.Now))
	}
	return s, err
}

// Append adds elements at the end.
func (s *List[V]) Append(vs ...V) {
	if s.timed == nil {
		s.plain.Append(vs...)
		return
	}
	for _, v := range vs {
		s.timed.Append(Stamped[V]{s.now(), v})
	}
}

// Len is the number of elements. With a time to live it counts them.
func (s *List[V]) Len() (n int) {
	if s.timed == nil {
		return s.plain.Len()
	}
	for v := range s.timed.All() {
		if !s.over(v.At) {
			n++
		}
	}
	return n
}

// All yields the elements in order.
func (s *List[V]) All() iter.Seq[V] {
	if s.timed == nil {
		return s.plain.All()
	}
	return func(yield func(V) bool) {
		for v := range s.timed.All() {
			if !s.over(v.At) && !yield(v.V) {
				return
			}
		}
	}
}

// Clear removes all elements.
func (s *List[V]) Clear() {
	if s.timed == nil {
		s.plain.Clear()
	} else {
		s.timed.Clear()
	}
}
