package column

import (
	"reflect"
	"unsafe"

	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/epoch"
)

// Value is one value per key. Its cell lies in the row.
type Value[V any] struct {
	cells[V]
	offset uintptr
	loaded func(v *V) // OnImport
}

// NewValue declares a value state.
func NewValue[V any](t *Table, name string, opts ...Option) (*Value[V], error) {
	c, err := newCells[V](t, &t.Pool, name, opts)
	if err != nil {
		return nil, err
	}
	s := &Value[V]{cells: c}
	s.cells.at = s.cellOf
	s.cells.rowOf = func(row uint32) uint32 { return row }
	s.cells.entry = s.t.rowEntry
	s.cells.turned = func(row uint32, exists bool) {
		if !exists {
			s.t.emptied(row)
		}
	}
	s.number, err = t.declare(s)
	return s, err
}

func (s *Value[V]) cellOf(row uint32) *cell[V] {
	return (*cell[V])(unsafe.Add(s.t.Rows.At(row), s.offset))
}

// Get is the value, or the zero value if there is none.
func (s *Value[V]) Get() (v V) {
	if s.t.Entry == nil {
		return v
	}
	c := (*cell[V])(unsafe.Add(s.t.Entry, s.offset))
	if !s.flat && c.word != s.t.live {
		s.access(s.t.Row, c)
	}
	return c.v
}

// Load is the value and whether there is one.
func (s *Value[V]) Load() (v V, ok bool) {
	if p := s.Peek(); p != nil {
		return *p, true
	}
	return v, false
}

// Peek is the value in place, nil if there is none. It must not be changed, and is valid as Ref is.
func (s *Value[V]) Peek() *V {
	if s.t.Entry == nil {
		return nil
	}
	c := (*cell[V])(unsafe.Add(s.t.Entry, s.offset))
	if c.word&present == 0 {
		return nil
	}
	if !s.flat && c.word != s.t.live {
		s.access(s.t.Row, c)
	}
	return &c.v
}

// Look is Peek for callers that keep nothing of what the value leads to.
func (s *Value[V]) Look() *V {
	if !s.Exists() {
		return nil
	}
	return &(*cell[V])(unsafe.Add(s.t.Entry, s.offset)).v
}

// Exists reports whether there is a value.
func (s *Value[V]) Exists() bool {
	return s.t.Entry != nil && (*cell[V])(unsafe.Add(s.t.Entry, s.offset)).word&present != 0
}

// Ref is the value in place, the zero value if there was none; it counts as a write. The pointer is valid until the
// callback returns, or the next Seek.
func (s *Value[V]) Ref() *V {
	if s.t.Entry != nil {
		if c := (*cell[V])(unsafe.Add(s.t.Entry, s.offset)); c.word == s.t.live {
			return &c.v
		}
	}
	return s.touch()
}

// Set replaces the value.
func (s *Value[V]) Set(v V) { *s.Ref() = v }

// Clear removes the value.
func (s *Value[V]) Clear() {
	if s.Exists() {
		s.remove(s.t.Row)
	}
}

func (s *Value[V]) remove(row uint32) {
	s.clear(row, s.cellOf(row))
	s.t.emptied(row)
}

// touch makes the cell of the current row ready for writing.
func (s *Value[V]) touch() *V {
	if s.t.Entry == nil {
		s.t.keys.Insert()
	}
	c := (*cell[V])(unsafe.Add(s.t.Entry, s.offset))
	s.change(s.t.Row, c)
	c.word = s.t.live
	return &c.v
}

// OnImport has f called for every value that Import takes, with its key as the current one.
func (s *Value[V]) OnImport(f func(v *V)) { s.loaded = f }

func (s *Value[V]) describe() chunk.State {
	return chunk.State{Name: s.name, Kind: s.opt.kind(chunk.Value), Value: s.codec.Schema(), TTL: s.opt.TTL}
}

func (s *Value[V]) field() reflect.Type  { return reflect.TypeFor[cell[V]]() }
func (s *Value[V]) place(offset uintptr) { s.offset = offset }

func (s *Value[V]) has(row uint32) bool { return s.cellOf(row).word&present != 0 }

func (s *Value[V]) idle(row uint32) bool { return !s.has(row) && !s.dirty(row) }

func (s *Value[V]) reader(st chunk.State) (func(row uint32, e *chunk.Entry) error, error) {
	read, err := cellRead(&s.cells, st)
	if err != nil {
		return nil, err
	}
	return func(row uint32, e *chunk.Entry) error {
		c := s.cellOf(row)
		if err := read(c, e); err != nil {
			return err
		}
		if c.word == 0 {
			s.t.emptied(row)
		} else if s.loaded != nil {
			s.loaded(&c.v)
		}
		return nil
	}, nil
}

func (s *Value[V]) pack(row uint32, d *epoch.Departure) error {
	return s.cells.pack(row, s.cellOf(row), d)
}

func (s *Value[V]) unpack(row uint32, a *epoch.Arrival) error {
	return s.cells.unpack(row, s.cellOf(row), a)
}

func (s *Value[V]) shed(uint32, int) (bool, error) { return true, nil }

func (s *Value[V]) expire(at *uint32, limit int) { s.scanExpired(&s.t.Pool, at, limit, s.remove) }

func (s *Value[V]) expireRow(row uint32) {
	if c := s.cellOf(row); c.word&present != 0 && s.expired(&c.v) {
		s.remove(row)
	}
}

func (s *Value[V]) weigh(row uint32) int {
	if s.heapOf == nil {
		return 0
	}
	return s.heapOf(&s.cellOf(row).v)
}

func (s *Value[V]) bytes() int { return s.changes.Bytes() }
