package column

import (
	"unsafe"

	"github.com/sluiceio/sluice/worker/state/slab"
)

// Value is one value per key. Its cell lies in the row.
type Value[V any] struct{ col valueColumn }

// NewValue declares a value state.
func NewValue[V any](t *Table, name string, opts ...Option) (*Value[V], error) {
	s := &Value[V]{}
	if err := s.col.init(t, name, formOf[V](), opts); err != nil {
		return nil, err
	}
	return s, nil
}

// Get is the value, or the zero value if there is none.
func (s *Value[V]) Get() (v V) {
	if p := s.col.read(); p != nil {
		return *(*V)(p)
	}
	return v
}

// Load is the value and whether there is one.
func (s *Value[V]) Load() (v V, ok bool) {
	if p := s.col.read(); p != nil {
		return *(*V)(p), true
	}
	return v, false
}

// Peek is the value in place, nil if there is none. It must not be changed, and is valid as Ref is.
func (s *Value[V]) Peek() *V { return (*V)(s.col.read()) }

// Look is Peek for callers that keep nothing of what the value leads to.
func (s *Value[V]) Look() *V {
	if !s.col.exists() {
		return nil
	}
	return &(*valueCell[V])(unsafe.Add(s.col.t.Entry, s.col.offset)).v
}

// Exists reports whether there is a value.
func (s *Value[V]) Exists() bool { return s.col.exists() }

// Ref is the value in place, the zero value if there was none; it counts as a write. The pointer is valid until the
// callback returns, or the next Seek.
func (s *Value[V]) Ref() *V {
	if s.col.t.Entry != nil {
		if c := (*valueCell[V])(unsafe.Add(s.col.t.Entry, s.col.offset)); c.word == s.col.t.live {
			return &c.v
		}
	}
	return (*V)(s.col.touch())
}

// Set replaces the value.
func (s *Value[V]) Set(v V) { *s.Ref() = v }

// Clear removes the value.
func (s *Value[V]) Clear() { s.col.clearRow() }

// OnImport has f called for every value that Import takes, with its key as the current one.
func (s *Value[V]) OnImport(f func(v *V)) {
	s.col.loaded = func(v slab.Place) { f((*V)(v)) }
}
