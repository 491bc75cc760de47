package column

import (
	"errors"

	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/slab"
)

// This file is what a map does with entries that are in the overflow, or go there.

// keyOf is the entry of k in the row.
func (s *mapColumn) keyOf(row uint32, k slab.Place, e *chunk.Entry) (err error) {
	b, err := s.t.rowEntry(s.t.ev.key[:0], row, e)
	if err != nil {
		return err
	}
	at := len(b)
	if b, err = s.keys.Append(b, k); err == nil {
		e.Key, e.Sub, s.t.ev.key = b[:at], b[at:], b
	}
	return err
}

// fetch brings the entry of k back; nil if there is none.
func (s *mapColumn) fetch(row uint32, k slab.Place, h uint64) (uint32, *node) {
	var e chunk.Entry
	err := s.keyOf(row, k, &e)
	if err == nil {
		var record []byte
		var ok bool
		if record, ok, err = s.t.ev.load(s.number, &e, e.Sub); err == nil && !ok {
			return 0, nil
		}
		if err == nil {
			var id uint32
			var n *node
			if id, n, err = s.arrive(row, k, h, record); err == nil {
				return id, n
			}
		}
	}
	s.t.Fail(s.t.FaultAt(CodeOverflow, s.name, row, err))
	return 0, nil
}

// arrive makes a node of a record; nil if it says nothing any more.
func (s *mapColumn) arrive(row uint32, k slab.Place, h uint64, record []byte) (uint32, *node, error) {
	id, n := s.add(row, k, h)
	a := s.t.Epochs.Arrive(record)
	err := s.unpackCell(id, &n.cell, &a)
	if err = errors.Join(err, a.End()); err != nil {
		return 0, nil, err
	}
	s.pool.Stored.Add(id)
	if n.word == 0 {
		err := s.discard(id)
		s.release(id)
		return 0, nil, err
	}
	if s.iterating > 0 {
		if s.came == nil {
			s.came = map[uint32]uint64{}
		}
		s.arrivals++
		s.came[id] = s.arrivals
	}
	return id, n, nil
}

// discard removes the record of a node.
func (s *mapColumn) discard(id uint32) error {
	var e chunk.Entry
	n := s.node(id)
	if err := s.keyOf(n.row-1, n.key(), &e); err != nil {
		return err
	}
	s.pool.Stored.Remove(id)
	return s.t.ev.remove(s.number, &e, e.Sub)
}

// eachCold calls f for the entries that were in the overflow when the iteration began, at arrival number since.
func (s *mapColumn) eachCold(row uint32, since uint64, f func(k, v slab.Place) bool) error {
	var v slab.Place // of an entry that stays there
	return s.scan(row, func(k slab.Place, h uint64, record []byte) (bool, error) {
		id, n := s.find(row, k, h)
		if n != nil && s.came[id] <= since {
			return true, nil // it had its turn
		}
		if n == nil {
			a := s.t.Epochs.Arrive(record)
			exists, value, _, err := a.Image()
			if err != nil || !exists {
				return true, err
			}
			if s.flat {
				if v == nil {
					v = s.form.kind.Make(1)
				}
				s.form.kind.Zero(v)
				if err := decodeAll(s.codec.Decode, value, v); err != nil {
					return false, err
				}
				return f(k, v), nil
			}
			// Its reader may change what it leads to.
			if id, n, err = s.arrive(row, k, h, record); err != nil || n == nil {
				return true, err
			}
		}
		if n.word&present == 0 {
			return true, nil
		}
		if !s.flat && n.word != s.t.live {
			s.access(id, &n.cell)
		}
		return f(k, s.value(&n.cell)), nil
	})
}

// scan calls f for all records of a row. Their keys are valid until f returns.
func (s *mapColumn) scan(row uint32, f func(k slab.Place, h uint64, record []byte) (bool, error)) error {
	var e chunk.Entry
	var err error
	if s.t.ev.key, err = s.t.rowEntry(s.t.ev.key[:0], row, &e); err != nil {
		return err
	}
	k := s.keyKind.Make(1)
	return s.t.ev.scan(s.number, &e, func(sub, record []byte) (bool, error) {
		s.keyKind.Zero(k)
		if err := decodeAll(s.keys.Decode, sub, k); err != nil {
			return false, err
		}
		return f(k, s.placeOf(row, k), record)
	})
}

