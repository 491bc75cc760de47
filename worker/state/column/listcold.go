package column

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/epoch"
	"github.com/sluiceio/sluice/worker/state/slab"
)

// This file is what a list does with runs that are in the overflow, or go there.

// orderedSeq is the number of a run in the keys of the overflow, whose order is that of the list.
func orderedSeq(seq uint32) []byte { return binary.BigEndian.AppendUint32(nil, seq) }

// keyOf is the entry of run seq of the row.
func (s *listColumn) keyOf(row, seq uint32, e *chunk.Entry) (err error) {
	s.t.ev.key, err = s.runEntry(s.t.ev.key[:0], row, seq, e)
	return err
}

// fetch brings run seq of the row back, if it is in the overflow.
func (s *listColumn) fetch(row, seq uint32) error {
	var e chunk.Entry
	if err := s.keyOf(row, seq, &e); err != nil {
		return err
	}
	record, ok, err := s.t.ev.load(s.number, &e, orderedSeq(seq))
	if err != nil || !ok {
		return err
	}
	return s.arrive(row, seq, record)
}

// arrive makes a run of a record, unless it says nothing any more.
func (s *listColumn) arrive(row, seq uint32, record []byte) error {
	a := s.t.Epochs.Arrive(record)
	exists, value, undos, err := a.Image()
	if err = errors.Join(err, a.End()); err != nil {
		return err
	}
	id := s.take(row, seq)
	prev, next := s.search(s.headOf(row), seq)
	s.link(s.headOf(row), id, prev, next)
	s.pool.Stored.Add(id)
	r := s.run(id)
	r.word = s.t.wordOf(exists, undos)
	if r.word == 0 {
		err := s.discard(id)
		s.release(id)
		return err
	}
	if err := s.changes.Restore(id, undos, s.countFlat); err != nil {
		return err
	}
	if s.flat && !exists { // what a rewind needs is the longest pre-image, the last one
		for _, u := range undos {
			if u.Exists {
				value = u.Was
			}
		}
	}
	if len(value) == 0 {
		return nil
	}
	vals, err := s.decodeVals(value)
	s.setVals(r, vals)
	return err
}

// countFlat is the pre-image of a run of flat elements. It is valid until the next call.
func (s *listColumn) countFlat(was []byte) (slab.Place, bool, error) {
	if !s.flat {
		return nil, false, nil
	}
	n, err := s.count(was)
	s.length = int32(n)
	return unsafe.Pointer(&s.length), true, err
}

// count is the number of elements of an encoded run.
func (s *listColumn) count(b []byte) (uint64, error) {
	if s.opt.TTL > 0 {
		_, n := binary.Varint(b)
		b = b[max(n, 0):]
	}
	count, n := binary.Uvarint(b)
	if n <= 0 || count > maxRun {
		return 0, fmt.Errorf("%w: bad number of elements", codec.ErrCorrupt)
	}
	return count, nil
}

// search finds the place of a run that is not there: the runs before and behind it, + 1. It looks from the end, because
// runs usually come in order.
func (s *listColumn) search(h *head, seq uint32) (prev, next uint32) {
	prev = h.last
	for prev != 0 && s.run(prev-1).seq > seq {
		prev, next = s.run(prev-1).prev, prev
	}
	return prev, next
}

// find is run seq of a row, if it is in memory.
func (s *listColumn) find(h *head, seq uint32) (id uint32, ok bool) {
	prev, _ := s.search(h, seq)
	if prev != 0 && s.run(prev-1).seq == seq {
		return prev - 1, true
	}
	return 0, false
}

// discard removes the record of a run.
func (s *listColumn) discard(id uint32) error {
	var e chunk.Entry
	r := s.run(id)
	if err := s.keyOf(r.row-1, r.seq, &e); err != nil {
		return err
	}
	s.pool.Stored.Remove(id)
	return s.t.ev.remove(s.number, &e, orderedSeq(r.seq))
}

