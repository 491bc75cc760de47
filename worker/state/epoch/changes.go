package epoch

import (
	"slices"

	"github.com/sluiceio/sluice/worker/state/slab"
)

// The word of a unit is the number of the epoch of its last change, shifted left by WordShift, and flags.
const (
	// Present: there is a value.
	Present = 1 << 0
	// Backed: the record in the overflow says the same.
	Backed = 1 << 1
	// WordShift is the number of flags.
	WordShift = 2
	// Undone is the word of a unit from which a rewind has taken its value. It is not that of a unit that was never
	// touched: the record may say something else.
	Undone = firstEpoch << WordShift
)

// Segment is what one epoch has changed in one column.
type Segment struct {
	Dirty slab.Bitmap
	// Pre-images: units that had no value, those of flat types as they were, others encoded.
	Absent slab.Bitmap
	Flat   slab.Log
	Enc    slab.ByteLog
	// spent are units that have lost their value and may be free when the segment goes; used by lists and maps.
	Spent slab.Bitmap
}

// Changes is the change tracking of a column.
type Changes struct {
	epochs *Epochs
	meter  *slab.Meter
	flat   *slab.Kind // of flat pre-images
	segs   []*Segment // oldest first; the last one is open; nil: nothing has changed
	ids    *slab.Pool
	// Lost are units that may be free; used by lists and maps.
	Lost slab.Queue

	// Of the snapshot that is being written.
	frozen  slab.Bitmap // ids to write; not used by a full snapshot
	limit   uint32      // ids from here on did not exist
	drained uint32      // ids below are written

	undos []Undo // scratch
	buf   []byte
}

// NewChanges makes a column follow the epochs. ids are those of its units, flat is the kind of its flat pre-images.
func NewChanges(e *Epochs, m *slab.Meter, ids *slab.Pool, flat *slab.Kind) Changes {
	x := Changes{epochs: e, meter: m, ids: ids, flat: flat}
	x.segs = make([]*Segment, e.Len())
	return x
}

// Open is the open segment.
func (x *Changes) Open() *Segment { return x.seg(len(x.segs) - 1) }

func (x *Changes) seg(i int) *Segment {
	if s := x.segs[i]; s != nil {
		return s
	}
	x.segs[i] = &Segment{Flat: slab.NewLog(x.meter, x.flat), Enc: slab.NewByteLog(x.meter)}
	return x.segs[i]
}

// Freeze closes the open segment.
func (x *Changes) Freeze() { x.segs = append(x.segs, nil) }

// Dirty reports whether a segment can bring unit id back, or take it away.
func (x *Changes) Dirty(id uint32) bool {
	for _, s := range x.segs {
		if s != nil && s.Dirty.Has(id) {
			return true
		}
	}
	return false
}

// Unwritten reports whether the snapshot still has to write unit id. A unit that has changed since the barrier was
// written then.
func (x *Changes) Unwritten(id, word uint32) bool {
	s := x.epochs.snap
	return s != nil && word>>WordShift <= s.Epoch() && id >= x.drained && id < x.limit && (s.Extent() == Full || x.frozen.Has(id))
}

// Drop forgets the n oldest segments.
func (x *Changes) Drop(n int) {
	for _, s := range x.segs[:n] {
		x.release(s)
	}
	x.segs = slices.Delete(x.segs, 0, n)
}

func (x *Changes) release(s *Segment) {
	if s == nil {
		return
	}
	x.Lost.Push(s.Spent)
	s.Flat.Release()
	s.Enc.Release()
}

// Spend says that unit id has lost its value.
func (x *Changes) Spend(id uint32) {
	if x.epochs.cfg.Tracking {
		x.Open().Spent.Add(id)
	} else {
		x.Lost.Add(id)
	}
}

// Merge joins segment i to the one behind it.
func (x *Changes) Merge(i int) {
	old, next := x.segs[i], x.segs[i+1]
	if old == nil || next == nil {
		if old == nil {
			x.segs[i] = next
		}
		x.segs = slices.Delete(x.segs, i+1, i+2)
		return
	}
	next.Flat.Each(func(id, word uint32, was slab.Place) {
		if !old.Dirty.Has(id) {
			old.Flat.Push(id, word, was)
		}
	})
	next.Enc.Each(func(id, word uint32, was []byte) {
		if !old.Dirty.Has(id) {
			old.Enc.Push(id, word, was)
		}
	})
	for id, ok := next.Absent.Next(0); ok; id, ok = next.Absent.Next(id + 1) {
		if !old.Dirty.Has(id) {
			old.Absent.Add(id)
		}
	}
	old.Dirty.Merge(&next.Dirty)
	old.Spent.Merge(&next.Spent)
	next.Spent = slab.Bitmap{}
	x.release(next)
	x.segs = slices.Delete(x.segs, i+1, i+2)
}

