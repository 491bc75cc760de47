package handle

import (
	"iter"

	"github.com/sluiceio/sluice/worker/state"
)

// Map is a map per key, whose entries live on their own.
type Map[M comparable, V any] struct {
	life
	plain *state.Map[M, V]
	timed *state.Map[M, Stamped[V]] // nil: without a time to live
}

// MapOf declares a map state.
func MapOf[M comparable, V any, K comparable](d *state.Directory[K], name string, c Config) (s *Map[M, V], err error) {
	s = &Map[M, V]{life: newLife(c, d.Now)}
	if c.After == 0 {
		s.plain, err = state.MapOf[M, V](d, name, plain[V](d.Registry()))
	} else {
		s.timed, err = state.MapOf[M, Stamped[V]](d, name, timed[V](c, d.Registry(), d.Now))
	}
	return s, err
}

// Get is the value of k, or the zero value.
func (s *Map[M, V]) Get(k M) V {
	v, _ := s.Load(k)
	return v
}

// Load is the value of k and whether there is one.
func (s *Map[M, V]) Load(k M) (v V, ok bool) {
	if s.timed == nil {
		return s.plain.Load(k)
	}
	p := s.timed.Look(k)
	switch {
	case p == nil:
		return v, false
	case s.over(p.At):
		s.timed.Delete(k)
		return v, false
	case s.onRead && p.At != s.now():
		p = s.timed.Ref(k)
		p.At = s.now()
	default:
		p = s.timed.Peek(k)
	}
	return p.V, true
}

// Has reports whether k has a value. It is no read that refreshes.
func (s *Map[M, V]) Has(k M) bool {
	if s.timed == nil {
		return s.plain.Has(k)
	}
	p := s.timed.Look(k)
	return p != nil && !s.over(p.At)
}

// Ref is the value of k in place, the zero value if there was none; it counts as a write. The pointer is valid until the
// callback returns.
func (s *Map[M, V]) Ref(k M) *V {
	if s.timed == nil {
		return s.plain.Ref(k)
	}
	p := s.timed.Ref(k)
	if s.over(p.At) {
		*p = Stamped[V]{}
	}
	p.At = s.now()
	return &p.V
}

// Put sets the value of k.
func (s *Map[M, V]) Put(k M, v V) { *s.Ref(k) = v }

// Delete removes k.
func (s *Map[M, V]) Delete(k M) {
	if s.timed == nil {
		s.plain.Delete(k)
	} else {
		s.timed.Delete(k)
	}
}

// Len is the number of entries. With a time to live it counts them.
func (s *Map[M, V]) Len() (n int) {
	if s.timed == nil {
		return s.plain.Len()
	}
	for _, v := range s.timed.All() {
		if !s.over(v.At) {
			n++
		}
	}
	return n
}

// All yields the entries in no particular order. The loop may change the map: an entry that it deletes before its turn
// does not come, one that it adds may come. With Refresh OnRead, those that it yields are refreshed.
func (s *Map[M, V]) All() iter.Seq2[M, V] {
	if s.timed == nil {
		return s.plain.All()
	}
	return func(yield func(M, V) bool) {
		for k, v := range s.timed.All() {
			switch {
			case s.over(v.At):
				s.timed.Delete(k)
				continue
			case s.onRead && v.At != s.now():
				s.timed.Ref(k).At = s.now()
			}
			if !yield(k, v.V) {
				return
			}
		}
	}
}

// Clear removes all entries.
func (s *Map[M, V]) Clear() {
	if s.timed == nil {
		s.plain.Clear()
	} else {
		s.timed.Clear()
	}
}