// fetchAll brings all runs of a row back.
func (s *listColumn) fetchAll(row uint32, h *head) error {
	err := s.scan(row, func(seq uint32, record []byte) (bool, error) {
		if _, ok := s.find(h, seq); ok {
			return true, nil
		}
		return true, s.arrive(row, seq, record)
	})
	h.cold = false
	return err
}

// eachCold calls f for the elements of a long list of flat elements, in order, without bringing them back. It returns
// the first run in memory that it has not walked.
func (s *listColumn) eachCold(row uint32, f func(slab.Place) bool) (at uint32, more bool, err error) {
	at, more = s.headOf(row).first, true
	clears := s.clears
	err = s.scan(row, func(seq uint32, record []byte) (bool, error) {
		if at, more = s.walkFrom(at, seq, f); !more || s.clears != clears {
			more = false
			return false, nil
		}
		if _, ok := s.find(s.headOf(row), seq); ok {
			return true, nil
		}
		a := s.t.Epochs.Arrive(record)
		exists, value, _, err := a.Image()
		if err != nil || !exists {
			return true, err
		}
		vals, err := s.decodeVals(value)
		for i := range vals.n {
			if more = f(s.element(vals, i)); !more {
				break
			}
		}
		return more, err
	})
	return at, more, err
}

// scan calls f for all records of a row, in order.
func (s *listColumn) scan(row uint32, f func(seq uint32, record []byte) (bool, error)) error {
	var e chunk.Entry
	var err error
	if s.t.ev.key, err = s.t.rowEntry(s.t.ev.key[:0], row, &e); err != nil {
		return err
	}
	return s.t.ev.scan(s.number, &e, func(sub, record []byte) (bool, error) {
		if len(sub) != 4 {
			return false, epoch.ErrRecord
		}
		return f(binary.BigEndian.Uint32(sub), record)
	})
}

// clearCold removes the runs of a row that are in the overflow, where they are.
func (s *listColumn) clearCold(row uint32) error {
	return s.scan(row, func(seq uint32, record []byte) (bool, error) {
		if _, ok := s.find(s.headOf(row), seq); ok {
			return true, nil
		}
		var e chunk.Entry
		if err := s.keyOf(row, seq, &e); err != nil {
			return false, err
		}
		_, err := s.t.bury(s.number, &e, orderedSeq(seq), record)
		return true, err
	})
}

func (s *listColumn) touchable(id uint32) bool {
	return s.iterating == 0 && (s.t.Entry == nil || s.run(id).row != s.t.Row+1)
}

func (s *listColumn) unitDirty(id uint32) bool { return s.changes.Dirty(id) }

// evict moves a run to the overflow.
func (s *listColumn) evict(id uint32) (bool, error) {
	r := s.run(id)
	row := r.row - 1
	d := s.t.ev.departure()
	if err := s.keyOf(row, r.seq, &d.Entry); err != nil {
		return false, s.t.FaultAt(CodeCodec, s.name, row, err)
	}
	if !s.t.ev.fits(&d.Entry) {
		return false, nil
	}
	if err := s.packRun(id, r, d); err != nil {
		return false, s.t.FaultAt(CodeOverflow, s.name, row, err)
	}
	if err := s.t.ev.settle(s.number, d, orderedSeq(r.seq), recorded(s.pool.Stored.Has(id))); err != nil {
		return false, s.t.FaultAt(CodeOverflow, s.name, row, err)
	}
	if d.Kept {
		s.headOf(row).cold = true
	}
	s.release(id)
	return true, nil
}