// UndoAll hands out all pre-images, those of the newest segment first, and forgets them.
func (x *Changes) UndoAll(absent func(id uint32), flat func(id, word uint32, was slab.Place), enc func(id, word uint32, was []byte)) {
	for i := len(x.segs) - 1; i >= 0; i-- {
		s := x.segs[i]
		if s == nil {
			continue
		}
		for id, ok := s.Absent.Next(0); ok; id, ok = s.Absent.Next(id + 1) {
			absent(id)
		}
		s.Flat.Each(flat)
		s.Enc.Each(enc)
	}
	for _, s := range x.segs {
		x.release(s)
	}
	x.segs = make([]*Segment, 1)
	x.frozen = slab.Bitmap{}
}

// Begin fixes the set of the snapshot: all closed segments, none of which is known to be completed.
func (x *Changes) Begin(s *Snapshot) {
	x.limit, x.drained, x.frozen = x.ids.High, 0, slab.Bitmap{}
	if s.Extent() == Full {
		return
	}
	closed := x.segs[:len(x.segs)-1]
	if len(closed) == 1 && closed[0] != nil {
		x.frozen = closed[0].Dirty // shares its pages: units that leave memory take their bits with them
		return
	}
	for _, seg := range closed {
		if seg == nil {
			continue
		}
		x.frozen.Merge(&seg.Dirty)
	}
}

// Walk calls write for the next units of the snapshot, at most limit.
func (x *Changes) Walk(s *Snapshot, limit int, write func(id uint32) error) (n int, done bool, err error) {
	for ; n < limit; n++ {
		id, ok := x.frozen.Next(x.drained)
		if s.Extent() == Full {
			id, ok = x.ids.Used.Next(x.drained)
			ok = ok && id < x.limit
		}
		if !ok {
			x.frozen = slab.Bitmap{}
			return n, true, nil
		}
		if err := write(id); err != nil {
			return n, false, err
		}
		x.drained = id + 1
		if s.Waits() {
			return n + 1, false, nil
		}
	}
	return n, false, nil
}

// History takes the pre-images of unit id out of the segments, oldest first. It is valid until the next call.
func (x *Changes) History(id uint32, encode func(dst []byte, was slab.Place) ([]byte, error)) ([]Undo, error) {
	x.undos, x.buf = x.undos[:0], x.buf[:0]
	for i, s := range x.segs {
		if s == nil || !s.Dirty.Remove(id) {
			continue
		}
		u := Undo{Seg: i}
		if !s.Absent.Remove(id) {
			u.Exists = true
			if was, ok := s.Enc.Take(id); ok {
				u.Was = was
			} else if was, ok := s.Flat.Take(id); ok {
				at, err := len(x.buf), error(nil)
				if x.buf, err = encode(x.buf, was); err != nil {
					return nil, err
				}
				u.Was = x.buf[at:]
			}
		}
		x.undos = append(x.undos, u)
	}
	x.frozen.Remove(id)
	return x.undos, nil
}

// Restore gives a unit that has come back its history: the reverse of history.
func (x *Changes) Restore(id uint32, undos []Undo, flat func(was []byte) (slab.Place, bool, error)) error {
	for _, u := range undos {
		s := x.seg(u.Seg)
		s.Dirty.Add(id)
		if !u.Exists {
			s.Absent.Add(id)
			continue
		}
		p, isFlat, err := flat(u.Was)
		if err != nil {
			return err
		}
		if isFlat {
			s.Flat.Push(id, Present, p)
		} else {
			s.Enc.Push(id, Present, u.Was)
		}
	}
	return nil
}

// Bytes is the memory that the meter does not count.
func (x *Changes) Bytes() int {
	n := x.frozen.Bytes() + x.Lost.Bytes()
	for _, s := range x.segs {
		if s == nil {
			continue
		}
		n += s.Dirty.Bytes() + s.Absent.Bytes() + s.Spent.Bytes()
	}
	return n
}
