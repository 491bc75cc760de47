package column

import (
	"fmt"
	"iter"
	"unsafe"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/worker/state/slab"
)

// Map is a map per key: one table on (row, key in the map), with a chain per row.
type Map[M comparable, V any] struct{ keyed keyedColumn[M] }

// keyedColumn is a Map that knows the type of its keys; it finds them.
type keyedColumn[M comparable] struct {
	mapColumn
	hash func(M) uint64
	key  M // that is looked for in the overflow, or added
}

// NewMap declares a map state.
func NewMap[M comparable, V any](t *Table, name string, opts ...Option) (*Map[M, V], error) {
	s := &Map[M, V]{}
	if err := s.keyed.init(t, name, mapFormOf[M, V](), opts); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *keyedColumn[M]) init(t *Table, name string, f mapForm, opts []Option) (err error) {
	if s.hash, err = codec.Hasher[M](); err != nil {
		return fmt.Errorf("state %q: key: %w", name, err)
	}
	s.hashOf = func(k slab.Place) uint64 { return s.hash(*(*M)(k)) }
	s.mapColumn.find = func(row uint32, k slab.Place, h uint64) (uint32, *node) { return s.find(row, *(*M)(k), h) }
	return s.mapColumn.init(t, name, f, opts)
}

// find is the node of k in the row; nil if there is none in memory.
func (s *keyedColumn[M]) find(row uint32, k M, h uint64) (uint32, *node) {
	l, i := s.index.Head(h), h
	for id, ok := l.Find(h, &i); ok; id, ok = l.Find(h, &i) {
		if n := (*keyNode[M])(s.nodes.At(id)); n.row == row+1 && n.key == k {
			s.pool.Ref(id)
			return id, &n.node
		}
	}
	return 0, nil
}

// here is the node of k in the current row; nil if there is none.
func (s *keyedColumn[M]) here(k M) (uint32, *node) {
	if s.t.Entry == nil {
		return 0, nil
	}
	return s.lookUp(k, placeOf(s.t.Row, s.hash(k)))
}

// lookUp is here for a row that exists, at place h.
func (s *keyedColumn[M]) lookUp(k M, h uint64) (uint32, *node) {
	if id, n := s.find(s.t.Row, k, h); n != nil {
		return id, n
	}
	if !s.head().cold {
		return 0, nil
	}
	s.key = k
	return s.fetch(s.t.Row, unsafe.Pointer(&s.key), h)
}

// ref is the cell of k, ready for writing.
func (s *keyedColumn[M]) ref(k M) *cell {
	if s.t.Entry == nil {
		s.t.keys.Insert()
	}
	h := placeOf(s.t.Row, s.hash(k))
	id, n := s.lookUp(k, h)
	if n == nil {
		s.key = k
		id, n = s.add(s.t.Row, unsafe.Pointer(&s.key), h)
	}
	if n.word != s.t.live {
		s.write(id, n)
	}
	return &n.cell
}

func (s *keyedColumn[M]) delete(k M) {
	if id, n := s.here(k); n != nil && n.word&present != 0 {
		s.remove(id)
	}
}

// Get is the value of k, or the zero value.
func (s *Map[M, V]) Get(k M) (v V) {
	if p := s.keyed.read(s.keyed.here(k)); p != nil {
		return *(*V)(p)
	}
	return v
}

// Load is the value of k and whether there is one.
func (s *Map[M, V]) Load(k M) (v V, ok bool) {
	if p := s.keyed.read(s.keyed.here(k)); p != nil {
		return *(*V)(p), true
	}
	return v, false
}

// Peek is the value of k in place, nil if there is none. It must not be changed, and is valid as Ref is.
func (s *Map[M, V]) Peek(k M) *V { return (*V)(s.keyed.read(s.keyed.here(k))) }

// Look is Peek for callers that keep nothing of what the value leads to.
func (s *Map[M, V]) Look(k M) *V {
	if _, n := s.keyed.here(k); n != nil && n.word&present != 0 {
		return (*V)(s.keyed.value(&n.cell))
	}
	return nil
}

// Has reports whether k has a value.
func (s *Map[M, V]) Has(k M) bool {
	_, n := s.keyed.here(k)
	return n != nil && n.word&present != 0
}

// Ref is the value of k in place, the zero value if there was none; it counts as a write. The pointer is valid until
// the callback returns, or the next Seek.
func (s *Map[M, V]) Ref(k M) *V { return (*V)(s.keyed.value(s.keyed.ref(k))) }

// Put sets the value of k.
func (s *Map[M, V]) Put(k M, v V) { *s.Ref(k) = v }

// Delete removes k.
func (s *Map[M, V]) Delete(k M) { s.keyed.delete(k) }

// Len is the number of entries.
func (s *Map[M, V]) Len() int { return s.keyed.len() }

// Exists reports whether there are entries.
func (s *Map[M, V]) Exists() bool { return s.keyed.len() > 0 }

// All yields the entries in no particular order. The loop may change the map: an entry that it deletes before its turn
// does not come, one that it adds may come.
func (s *Map[M, V]) All() iter.Seq2[M, V] {
	return func(yield func(M, V) bool) {
		s.keyed.each(func(k, v slab.Place) bool { return yield(*(*M)(k), *(*V)(v)) })
	}
}

// Clear removes all entries.
func (s *Map[M, V]) Clear() { s.keyed.clearRow() }

// OnImport has f called for every entry that Import takes, with its key as the current one.
func (s *Map[M, V]) OnImport(f func(k M, v *V)) {
	s.keyed.loaded = func(k, v slab.Place) { f(*(*M)(k), (*V)(v)) }
}
