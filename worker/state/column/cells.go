package column

import (
	"fmt"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/epoch"
	"github.com/sluiceio/sluice/worker/state/slab"
)

// cells is what value and map states have in common: cells of type V with ids, their changes, their entries in chunks
// and their images in records.
type cells[V any] struct {
	t       *Table
	changes epoch.Changes[V]
	name    string
	number  int // among the states of the directory
	codec   *codec.Codec[V]
	flat    bool
	opt     Option
	buf     []byte
	heapOf  func(*V) int // bytes that a value refers to; nil: none

	at func(id uint32) *cell[V] // of a unit in memory
	// entry completes the entry of a cell: key group, key and sub-key, appended to dst.
	// nil: cells have no entries.
	entry func(dst []byte, id uint32, e *chunk.Entry) ([]byte, error)
	rowOf func(id uint32) uint32
	// turned is called when undoing has given a value to cell id, or has taken it.
	turned func(id uint32, exists bool)
}

func newCells[V any](t *Table, ids *slab.Pool, name string, opts []Option) (cells[V], error) {
	o, err := options[V](opts)
	if err != nil {
		return cells[V]{}, t.Fault(CodeDeclare, name, err)
	}
	cd, err := codec.Of[V](t.opts.Registry)
	if err != nil {
		return cells[V]{}, fmt.Errorf("state %q: %w", name, err)
	}
	s := cells[V]{t: t, changes: epoch.NewChanges[V](t.Epochs, &t.Meter, ids), name: name, codec: cd, flat: cd.Flat(), opt: o}
	s.heapOf = slab.WeigherFor[V]()
	return s, nil
}

func (s *cells[V]) freeze()              { s.changes.Freeze() }
func (s *cells[V]) drop(n int)           { s.changes.Drop(n) }
func (s *cells[V]) merge(i int)          { s.changes.Merge(i) }
func (s *cells[V]) dirty(id uint32) bool { return s.changes.Dirty(id) }

// Begin implements epoch.Sweeper.
func (s *cells[V]) Begin(snap *epoch.Snapshot) { s.changes.Begin(snap) }

// change is called before the first change of cell id in an epoch, and for any later one: it keeps what the cell was.
func (s *cells[V]) change(id uint32, c *cell[V]) {
	if !s.t.tracking || c.word>>epochShift == s.t.live>>epochShift {
		return
	}
	unwritten := s.changes.Unwritten(id, c.word)
	first := s.changes.Open().Dirty.Add(id) // false: an aborted checkpoint has left an older pre-image
	switch {
	case c.word&present == 0:
		if unwritten {
			s.check(id, s.writeEncoded(s.t.Epochs.Snapshot(), id, false, nil))
		}
		if first {
			s.changes.Open().Absent.Add(id)
		}
	case s.flat:
		if unwritten {
			s.check(id, s.write(s.t.Epochs.Snapshot(), id, c))
		}
		if first {
			s.changes.Open().Flat.Push(id, c.word, c.v)
		}
	case unwritten || first:
		enc, err := s.codec.Append(s.buf[:0], &c.v)
		if err != nil {
			s.check(id, err)
			return
		}
		s.buf = enc
		if unwritten {
			s.check(id, s.writeEncoded(s.t.Epochs.Snapshot(), id, true, enc))
		}
		if first {
			s.changes.Open().Enc.Push(id, c.word, enc)
		}
	}
}

// access is called before a value that is not flat is read: the reader may change what it leads to.
func (s *cells[V]) access(id uint32, c *cell[V]) {
	if c.word&present != 0 && (s.t.tracking || c.word&backed != 0) {
		s.change(id, c)
		c.word = s.t.live
	}
}

// clear takes the value of cell id, which has one.
func (s *cells[V]) clear(id uint32, c *cell[V]) {
	s.change(id, c)
	var zero V
	c.v = zero
	c.word = s.t.live &^ present
}

func (s *cells[V]) check(id uint32, err error) {
	if err != nil {
		s.t.Fail(s.t.FaultAt(CodeCodec, s.name, s.rowOf(id), err))
	}
}

func (s *cells[V]) rewind() {
	back := func(id, word uint32) *cell[V] {
		c := s.at(id)
		c.word = word
		s.turned(id, word&present != 0)
		return c
	}
	s.changes.UndoAll(func(id uint32) {
		var zero V
		back(id, epoch.Undone).v = zero
	}, func(p *slab.Pre[V]) {
		back(p.ID, p.Word).v = p.Was
	}, func(p *slab.Pre[[]byte]) {
		var v V
		_, err := s.codec.Decode(p.Was, &v)
		s.check(p.ID, err)
		back(p.ID, p.Word).v = v
	})
}

