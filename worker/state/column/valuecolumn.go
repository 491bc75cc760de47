package column

import (
	"reflect"
	"unsafe"

	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/epoch"
	"github.com/sluiceio/sluice/worker/state/slab"
)

// valueColumn is a Value whose type is known by its form.
type valueColumn struct {
	cells
	offset uintptr
	loaded func(v slab.Place) // OnImport
}

func (s *valueColumn) init(t *Table, name string, f form, opts []Option) (err error) {
	if err := s.cells.init(t, &t.Pool, name, f, opts); err != nil {
		return err
	}
	s.at = s.cellOf
	s.rowOf = func(row uint32) uint32 { return row }
	s.entry = t.rowEntry
	s.turned = func(row uint32, exists bool) {
		if !exists {
			t.emptied(row)
		}
	}
	s.number, err = t.declare(s)
	return err
}

func (s *valueColumn) cellOf(row uint32) *cell {
	return (*cell)(unsafe.Add(s.t.Rows.At(row), s.offset))
}

// here is the cell of the current row, which exists.
func (s *valueColumn) here() *cell { return (*cell)(unsafe.Add(s.t.Entry, s.offset)) }

func (s *valueColumn) exists() bool { return s.t.Entry != nil && s.here().word&present != 0 }

// read is the value in place, for a reader who may keep what it leads to; nil if there is none.
func (s *valueColumn) read() slab.Place {
	if s.t.Entry == nil {
		return nil
	}
	c := s.here()
	if c.word&present == 0 {
		return nil
	}
	if !s.flat && c.word != s.t.live {
		s.access(s.t.Row, c)
	}
	return s.value(c)
}

// touch makes the cell of the current row ready for writing.
func (s *valueColumn) touch() slab.Place {
	if s.t.Entry == nil {
		s.t.keys.Insert()
	}
	c := s.here()
	s.change(s.t.Row, c)
	c.word = s.t.live
	return s.value(c)
}

func (s *valueColumn) clearRow() {
	if s.exists() {
		s.remove(s.t.Row)
	}
}

func (s *valueColumn) remove(row uint32) {
	s.clear(row, s.cellOf(row))
	s.t.emptied(row)
}

func (s *valueColumn) describe() chunk.State {
	return chunk.State{Name: s.name, Kind: s.opt.kind(chunk.Value), Value: s.codec.Schema(), TTL: s.opt.TTL}
}

func (s *valueColumn) field() reflect.Type  { return s.form.cell }
func (s *valueColumn) place(offset uintptr) { s.offset = offset }

func (s *valueColumn) has(row uint32) bool { return s.cellOf(row).word&present != 0 }

func (s *valueColumn) dirty(row uint32) bool { return s.changes.Dirty(row) }

func (s *valueColumn) idle(row uint32) bool { return !s.has(row) && !s.dirty(row) }

func (s *valueColumn) reader(st chunk.State) (func(row uint32, e *chunk.Entry) error, error) {
	read, err := s.cells.reader(st)
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
			s.loaded(s.value(c))
		}
		return nil
	}, nil
}

func (s *valueColumn) pack(row uint32, d *epoch.Departure) error {
	return s.packCell(row, s.cellOf(row), d)
}

func (s *valueColumn) unpack(row uint32, a *epoch.Arrival) error {
	return s.unpackCell(row, s.cellOf(row), a)
}

func (s *valueColumn) shed(uint32, int) (bool, error) { return true, nil }

func (s *valueColumn) expire(at *uint32, limit int) { s.scanExpired(&s.t.Pool, at, limit, s.remove) }

func (s *valueColumn) expireRow(row uint32) {
	if s.expired(s.cellOf(row)) {
		s.remove(row)
	}
}

func (s *valueColumn) weigh(row uint32) int {
	if s.heapOf == nil {
		return 0
	}
	return s.heapOf(s.value(s.cellOf(row)))
}

func (s *valueColumn) bytes() int { return s.changes.Bytes() }
