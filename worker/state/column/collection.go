package column

import (
	"reflect"
	"unsafe"

	"github.com/sluiceio/sluice/worker/state/epoch"
	"github.com/sluiceio/sluice/worker/state/slab"
)

// headState is what a row knows of a collection, in memory or not.
type headState struct {
	Count uint32 // entries or elements
	Next  uint32 // number of the next run of a list
}

// head is the part of a row for a map or a list: what is known of the whole collection, and the chain of those of its
// units that are in memory.
type head struct {
	valueCell[headState]
	first, last uint32 // units, + 1
	// cold: units may be in the overflow.
	cold bool
}

func (h *head) empty() bool { return h.first == 0 && h.v.Count == 0 }

// headForm is the form of the states of heads.
var headForm = formOf[headState]()

// heads tracks the changes of the heads of a collection. They are no entries of chunks: what they say follows from the
// units there.
type heads struct{ cells }

// init tracks the heads of a state, which at finds.
func (s *heads) init(t *Table, name string, at func(row uint32) *head) error {
	if err := s.cells.init(t, &t.Pool, name, headForm, nil); err != nil {
		return err
	}
	s.at = func(row uint32) *cell { return &at(row).cell }
	s.rowOf = func(row uint32) uint32 { return row }
	s.turned = func(row uint32, _ bool) {
		t.emptied(row) // looked at when it is reused
	}
	return nil
}

// edit makes a head ready for a change of its state.
func (s *heads) edit(row uint32, h *head) *headState {
	if h.word != s.t.live {
		s.change(row, &h.cell)
		h.word = s.t.live
	}
	return &h.v
}

// came reads the head of a row that has come back. Its units, if there are any, are still in the overflow.
func (s *heads) came(row uint32, h *head, a *epoch.Arrival) error {
	if err := s.unpackCell(row, &h.cell, a); err != nil {
		return err
	}
	h.cold = h.word != 0
	return nil
}

// collection is what maps and lists have in common: a head in each row, and units that are not rows.
type collection struct {
	offset    uintptr // of the head in a row
	heads     heads
	pool      slab.Pool
	heap      slab.Average
	linksOf   func(id uint32) *links
	iterating int // All is running: no unit may be reused
}

// links is where a unit lies in the chain of its row.
type links struct {
	row        uint32 // + 1; 0: the unit is free
	prev, next uint32 // units, + 1
}

// link puts a unit between two others, which are given + 1, 0 for none.
func (s *collection) link(h *head, id, prev, next uint32) {
	u := s.linksOf(id)
	u.prev, u.next = prev, next
	if prev != 0 {
		s.linksOf(prev - 1).next = id + 1
	} else {
		h.first = id + 1
	}
	if next != 0 {
		s.linksOf(next - 1).prev = id + 1
	} else {
		h.last = id + 1
	}
}

// unlink takes a unit out of the chain of its row, which may be free then.
func (s *collection) unlink(u *links) {
	h := s.headOf(u.row - 1)
	if u.prev != 0 {
		s.linksOf(u.prev - 1).next = u.next
	} else {
		h.first = u.next
	}
	if u.next != 0 {
		s.linksOf(u.next - 1).prev = u.prev
	} else {
		h.last = u.prev
	}
	if h.empty() {
		s.heads.t.pending.Add(u.row - 1)
	}
}

func (s *collection) headOf(row uint32) *head {
	return (*head)(unsafe.Add(s.heads.t.Rows.At(row), s.offset))
}

// head is that of the current row, which exists.
func (s *collection) head() *head { return (*head)(unsafe.Add(s.heads.t.Entry, s.offset)) }

// len is the number of elements or entries.
func (s *collection) len() int {
	if s.heads.t.Entry == nil {
		return 0
	}
	return int(s.head().v.Count)
}

func (s *collection) field() reflect.Type   { return reflect.TypeFor[head]() }
func (s *collection) place(offset uintptr)  { s.offset = offset }
func (s *collection) has(row uint32) bool   { return s.headOf(row).v.Count > 0 }
func (s *collection) dirty(row uint32) bool { return s.heads.changes.Dirty(row) }
func (s *collection) idle(row uint32) bool  { return s.headOf(row).empty() && !s.dirty(row) }
func (s *collection) weigh(uint32) int      { return 0 }
func (s *collection) units() *slab.Pool     { return &s.pool }

func (s *collection) pack(row uint32, d *epoch.Departure) error {
	return s.heads.packCell(row, &s.headOf(row).cell, d)
}

func (s *collection) unpack(row uint32, a *epoch.Arrival) error {
	return s.heads.came(row, s.headOf(row), a)
}

// shedBy moves units of a row out of memory by evict, up to limit, and reports whether none is left.
func (s *collection) shedBy(row uint32, limit int, evict func(id uint32) (bool, error)) (bool, error) {
	h := s.headOf(row)
	for h.first != 0 {
		if limit--; limit < 0 || s.iterating > 0 {
			return false, nil
		}
		if ok, err := evict(h.first - 1); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}
