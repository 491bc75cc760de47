package column

import (
	"encoding/binary"
	"unsafe"

	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/epoch"
	"github.com/sluiceio/sluice/worker/state/slab"
)

const (
	// runLen is the largest number of elements of a run: what an append to a long list costs in the next snapshot.
	runLen = 32
	// maxRun bounds the number of elements of a run in a chunk.
	maxRun = 1 << 16
)

// listColumn is a List whose type is known by its form. Elements are only added at the end, so that the pre-image of a
// run of flat elements is its length.
type listColumn struct {
	state
	collection
	runs   slab.Slab
	length int32 // of a run, on its way to and from its pre-images
	clears int   // calls of Clear
}

// run is a piece of a list. After Clear it stays in the chain, with its elements, until nothing can bring it back; a
// list that grows again continues its numbering, so that no tombstone meets a new run of the same number.
type run struct {
	vals items
	links
	word uint32
	seq  uint32 // number in the list
}

// items is a slice of elements, as it lies in memory.
type items struct {
	data   slab.Place
	n, cap int
}

// lengths is the kind of the pre-images of flat runs, runs that of runs.
var (
	lengths  = slab.KindOf[int32]()
	runsKind = slab.KindOf[run]()
)

func (s *listColumn) init(t *Table, name string, f form, opts []Option) (err error) {
	if err = s.state.init(t, &s.pool, name, f, opts); err != nil {
		return err
	}
	s.changes = epoch.NewChanges(t.Epochs, &t.Meter, &s.pool, lengths)
	if err = s.heads.init(t, name, s.headOf); err != nil {
		return err
	}
	s.runs = slab.NewSlab(&t.Meter, runsKind, t.blockBits())
	s.pool = slab.NewPool(&s.runs)
	s.linksOf = func(id uint32) *links { return &s.run(id).links }
	s.number, err = t.declare(s)
	return err
}

// run is the one with this id; nil if its block does not exist.
func (s *listColumn) run(id uint32) *run { return (*run)(s.runs.At(id)) }

// element is where element i lies.
func (s *listColumn) element(vals items, i int) slab.Place {
	return unsafe.Add(vals.data, uintptr(i)*s.form.kind.Size())
}

// extend is the run to append up to want elements to, and how many it takes, which are counted already.
func (s *listColumn) extend(want int) (*run, int) {
	if s.t.Entry == nil {
		s.t.keys.Insert()
	}
	row, h := s.t.Row, s.head()
	r := s.tail(row, h)
	n := min(runLen-r.vals.n, want)
	s.heads.edit(row, h).Count += uint32(n)
	return r, n
}

// tail is the run to append to; it has room.
func (s *listColumn) tail(row uint32, h *head) *run {
	next := h.v.Next
	if next > 0 && h.cold && (h.last == 0 || s.run(h.last-1).seq+1 != next) {
		s.t.Fail(s.t.FaultAt(CodeOverflow, s.name, row, s.fetch(row, next-1)))
	}
	if h.last != 0 {
		id := h.last - 1
		if r := s.run(id); r.seq+1 == next && r.word&present != 0 && r.vals.n < runLen {
			s.write(id, r)
			return r
		}
	}
	s.reclaim()
	for h.last != 0 && s.run(h.last-1).seq >= next { // a rewind has undone their coming
		s.t.Fail(s.dismiss(h.last - 1))
	}
	id := s.take(row, next)
	s.link(h, id, h.last, 0)
	s.heads.edit(row, h).Next++
	r := s.run(id)
	s.write(id, r)
	return r
}

// write makes a run ready to be changed.
func (s *listColumn) write(id uint32, r *run) {
	if r.word != s.t.live {
		s.change(id, r)
		r.word = s.t.live
	}
	s.pool.Ref(id)
}

// each calls f for every element of the current row, until it returns false. Its changes of it are not noticed, if it is
// flat.
func (s *listColumn) each(f func(v slab.Place) bool) {
	if s.t.Entry == nil {
		return
	}
	s.iterating++
	defer func() { s.iterating-- }()
	row, h := s.t.Row, s.head()
	if h.cold && (h.v.Count <= bringBack || !s.flat) {
		if err := s.fetchAll(row, h); err != nil {
			s.t.Fail(s.t.FaultAt(CodeOverflow, s.name, row, err))
			return
		}
	}
	id := h.first
	if h.cold {
		var more bool
		var err error
		if id, more, err = s.eachCold(row, f); err != nil {
			s.t.Fail(s.t.FaultAt(CodeOverflow, s.name, row, err))
		}
		if !more {
			return
		}
	}
	s.walkFrom(id, allRuns, f)
}

