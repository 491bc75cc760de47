package column

import "github.com/sluiceio/sluice/worker/state/epoch"

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
	if err := s.unpack(row, &h.cell, a); err != nil {
		return err
	}
	h.cold = h.word != 0
	return nil
}
