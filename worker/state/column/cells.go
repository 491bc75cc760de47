package column

import (
	"fmt"
	"reflect"
	"unsafe"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/epoch"
	"github.com/sluiceio/sluice/worker/state/slab"
)

// form is what a column has to know of the type of its values. Everything that does not happen for every record is made
// once, for all types: a job has some fifty types of values and keys, and the compiler takes its time for each.
type form struct {
	kind    *slab.Kind
	cell    reflect.Type // of value states
	valueAt uintptr      // where a value lies, from its cell on
}

func formOf[V any]() form {
	var c valueCell[V]
	return form{kind: slab.KindOf[V](), cell: reflect.TypeFor[valueCell[V]](), valueAt: unsafe.Offsetof(c.v)}
}

// state is what all columns have in common: a name, a codec, and the changes of units.
type state struct {
	t       *Table
	changes epoch.Changes
	name    string
	number  int // among the states of the directory
	form    form
	codec   *codec.Plan
	flat    bool
	opt     Option
	buf     []byte
	heapOf  slab.Weigher // bytes that a value refers to; nil: none
}

// init declares a state whose units have these ids, and are values.
func (s *state) init(t *Table, ids *slab.Pool, name string, f form, opts []Option) (err error) {
	s.t, s.name, s.form = t, name, f
	if s.opt, err = options(f.kind.Type, opts); err != nil {
		return t.Fault(CodeDeclare, name, err)
	}
	if s.codec, err = codec.PlanOf(f.kind.Type, t.opts.Registry); err != nil {
		return fmt.Errorf("state %q: %w", name, err)
	}
	s.changes = epoch.NewChanges(t.Epochs, &t.Meter, ids, f.kind)
	s.flat, s.heapOf = s.codec.Flat(), slab.WeigherOf(f.kind.Type)
	return nil
}

func (s *state) freeze()     { s.changes.Freeze() }
func (s *state) drop(n int)  { s.changes.Drop(n) }
func (s *state) merge(i int) { s.changes.Merge(i) }

// Begin implements epoch.Sweeper.
func (s *state) Begin(snap *epoch.Snapshot) { s.changes.Begin(snap) }

// cells is what value and map states have in common: cells with ids, their entries in chunks and their images in records.
type cells struct {
	state
	scratch slab.Place // a value; nil: nobody needed it yet

	at func(id uint32) *cell // of a unit in memory
	// entry completes the entry of a cell: key group, key and sub-key, appended to dst.
	// nil: cells have no entries.
	entry func(dst []byte, id uint32, e *chunk.Entry) ([]byte, error)
	rowOf func(id uint32) uint32
	// turned is called when undoing has given a value to cell id, or has taken it.
	turned func(id uint32, exists bool)
}

// value is where the value of a cell lies.
func (s *cells) value(c *cell) slab.Place { return unsafe.Add(unsafe.Pointer(c), s.form.valueAt) }

// spare is a value that belongs to nobody, until the next call.
func (s *cells) spare() slab.Place {
	if s.scratch == nil {
		s.scratch = s.form.kind.Make(1)
	}
	s.form.kind.Zero(s.scratch)
	return s.scratch
}

// change is called before the first change of cell id in an epoch, and for any later one: it keeps what the cell was.
func (s *cells) change(id uint32, c *cell) {
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
			s.changes.Open().Flat.Push(id, c.word, s.value(c))
		}
	case unwritten || first:
		enc, err := s.codec.Append(s.buf[:0], s.value(c))
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
func (s *cells) access(id uint32, c *cell) {
	if c.word&present != 0 && (s.t.tracking || c.word&backed != 0) {
		s.change(id, c)
		c.word = s.t.live
	}
}

// clear takes the value of cell id, which has one.
func (s *cells) clear(id uint32, c *cell) {
	s.change(id, c)
	s.form.kind.Zero(s.value(c))
	c.word = s.t.live &^ present
}

func (s *cells) check(id uint32, err error) {
	if err != nil {
		s.t.Fail(s.t.FaultAt(CodeCodec, s.name, s.rowOf(id), err))
	}
}

// undo gives a cell the word that it had, and returns where its value lies.
func (s *cells) undo(id, word uint32) slab.Place {
	c := s.at(id)
	c.word = word
	s.turned(id, word&present != 0)
	return s.value(c)
}

