package state

import (
	"fmt"
	"unsafe"

	"github.com/sluiceio/sluice/snapshot/chunk"
)

// Value is one value per key.
type Value[V any] struct {
	cells[V]
	inRow  bool    // the cell lies in the row
	offset uintptr // where
	column slab[cell[V]]
	ids    func() uint32
}

// ValueOf declares a value state. The first one of a directory is the fastest: it lies in the row.
func ValueOf[V any, K comparable](d *Directory[K], name string) (*Value[V], error) {
	c, err := newCells[V](&d.cur, name, d.opts.Registry)
	if err != nil {
		return nil, err
	}
	s := &Value[V]{cells: c, ids: func() uint32 { return d.rows.next }}
	s.cells.at = s.column.at
	s.cells.key = d.cur.owner.appendKey
	s.cells.turned = func(row uint32, exists bool) {
		if !exists {
			d.cur.owner.emptied(row)
		}
	}
	if err := d.declare(s); err != nil {
		return nil, err
	}
	if off, ok := placeInRow[V](d); ok {
		s.inRow, s.offset = true, off
		s.cells.at = func(row uint32) *cell[V] { return (*cell[V])(unsafe.Add(d.rows.at(row), off)) }
	}
	return s, nil
}

// here is the cell of the current row; nil if there is none yet.
func (s *Value[V]) here() *cell[V] {
	e := s.cur.entry
	if e == nil {
		return nil
	}
	if s.inRow {
		return (*cell[V])(unsafe.Add(e, s.offset))
	}
	return s.column.at(s.cur.row)
}

// Get is the value, or the zero value if there is none.
func (s *Value[V]) Get() (v V) {
	c := s.here()
	if c == nil {
		return v
	}
	if !s.flat && c.word != s.cur.live {
		s.access(s.cur.row, c)
	}
	return c.v
}

// Load is the value and whether there is one.
func (s *Value[V]) Load() (v V, ok bool) {
	c := s.here()
	if c == nil || c.word&present == 0 {
		return v, false
	}
	if !s.flat && c.word != s.cur.live {
		s.access(s.cur.row, c)
	}
	return c.v, true
}

// Exists reports whether there is a value.
func (s *Value[V]) Exists() bool {
	c := s.here()
	return c != nil && c.word&present != 0
}

// Ref is the value in place, the zero value if there was none; it counts as a write. The pointer is valid until the
// callback returns.
func (s *Value[V]) Ref() *V {
	if c := s.here(); c != nil && c.word == s.cur.live {
		return &c.v
	}
	return s.touch()
}

// Set replaces the value.
func (s *Value[V]) Set(v V) { *s.Ref() = v }

// Clear removes the value.
func (s *Value[V]) Clear() {
	if c := s.here(); c != nil && c.word&present != 0 {
		s.clear(s.cur.row, c)
		s.cur.owner.emptied(s.cur.row)
	}
}

// touch makes the cell of the current row ready for writing.
func (s *Value[V]) touch() *V {
	if s.cur.entry == nil {
		s.cur.owner.insert()
	}
	c := s.here()
	if c == nil {
		c = s.column.ensure(s.cur.row)
	}
	s.change(s.cur.row, c)
	c.word = s.cur.live
	return &c.v
}

func (s *Value[V]) describe() chunk.State {
	return chunk.State{Name: s.name, Kind: chunk.Value, Value: s.codec.Schema()}
}

func (s *Value[V]) begin(snap *Snapshot) { s.start(snap, s.ids()) }

func (s *Value[V]) has(row uint32) bool {
	c := s.at(row)
	return c != nil && c.word&present != 0
}

func (s *Value[V]) idle(row uint32) bool { return !s.has(row) && !s.dirty(row) }

func (s *Value[V]) forget(row uint32) {
	if c := s.at(row); c != nil {
		*c = cell[V]{}
	}
}

func (s *Value[V]) reading(st chunk.State) error { return s.readingValue(st.Value) }

func (s *Value[V]) load(row uint32, e *chunk.Entry, sub []byte) error {
	if len(sub) > 0 {
		return fmt.Errorf("%w: %d bytes behind the key", chunk.ErrCorrupt, len(sub))
	}
	c := s.at(row)
	if c == nil {
		c = s.column.ensure(row)
	}
	if e.Deleted {
		s.cur.owner.emptied(row)
	}
	return s.loadValue(c, e)
}

func (s *Value[V]) bytes() int { return s.changes.bytes() + cellBytes[V](s.column.count()) }