func (s *listColumn) packRun(id uint32, r *run, d *epoch.Departure) (err error) {
	exists := r.word&present != 0
	if s.buf, err = s.encode(s.buf[:0], r); err != nil {
		return err
	}
	if s.changes.Unwritten(id, r.word) {
		if err := s.writeEncoded(s.t.Epochs.Snapshot(), r, s.buf); err != nil {
			return err
		}
	}
	undos, err := s.changes.History(id, func(dst []byte, n slab.Place) ([]byte, error) {
		was := r.vals
		was.n = int(*(*int32)(n))
		return s.encodeVals(dst, was)
	})
	if err != nil {
		return err
	}
	if r.word&backed == 0 {
		d.Changed, d.State = true, s.number
		if err := d.Journal(s.t.Epochs, exists, s.buf, undos); err != nil {
			return err
		}
	}
	d.Image(s.t.Epochs, exists, s.buf, undos)
	return nil
}

func (s *listColumn) shed(row uint32, limit int) (bool, error) { return s.shedBy(row, limit, s.evict) }

func (s *listColumn) expire(at *uint32, limit int) {
	if s.iterating > 0 {
		return
	}
	for range limit {
		id, ok := s.pool.Used.Next(*at)
		if !ok {
			*at = 0
			return
		}
		*at = id + 1
		if r := s.run(id); r.word&present != 0 && s.t.Clock.Us-s.youngest(r.vals) >= s.opt.TTL.Microseconds() {
			s.remove(id)
		}
	}
}

func (s *listColumn) expireRow(row uint32) {
	for id := s.headOf(row).first; id != 0; id = s.run(id - 1).next {
		if r := s.run(id - 1); r.word&present != 0 && s.t.Clock.Us-s.youngest(r.vals) >= s.opt.TTL.Microseconds() {
			s.remove(id - 1)
		}
	}
}

func (s *listColumn) bring(sub []byte) error {
	if len(sub) != 4 {
		return epoch.ErrRecord
	}
	seq := binary.BigEndian.Uint32(sub)
	if _, ok := s.find(s.head(), seq); ok {
		return nil
	}
	return s.fetch(s.t.Row, seq)
}

func (s *listColumn) reader(st chunk.State) (func(row uint32, e *chunk.Entry) error, error) {
	if st.Sub != "u32" {
		return nil, fmt.Errorf("%w: runs of a list are numbered by %q", chunk.ErrCorrupt, st.Sub)
	}
	decode, err := decoding(&s.opt, s.form.kind.Type, s.codec, s.t.opts.Registry, st)
	if err != nil {
		return nil, err
	}
	return func(row uint32, e *chunk.Entry) error { return s.readRun(decode, st.TTL > 0, row, e) }, nil
}

// readRun takes a run. Runs may come in any order, and again from a later chunk.
func (s *listColumn) readRun(decode Decode, stamped bool, row uint32, e *chunk.Entry) error {
	seq, n := binary.Uvarint(e.Sub)
	if n != len(e.Sub) || n == 0 || seq > 1<<32-2 {
		return fmt.Errorf("%w: bad number of a run", chunk.ErrCorrupt)
	}
	var vals items
	if e.Op != chunk.Delete {
		var err error
		if vals, err = s.decodeRun(decode, stamped, e.Value); err != nil {
			return err
		}
	}
	h := s.headOf(row)
	id, found := s.find(h, uint32(seq))
	if !found && h.cold {
		if err := s.fetch(row, uint32(seq)); err != nil {
			return err
		}
		id, found = s.find(h, uint32(seq))
	}
	switch {
	case !found && e.Op == chunk.Delete:
		s.t.emptied(row)
		return nil
	case !found:
		id = s.take(row, uint32(seq))
		prev, next := s.search(h, uint32(seq))
		s.link(h, id, prev, next)
	}
	h.word = present
	h.v.Next = max(h.v.Next, uint32(seq)+1)
	r := s.run(id)
	if r.word&present != 0 {
		h.v.Count -= uint32(r.vals.n)
	}
	s.setVals(r, vals)
	r.word = present
	if e.Op == chunk.Delete {
		r.word = 0
		s.changes.Lost.Add(id)
		s.t.emptied(row)
	}
	h.v.Count += uint32(r.vals.n)
	return nil
}