func (s *cells) rewind() {
	s.changes.UndoAll(func(id uint32) {
		s.form.kind.Zero(s.undo(id, epoch.Undone))
	}, func(id, word uint32, was slab.Place) {
		s.form.kind.Move(s.undo(id, word), was)
	}, func(id, word uint32, was []byte) {
		v := s.spare()
		_, err := s.codec.Decode(was, v)
		s.check(id, err)
		s.form.kind.Move(s.undo(id, word), v)
	})
	if s.scratch != nil {
		s.form.kind.Zero(s.scratch)
	}
}

// Sweep implements epoch.Sweeper.
func (s *cells) Sweep(snap *epoch.Snapshot, limit int) (int, bool, error) {
	return s.changes.Walk(snap, limit, func(id uint32) error {
		c := s.at(id)
		if c == nil || c.word>>epochShift > snap.Epoch() { // written when it changed
			return nil
		}
		return s.write(snap, id, c)
	})
}

// write puts cell id, which is as it was at the barrier, into the snapshot.
func (s *cells) write(snap *epoch.Snapshot, id uint32, c *cell) (err error) {
	snap.Value = snap.Value[:0]
	if c.word&present != 0 {
		if snap.Value, err = s.codec.Append(snap.Value, s.value(c)); err != nil {
			return s.t.FaultAt(CodeCodec, s.name, s.rowOf(id), err)
		}
	}
	return s.writeEncoded(snap, id, c.word&present != 0, snap.Value)
}

func (s *cells) writeEncoded(snap *epoch.Snapshot, id uint32, exists bool, enc []byte) (err error) {
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

// packCell writes the image of a cell that leaves memory and takes its history out of the segments. d has its keys.
func (s *cells) packCell(id uint32, c *cell, d *epoch.Departure) error {
	if s.changes.Unwritten(id, c.word) {
		if err := s.write(s.t.Epochs.Snapshot(), id, c); err != nil {
			return err
		}
	}
	exists := c.word&present != 0
	if exists {
		var err error
		if s.buf, err = s.codec.Append(s.buf[:0], s.value(c)); err != nil {
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

// unpackCell reads an image into a cell that is new.
func (s *cells) unpackCell(id uint32, c *cell, a *epoch.Arrival) error {
	exists, value, undos, err := a.Image()
	if err != nil {
		return err
	}
	if err := s.changes.Restore(id, undos, s.decodeFlat); err != nil {
		return err
	}
	if exists {
		if err := decodeAll(s.codec.Decode, value, s.value(c)); err != nil {
			return err
		}
	}
	c.word = s.t.wordOf(exists, undos)
	return nil
}

// decodeFlat decodes a pre-image, if it is flat. It is valid until the next call.
func (s *cells) decodeFlat(was []byte) (slab.Place, bool, error) {
	if !s.flat {
		return nil, false, nil
	}
	v := s.spare()
	return v, true, decodeAll(s.codec.Decode, was, v)
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

// scanExpired removes cells that have expired, of those that begin at *at, looking at limit ids.
func (s *cells) scanExpired(p *slab.Pool, at *uint32, limit int, remove func(id uint32)) {
	for range limit {
		id, ok := p.Used.Next(*at)
		if !ok {
			*at = 0
			return
		}
		*at = id + 1
		if s.expired(s.at(id)) {
			remove(id)
		}
	}
}

// expired reports whether a cell has a value that has expired.
func (s *cells) expired(c *cell) bool {
	return c.word&present != 0 && s.opt.TTL > 0 && s.t.Clock.Us-s.form.stamp(s.value(c)) >= s.opt.TTL.Microseconds()
}

// stamp is that of a value with a time to live.
func (f *form) stamp(v slab.Place) int64 {
	return reflect.NewAt(f.kind.Type, v).Interface().(stamper).Stamp()
}

// reader compiles what reads the entry of a cell.
func (s *cells) reader(st chunk.State) (func(c *cell, e *chunk.Entry) error, error) {
	decode, err := decoding(&s.opt, s.form.kind.Type, s.codec, s.t.opts.Registry, st)
	if err != nil {
		return nil, err
	}
	return func(c *cell, e *chunk.Entry) error {
		c.word = 0
		s.form.kind.Zero(s.value(c))
		if e.Op == chunk.Delete {
			return nil
		}
		if err := decodeAll(decode, e.Value, s.value(c)); err != nil {
			return err
		}
		c.word = present
		return nil
	}, nil
}