// bringBack is up to how many elements a list that is read comes back to memory as a whole.
const bringBack = 1024

// allRuns is a number that no run has.
const allRuns = ^uint32(0)

// walkFrom calls f for the elements of the chain from run id on, + 1, below run number end. It returns the first run that
// it has not walked.
func (s *listColumn) walkFrom(id, end uint32, f func(v slab.Place) bool) (at uint32, more bool) {
	for id != 0 {
		r := s.run(id - 1)
		if r.seq >= end {
			return id, true
		}
		if r.word&present != 0 {
			s.pool.Ref(id - 1)
			if !s.flat && r.word != s.t.live && (s.t.tracking || r.word&backed != 0) {
				s.change(id-1, r)
				r.word = s.t.live
			}
			vals := r.vals // f may change the list
			for i := range vals.n {
				if !f(s.element(vals, i)) {
					return id, false
				}
			}
		}
		id = r.next
	}
	return 0, true
}

// clear removes all elements.
func (s *listColumn) clear() {
	if s.t.Entry == nil || s.head().v.Count == 0 {
		return
	}
	s.clears++
	row, h := s.t.Row, s.head()
	for id := h.first; id != 0; {
		r := s.run(id - 1)
		if r.word&present != 0 {
			s.remove(id - 1)
		}
		id = r.next
	}
	if h.cold && h.v.Count > 0 {
		s.t.Fail(s.t.FaultAt(CodeOverflow, s.name, row, s.clearCold(row)))
	}
	s.heads.edit(row, h).Count = 0
	s.t.emptied(row)
}

// remove takes the elements of a run, and leaves it in its chain.
func (s *listColumn) remove(id uint32) {
	r := s.run(id)
	row := r.row - 1
	s.change(id, r)
	s.heads.edit(row, s.headOf(row)).Count -= uint32(r.vals.n)
	r.word = s.t.live &^ present
	if !s.flat || !s.t.tracking {
		s.setVals(r, items{})
	}
	s.changes.Spend(id)
	s.t.emptied(row)
}

// setVals replaces the elements of a run.
func (s *listColumn) setVals(r *run, vals items) {
	s.t.Meter.Add((vals.cap - r.vals.cap) * int(s.form.kind.Size()))
	r.vals = vals
}

// change keeps what run id was before its first change in this epoch.
func (s *listColumn) change(id uint32, r *run) {
	if !s.t.tracking || r.word>>epochShift == s.t.live>>epochShift {
		return
	}
	unwritten := s.changes.Unwritten(id, r.word)
	first := s.changes.Open().Dirty.Add(id)
	exists := r.word&present != 0
	if !exists && first {
		s.changes.Open().Absent.Add(id)
	}
	if s.flat && exists && first {
		s.length = int32(r.vals.n)
		s.changes.Open().Flat.Push(id, r.word, unsafe.Pointer(&s.length))
	}
	if !unwritten && (!first || !exists || s.flat) {
		return
	}
	enc, err := s.encode(s.buf[:0], r)
	if err != nil {
		s.check(r, err)
		return
	}
	s.buf = enc
	if unwritten {
		s.check(r, s.writeEncoded(s.t.Epochs.Snapshot(), r, enc))
	}
	if first && exists && !s.flat {
		s.changes.Open().Enc.Push(id, r.word, enc)
	}
}

func (s *listColumn) check(r *run, err error) {
	if err != nil {
		s.t.Fail(s.t.FaultAt(CodeCodec, s.name, r.row-1, err))
	}
}

func (s *listColumn) writeEncoded(snap *epoch.Snapshot, r *run, enc []byte) (err error) {
	exists := r.word&present != 0
	if r.row == 0 || !exists && snap.Extent() == epoch.Full {
		return nil
	}
	e := chunk.Entry{State: s.number, Value: enc}
	if !exists {
		e.Op, e.Value = chunk.Delete, nil
	}
	if snap.Key, err = s.runEntry(snap.Key[:0], r.row-1, r.seq, &e); err == nil {
		err = snap.Put(&e)
	}
	return s.t.FaultAt(CodeCodec, s.name, r.row-1, err)
}