// Sweep implements epoch.Sweeper.
func (s *cells[V]) Sweep(snap *epoch.Snapshot, limit int) (int, bool, error) {
	return s.changes.Walk(snap, limit, func(id uint32) error {
		c := s.at(id)
		if c == nil || c.word>>epochShift > snap.Epoch() { // written when it changed
			return nil
		}
		return s.write(snap, id, c)
	})
}

// write puts cell id, which is as it was at the barrier, into the snapshot.
func (s *cells[V]) write(snap *epoch.Snapshot, id uint32, c *cell[V]) (err error) {
	snap.Value = snap.Value[:0]
	if c.word&present != 0 {
		if snap.Value, err = s.codec.Append(snap.Value, &c.v); err != nil {
			return s.t.FaultAt(CodeCodec, s.name, s.rowOf(id), err)
		}
	}
	return s.writeEncoded(snap, id, c.word&present != 0, snap.Value)
}

func (s *cells[V]) writeEncoded(snap *epoch.Snapshot, id uint32, exists bool, enc []byte) (err error) {
	if !exists && snap.Extent() == epoch.Full {
		return nil
	}
	e := chunk.Entry{State: s.number, Value: enc}
	if !exists {
		e.Op, e.Value = chunk.Delete, nil
	}
	if snap.Key, err = s.entry(snap.Key[:0], id, &e); err == nil {
		err = snap.Put(&e)
	}
	return s.t.FaultAt(CodeCodec, s.name, s.rowOf(id), err)
}

// pack writes the image of a cell that leaves memory and takes its history out of the segments. d has its keys.
func (s *cells[V]) pack(id uint32, c *cell[V], d *epoch.Departure) error {
	if s.changes.Unwritten(id, c.word) {
		if err := s.write(s.t.Epochs.Snapshot(), id, c); err != nil {
			return err
		}
	}
	exists := c.word&present != 0
	if exists {
		var err error
		if s.buf, err = s.codec.Append(s.buf[:0], &c.v); err != nil {
			return err
		}
	}
	undos, err := s.changes.History(id, s.codec.Append)
	if err != nil {
		return err
	}
	if c.word&backed == 0 {
		d.Changed = d.Changed || c.word != 0
		if s.entry != nil {
			d.State = s.number
			if err := d.Journal(s.t.Epochs, exists, s.buf, undos); err != nil {
				return err
			}
		}
	}
	d.Image(s.t.Epochs, exists, s.buf, undos)
	return nil
}

// unpack reads an image into a cell that is new.
func (s *cells[V]) unpack(id uint32, c *cell[V], a *epoch.Arrival) error {
	exists, value, undos, err := a.Image()
	if err != nil {
		return err
	}
	if err := s.changes.Restore(id, undos, func(was []byte) (v V, flat bool, err error) {
		if s.flat {
			err = decodeAll(s.codec.Decode, was, &v)
		}
		return v, s.flat, err
	}); err != nil {
		return err
	}
	if exists {
		if err := decodeAll(s.codec.Decode, value, &c.v); err != nil {
			return err
		}
	}
	c.word = s.t.wordOf(exists, undos)
	return nil
}

// wordOf is the word of a unit that has come back.
func (t *Table) wordOf(exists bool, undos []epoch.Undo) (word uint32) {
	if exists {
		word = present | backed
	}
	if n := len(undos); n > 0 {
		word |= t.Epochs.Number(undos[n-1].Seg)<<epochShift | backed
	}
	return word
}

// expire removes cells that have expired, of those that begin at *at, looking at limit ids.
func (s *cells[V]) scanExpired(p *slab.Pool, at *uint32, limit int, remove func(id uint32)) {
	for range limit {
		id, ok := p.Used.Next(*at)
		if !ok {
			*at = 0
			return
		}
		*at = id + 1
		if c := s.at(id); c.word&present != 0 && s.expired(&c.v) {
			remove(id)
		}
	}
}

func (s *cells[V]) expired(v *V) bool {
	return s.opt.TTL > 0 && s.t.Clock.Us-any(v).(stamper).Stamp() >= s.opt.TTL.Microseconds()
}

func cellRead[V any](s *cells[V], st chunk.State) (func(c *cell[V], e *chunk.Entry) error, error) {
	dec, err := decoding(&s.opt, s.codec, s.t.opts.Registry, st)
	if err != nil {
		return nil, err
	}
	return func(c *cell[V], e *chunk.Entry) error {
		*c = cell[V]{}
		if e.Op == chunk.Delete {
			return nil
		}
		if err := decodeAll(dec, e.Value, &c.v); err != nil {
			return err
		}
		c.word = present
		return nil
	}, nil
}