// clearCold removes the entries of a row that are in the overflow, where they are.
func (s *mapColumn) clearCold(row uint32) error {
	gone := uint32(0)
	err := s.scan(row, func(k slab.Place, h uint64, record []byte) (bool, error) {
		if _, n := s.find(row, k, h); n != nil {
			return true, nil
		}
		var e chunk.Entry
		if err := s.keyOf(row, k, &e); err != nil {
			return false, err
		}
		was, err := s.t.bury(s.number, &e, e.Sub, record)
		if was {
			gone++
		}
		return true, err
	})
	if gone > 0 {
		s.heads.edit(row, s.headOf(row)).Count -= gone
		s.t.emptied(row)
	}
	return err
}

func (s *mapColumn) touchable(id uint32) bool {
	return s.iterating == 0 && (s.t.Entry == nil || s.node(id).row != s.t.Row+1)
}

func (s *mapColumn) unitDirty(id uint32) bool { return s.changes.Dirty(id) }

// evict moves a node to the overflow.
func (s *mapColumn) evict(id uint32) (bool, error) {
	n := s.node(id)
	row := n.row - 1
	d := s.t.ev.departure()
	if err := s.keyOf(row, n.key(), &d.Entry); err != nil {
		return false, s.t.FaultAt(CodeCodec, s.name, row, err)
	}
	if !s.t.ev.fits(&d.Entry) {
		return false, nil
	}
	err := s.packCell(id, &n.cell, d)
	if err == nil {
		err = s.t.ev.settle(s.number, d, d.Sub, recorded(s.pool.Stored.Has(id)))
	}
	if err != nil {
		return false, s.t.FaultAt(CodeOverflow, s.name, row, err)
	}
	if d.Kept {
		s.headOf(row).cold = true
	}
	s.release(id)
	return true, nil
}

func (s *mapColumn) shed(row uint32, limit int) (bool, error) { return s.shedBy(row, limit, s.evict) }

func (s *mapColumn) expire(at *uint32, limit int) {
	s.scanExpired(&s.pool, at, limit, s.remove)
}

func (s *mapColumn) expireRow(row uint32) {
	for id := s.headOf(row).first; id != 0; id = s.node(id - 1).next {
		if n := s.node(id - 1); s.expired(&n.cell) {
			s.remove(id - 1)
		}
	}
}

func (s *mapColumn) bring(sub []byte) error {
	k := s.keyKind.Make(1)
	if err := decodeAll(s.keys.Decode, sub, k); err != nil {
		return err
	}
	s.here(k)
	return s.t.Err
}

func (s *mapColumn) reader(st chunk.State) (func(row uint32, e *chunk.Entry) error, error) {
	read, err := s.cells.reader(st)
	if err != nil {
		return nil, err
	}
	decodeKey, err := decoder(s.keyKind.Type, s.keys, s.t.opts.Registry, st.Sub)
	if err != nil {
		return nil, err
	}
	k := s.keyKind.Make(1)
	return func(row uint32, e *chunk.Entry) error {
		s.keyKind.Zero(k)
		if err := decodeAll(decodeKey, e.Sub, k); err != nil {
			return err
		}
		id, n := s.here(k)
		if n == nil {
			if e.Op == chunk.Delete {
				s.t.emptied(row)
				return s.t.Err
			}
			id, n = s.add(row, k, s.placeOf(row, k))
		}
		was := n.word & present
		if err := read(&n.cell, e); err != nil {
			return err
		}
		h := s.headOf(row)
		h.word = present
		switch now := n.word & present; {
		case now > was:
			h.v.Count++
		case now < was:
			h.v.Count--
			s.changes.Lost.Add(id)
			s.t.emptied(row)
		}
		if s.loaded != nil && n.word != 0 {
			s.loaded(n.key(), s.value(&n.cell))
		}
		return s.t.Err
	}, nil
}