// runEntry completes the entry of run seq of a row.
func (s *listColumn) runEntry(dst []byte, row, seq uint32, e *chunk.Entry) ([]byte, error) {
	dst, err := s.t.rowEntry(dst, row, e)
	at := len(dst)
	dst = binary.AppendUvarint(dst, uint64(seq)) // as the codec writes a u32
	e.Key, e.Sub = dst[:at], dst[at:]
	return dst, err
}

func (s *listColumn) rewind() {
	s.changes.UndoAll(func(id uint32) {
		s.undo(id, epoch.Undone, items{})
	}, func(id, word uint32, was slab.Place) {
		vals := s.run(id).vals
		n := int(*(*int32)(was))
		for i := n; i < vals.n; i++ {
			s.form.kind.Zero(s.element(vals, i))
		}
		vals.n = n
		s.undo(id, word, vals)
	}, func(id, word uint32, was []byte) {
		vals, err := s.decodeVals(was)
		s.check(s.run(id), err)
		s.undo(id, word, vals)
	})
	s.heads.rewind()
}

// undo makes a run what it was.
func (s *listColumn) undo(id, word uint32, vals items) {
	r := s.run(id)
	r.word = word
	s.setVals(r, vals)
	if word&present == 0 {
		s.changes.Spend(id)
		s.t.emptied(r.row - 1)
	}
}

// take makes a run without elements.
func (s *listColumn) take(row, seq uint32) uint32 {
	s.t.makeRoom(&s.pool, s)
	id := s.pool.Take()
	*(*run)(s.runs.Ensure(id)) = run{links: links{row: row + 1}, seq: seq}
	return id
}

// reclaim frees runs that are cleared for good.
func (s *listColumn) reclaim() {
	if s.t.Epochs.Snapshot() != nil || s.iterating > 0 {
		return
	}
	for range reclaimAtOnce {
		id, ok := s.changes.Lost.Pop()
		if !ok {
			return
		}
		if r := s.run(id); r == nil || r.row == 0 || r.word&present != 0 || s.changes.Dirty(id) {
			continue
		}
		s.t.Fail(s.dismiss(id))
	}
}

// dismiss frees a run that nothing can bring back.
func (s *listColumn) dismiss(id uint32) error {
	var err error
	if s.pool.Stored.Has(id) {
		err = s.t.FaultAt(CodeOverflow, s.name, s.run(id).row-1, s.discard(id))
	}
	s.release(id)
	return err
}

// release takes a run out of memory.
func (s *listColumn) release(id uint32) {
	r := s.run(id)
	s.unlink(&r.links)
	s.setVals(r, items{})
	*r = run{}
	s.pool.Give(id)
}

func (s *listColumn) describe() chunk.State {
	return chunk.State{Name: s.name, Kind: chunk.List, Sub: "u32", Value: s.codec.Schema(), TTL: s.opt.TTL}
}

// Sweep implements epoch.Sweeper.
func (s *listColumn) Sweep(snap *epoch.Snapshot, limit int) (int, bool, error) {
	return s.changes.Walk(snap, limit, func(id uint32) error {
		r := s.run(id)
		if r == nil || r.word>>epochShift > snap.Epoch() { // written when it changed
			return nil
		}
		var err error
		if snap.Value, err = s.encode(snap.Value[:0], r); err != nil {
			return s.t.FaultAt(CodeCodec, s.name, r.row-1, err)
		}
		return s.writeEncoded(snap, r, snap.Value)
	})
}

func (s *listColumn) freeze() {
	s.changes.Freeze()
	s.heads.freeze()
}

func (s *listColumn) drop(n int) {
	s.changes.Drop(n)
	s.heads.drop(n)
}

func (s *listColumn) merge(i int) {
	s.changes.Merge(i)
	s.heads.merge(i)
}

func (s *listColumn) bytes() int {
	n := s.changes.Bytes() + s.heads.changes.Bytes() + s.pool.Bytes()
	if s.heapOf != nil {
		n += s.heap.Sample(&s.pool, func(id uint32) (n int) {
			vals := s.run(id).vals
			for i := range vals.n {
				n += s.heapOf(s.element(vals, i))
			}
			return n
		})
	}
	return n
}
