package column

import (
	"slices"
	"unsafe"

	"github.com/sluiceio/sluice/worker/state/epoch"
	"github.com/sluiceio/sluice/worker/state/slab"
)

// segment is what one epoch has changed in one column.
type segment[P any] struct {
	dirty slab.Bitmap
	// Pre-images: units that had no value, those of flat types as they were, others encoded.
	absent slab.Bitmap
	flat   slab.Log[P]
	enc    slab.ByteLog
	// spent are units that have lost their value and may be free when the segment goes; used by lists and maps.
	spent slab.Bitmap
}

// changes is the change tracking of a column whose flat pre-images are of type P.
type changes[P any] struct {
	t    *Table
	segs []*segment[P] // oldest first; the last one is open
	ids  *slab.Pool
	// lost are units that may be free; used by lists and maps.
	lost slab.Queue

	// Of the snapshot that is being written.
	frozen  slab.Bitmap // ids to write; not used by a full snapshot
	limit   uint32      // ids from here on did not exist
	drained uint32      // ids below are written

	undos []epoch.Undo // scratch
	buf   []byte
}

// undo is a pre-image on its way to or from a record.
type undo struct {
	seg    int // index of the segment
	exists bool
	was    []byte
}

func newChanges[P any](t *Table, ids *slab.Pool) changes[P] {
	x := changes[P]{t: t, ids: ids}
	for range t.Epochs.Len() {
		x.freeze()
	}
	return x
}

func (x *changes[P]) open() *segment[P] { return x.segs[len(x.segs)-1] }

func (x *changes[P]) freeze() {
	size := int(unsafe.Sizeof(slab.Pre[P]{}))
	x.segs = append(x.segs, &segment[P]{flat: slab.NewLog[P](&x.t.Meter, size), enc: slab.NewByteLog(&x.t.Meter)})
}

// dirty reports whether a segment can bring unit id back, or take it away.
func (x *changes[P]) dirty(id uint32) bool {
	for _, s := range x.segs {
		if s.dirty.Has(id) {
			return true
		}
	}
	return false
}

// unwritten reports whether the snapshot still has to write unit id. A unit that has changed since the barrier was
// written then.
func (x *changes[P]) unwritten(id, word uint32) bool {
	s := x.t.Epochs.Snapshot()
	return s != nil && word>>epochShift <= s.Epoch() && id >= x.drained && id < x.limit && (s.Extent() == epoch.Full || x.frozen.Has(id))
}

func (x *changes[P]) drop(n int) {
	for _, s := range x.segs[:n] {
		x.lost.Push(s.spent)
		s.release()
	}
	x.segs = slices.Delete(x.segs, 0, n)
}

func (s *segment[P]) release() {
	s.flat.Release()
	s.enc.Release()
}

// spend says that unit id has lost its value.
func (x *changes[P]) spend(id uint32) {
	if x.t.tracking {
		x.open().spent.Add(id)
	} else {
		x.lost.Add(id)
	}
}

func (x *changes[P]) merge(i int) {
	old, next := x.segs[i], x.segs[i+1]
	next.flat.Each(func(p *slab.Pre[P]) {
		if !old.dirty.Has(p.ID) {
			old.flat.Push(p.ID, p.Word, p.Was)
		}
	})
	next.enc.Each(func(p *slab.Pre[[]byte]) {
		if !old.dirty.Has(p.ID) {
			old.enc.Push(p.ID, p.Word, p.Was)
		}
	})
	for id, ok := next.absent.Next(0); ok; id, ok = next.absent.Next(id + 1) {
		if !old.dirty.Has(id) {
			old.absent.Add(id)
		}
	}
	old.dirty.Merge(&next.dirty)
	old.spent.Merge(&next.spent)
	next.release()
	x.segs = slices.Delete(x.segs, i+1, i+2)
}

// undoAll hands out all pre-images, those of the newest segment first, and forgets them.
func (x *changes[P]) undoAll(absent func(id uint32), flat func(*slab.Pre[P]), enc func(*slab.Pre[[]byte])) {
	for i := len(x.segs) - 1; i >= 0; i-- {
		s := x.segs[i]
		for id, ok := s.absent.Next(0); ok; id, ok = s.absent.Next(id + 1) {
			absent(id)
		}
		s.flat.Each(flat)
		s.enc.Each(enc)
	}
	for _, s := range x.segs {
		x.lost.Push(s.spent)
		s.release()
	}
	x.segs = nil
	x.frozen = slab.Bitmap{}
	x.freeze()
}

// Begin fixes the set of the snapshot: all closed segments, none of which is known to be completed.
func (x *changes[P]) Begin(s *epoch.Snapshot) {
	x.limit, x.drained, x.frozen = x.ids.High, 0, slab.Bitmap{}
	if s.Extent() == epoch.Full {
		return
	}
	closed := x.segs[:len(x.segs)-1]
	if len(closed) == 1 {
		x.frozen = closed[0].dirty // shares its pages: units that leave memory take their bits with them
		return
	}
	for _, seg := range closed {
		x.frozen.Merge(&seg.dirty)
	}
}

// walk calls write for the next units of the snapshot, at most limit.
func (x *changes[P]) walk(s *epoch.Snapshot, limit int, write func(id uint32) error) (n int, done bool, err error) {
	for ; n < limit; n++ {
		id, ok := x.frozen.Next(x.drained)
		if s.Extent() == epoch.Full {
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

// history takes the pre-images of unit id out of the segments, oldest first. It is valid until the next call.
func (x *changes[P]) history(id uint32, encode func(dst []byte, was *P) ([]byte, error)) ([]epoch.Undo, error) {
	x.undos, x.buf = x.undos[:0], x.buf[:0]
	for i, s := range x.segs {
		if !s.dirty.Remove(id) {
			continue
		}
		u := epoch.Undo{Seg: i}
		if !s.absent.Remove(id) {
			u.Exists = true
			if p, ok := s.enc.Take(id); ok {
				u.Was = p.Was
			} else if p, ok := s.flat.Take(id); ok {
				at, err := len(x.buf), error(nil)
				if x.buf, err = encode(x.buf, &p.Was); err != nil {
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

// restore gives a unit that has come back its history: the reverse of history.
func (x *changes[P]) restore(id uint32, undos []epoch.Undo, flat func(was []byte) (P, bool, error)) error {
	for _, u := range undos {
		s := x.segs[u.Seg]
		s.dirty.Add(id)
		if !u.Exists {
			s.absent.Add(id)
			continue
		}
		p, isFlat, err := flat(u.Was)
		if err != nil {
			return err
		}
		if isFlat {
			s.flat.Push(id, present, p)
		} else {
			s.enc.Push(id, present, u.Was)
		}
	}
	return nil
}

func (x *changes[P]) bytes() int {
	n := x.frozen.Bytes() + x.lost.Bytes()
	for _, s := range x.segs {
		n += s.dirty.Bytes() + s.absent.Bytes() + s.spent.Bytes()
	}
	return n
}
