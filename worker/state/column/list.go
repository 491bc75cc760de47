package column

import (
	"iter"
	"unsafe"

	"github.com/sluiceio/sluice/worker/state/slab"
)

// List is a list per key: a chain of runs per row.
type List[V any] struct{ col listColumn }

// NewList declares a list state.
func NewList[V any](t *Table, name string, opts ...Option) (*List[V], error) {
	s := &List[V]{}
	if err := s.col.init(t, name, formOf[V](), opts); err != nil {
		return nil, err
	}
	return s, nil
}

// Len is the number of elements.
func (s *List[V]) Len() int { return s.col.len() }

// Exists reports whether there are elements.
func (s *List[V]) Exists() bool { return s.col.len() > 0 }

// Append adds elements at the end.
func (s *List[V]) Append(vs ...V) {
	for len(vs) > 0 {
		r, n := s.col.extend(len(vs))
		vals := (*[]V)(unsafe.Pointer(&r.vals))
		before := cap(*vals)
		*vals = append(*vals, vs[:n]...)
		s.col.t.Meter.Add((cap(*vals) - before) * int(unsafe.Sizeof(vs[0])))
		vs = vs[n:]
	}
}

// All yields the elements in order.
func (s *List[V]) All() iter.Seq[V] {
	return func(yield func(V) bool) {
		s.col.each(func(v slab.Place) bool { return yield(*(*V)(v)) })
	}
}

// Clear removes all elements.
func (s *List[V]) Clear() { s.col.clear() }
