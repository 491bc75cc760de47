package column

import (
	"encoding/binary"
	"fmt"
	"iter"
	"reflect"
	"unsafe"

	"github.com/sluiceio/sluice/flow/codec"
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

// List is a list per key: a chain of runs per row. Elements are only added at the end, so that the pre-image of a run
// of flat elements is its length.
type List[V any] struct {
	t       *Table
	changes epoch.Changes[int32]
	name    string
	number  int
	codec   *codec.Codec[V]
	flat    bool
	opt     Option
	buf     []byte
	heapOf  func(*V) int
	elem    int     // bytes of an element in a run
	offset  uintptr // of the head in a row
	heads   heads
	runs    slab.Slab[listRun[V]]
	pool    slab.Pool
	heap    slab.Average

	iterating int // All is running: no run may be reused
	clears    int // calls of Clear
}

// listRun is a piece of a list. After Clear it stays in the chain, with its elements, until nothing can bring it back; a
// list that grows again continues its numbering, so that no tombstone meets a new run of the same number.
type listRun[V any] struct {
	vals       []V
	word       uint32
	seq        uint32 // number in the list
	row        uint32 // + 1; 0: the run is free
	prev, next uint32 // in the chain of the row, + 1
}

// NewList declares a list state.
func NewList[V any](t *Table, name string, opts ...Option) (*List[V], error) {
	o, err := options[V](opts)
	if err != nil {
		return nil, t.Fault(CodeDeclare, name, err)
	}
	cd, err := codec.Of[V](t.opts.Registry)
	if err != nil {
		return nil, fmt.Errorf("state %q: %w", name, err)
	}
	s := &List[V]{t: t, name: name, codec: cd, flat: cd.Flat(), opt: o, heapOf: slab.WeigherFor[V]()}
	s.changes = epoch.NewChanges[int32](t.Epochs, &t.Meter, &s.pool)
	s.elem = int(unsafe.Sizeof(*new(V)))
	if s.heads, err = newHeads(t, name, s.headOf); err != nil {
		return nil, err
	}
	s.runs = slab.NewSlab[listRun[V]](&s.t.Meter, s.t.blockBits())
	s.pool = slab.NewPool(&s.runs)
	s.number, err = t.declare(s)
	return s, err
}

func (s *List[V]) headOf(row uint32) *head { return (*head)(unsafe.Add(s.t.Rows.At(row), s.offset)) }

// head is that of the current row, which exists.
func (s *List[V]) head() *head { return (*head)(unsafe.Add(s.t.Entry, s.offset)) }

// Len is the number of elements.
func (s *List[V]) Len() int {
	if s.t.Entry == nil {
		return 0
	}
	return int(s.head().v.Count)
}

// Exists reports whether there are elements.
func (s *List[V]) Exists() bool { return s.Len() > 0 }

// Append adds elements at the end.
func (s *List[V]) Append(vs ...V) {
	if len(vs) == 0 {
		return
	}
	if s.t.Entry == nil {
		s.t.keys.Insert()
	}
	row, h := s.t.Row, s.head()
	for i := 0; i < len(vs); {
		r := s.tail(row, h)
		n := min(runLen-len(r.vals), len(vs)-i)
		before := cap(r.vals)
		r.vals = append(r.vals, vs[i:i+n]...)
		s.t.Meter.Add((cap(r.vals) - before) * s.elem)
		s.heads.edit(row, h).Count += uint32(n)
		i += n
	}
}

// tail is the run to append to; it has room.
func (s *List[V]) tail(row uint32, h *head) *listRun[V] {
	next := h.v.Next
	if next > 0 && h.cold && (h.last == 0 || s.runs.At(h.last-1).seq+1 != next) {
		s.t.Fail(s.t.FaultAt(CodeOverflow, s.name, row, s.fetch(row, next-1)))
	}
	if h.last != 0 {
		id := h.last - 1
		if r := s.runs.At(id); r.seq+1 == next && r.word&present != 0 && len(r.vals) < runLen {
			s.write(id, r)
			return r
		}
	}
	s.reclaim()
	for h.last != 0 && s.runs.At(h.last-1).seq >= next { // a rewind has undone their coming
		s.t.Fail(s.dismiss(h.last - 1))
	}
	id := s.take(row, next)
	s.link(h, id, h.last, 0)
	s.heads.edit(row, h).Next++
	r := s.runs.At(id)
	s.write(id, r)
	return r
}

// write makes a run ready to be changed.
func (s *List[V]) write(id uint32, r *listRun[V]) {
	if r.word != s.t.live {
		s.change(id, r)
		r.word = s.t.live
	}
	s.pool.Ref(id)
}

// All yields the elements in order.
func (s *List[V]) All() iter.Seq[V] {
	return func(yield func(V) bool) { s.each(func(v *V) bool { return yield(*v) }) }
}

// each calls f for every element of the current row, until it returns false. Its changes of *v are not noticed, if V is
// flat.
func (s *List[V]) each(f func(v *V) bool) {
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
func (s *List[V]) walkFrom(id, end uint32, f func(v *V) bool) (at uint32, more bool) {
	for id != 0 {
		r := s.runs.At(id - 1)
		if r.seq >= end {
			return id, true
		}
		if r.word&present != 0 {
			s.pool.Ref(id - 1)
			if !s.flat && r.word != s.t.live && (s.t.tracking || r.word&backed != 0) {
				s.change(id-1, r)
				r.word = s.t.live
			}
			for i := range r.vals {
				if !f(&r.vals[i]) {
					return id, false
				}
			}
		}
		id = r.next
	}
	return 0, true
}

// Clear removes all elements.
func (s *List[V]) Clear() {
	if s.t.Entry == nil || s.head().v.Count == 0 {
		return
	}
	s.clears++
	row, h := s.t.Row, s.head()
	for id := h.first; id != 0; {
		r := s.runs.At(id - 1)
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
func (s *List[V]) remove(id uint32) {
	r := s.runs.At(id)
	row := r.row - 1
	s.change(id, r)
	s.heads.edit(row, s.headOf(row)).Count -= uint32(len(r.vals))
	r.word = s.t.live &^ present
	if !s.flat || !s.t.tracking {
		s.setVals(r, nil)
	}
	s.changes.Spend(id)
	s.t.emptied(row)
}

// setVals replaces the elements of a run.
func (s *List[V]) setVals(r *listRun[V], vals []V) {
	s.t.Meter.Add((cap(vals) - cap(r.vals)) * s.elem)
	r.vals = vals
}

// change keeps what run id was before its first change in this epoch.
func (s *List[V]) change(id uint32, r *listRun[V]) {
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
		s.changes.Open().Flat.Push(id, r.word, int32(len(r.vals)))
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

func (s *List[V]) check(r *listRun[V], err error) {
	if err != nil {
		s.t.Fail(s.t.FaultAt(CodeCodec, s.name, r.row-1, err))
	}
}

func (s *List[V]) writeEncoded(snap *epoch.Snapshot, r *listRun[V], enc []byte) (err error) {
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
func (s *List[V]) runEntry(dst []byte, row, seq uint32, e *chunk.Entry) ([]byte, error) {
	dst, err := s.t.rowEntry(dst, row, e)
	at := len(dst)
	dst = binary.AppendUvarint(dst, uint64(seq)) // as the codec writes a u32
	e.Key, e.Sub = dst[:at], dst[at:]
	return dst, err
}

func (s *List[V]) rewind() {
	back := func(id, word uint32, vals func(r *listRun[V]) []V) {
		r := s.runs.At(id)
		r.word = word
		s.setVals(r, vals(r))
		if word&present == 0 {
			s.changes.Spend(id)
			s.t.emptied(r.row - 1)
		}
	}
	s.changes.UndoAll(func(id uint32) {
		back(id, epoch.Undone, func(*listRun[V]) []V { return nil })
	}, func(p *slab.Pre[int32]) {
		back(p.ID, p.Word, func(r *listRun[V]) []V {
			clear(r.vals[p.Was:])
			return r.vals[:p.Was]
		})
	}, func(p *slab.Pre[[]byte]) {
		back(p.ID, p.Word, func(r *listRun[V]) []V {
			vals, err := s.decodeVals(p.Was)
			s.check(r, err)
			return vals
		})
	})
	s.heads.rewind()
}

// take makes a run without elements.
func (s *List[V]) take(row, seq uint32) uint32 {
	s.t.makeRoom(&s.pool, s)
	id := s.pool.Take()
	*s.runs.Ensure(id) = listRun[V]{row: row + 1, seq: seq}
	return id
}

// link puts a run between two others, which are given + 1, 0 for none.
func (s *List[V]) link(h *head, id, prev, next uint32) {
	r := s.runs.At(id)
	r.prev, r.next = prev, next
	if prev != 0 {
		s.runs.At(prev - 1).next = id + 1
	} else {
		h.first = id + 1
	}
	if next != 0 {
		s.runs.At(next - 1).prev = id + 1
	} else {
		h.last = id + 1
	}
}

// reclaim frees runs that are cleared for good.
func (s *List[V]) reclaim() {
	if s.t.Epochs.Snapshot() != nil || s.iterating > 0 {
		return
	}
	for range reclaimAtOnce {
		id, ok := s.changes.Lost.Pop()
		if !ok {
			return
		}
		if r := s.runs.At(id); r == nil || r.row == 0 || r.word&present != 0 || s.changes.Dirty(id) {
			continue
		}
		s.t.Fail(s.dismiss(id))
	}
}

// dismiss frees a run that nothing can bring back.
func (s *List[V]) dismiss(id uint32) error {
	var err error
	if s.pool.Stored.Has(id) {
		err = s.t.FaultAt(CodeOverflow, s.name, s.runs.At(id).row-1, s.discard(id))
	}
	s.release(id)
	return err
}

// release takes a run out of memory.
func (s *List[V]) release(id uint32) {
	r := s.runs.At(id)
	row := r.row - 1
	h := s.headOf(row)
	if r.prev != 0 {
		s.runs.At(r.prev - 1).next = r.next
	} else {
		h.first = r.next
	}
	if r.next != 0 {
		s.runs.At(r.next - 1).prev = r.prev
	} else {
		h.last = r.prev
	}
	if h.empty() {
		s.t.pending.Add(row)
	}
	s.setVals(r, nil)
	*r = listRun[V]{}
	s.pool.Give(id)
}

func (s *List[V]) describe() chunk.State {
	return chunk.State{Name: s.name, Kind: chunk.List, Sub: "u32", Value: s.codec.Schema(), TTL: s.opt.TTL}
}

func (s *List[V]) field() reflect.Type  { return reflect.TypeFor[head]() }
func (s *List[V]) place(offset uintptr) { s.offset = offset }

// Begin implements epoch.Sweeper.
func (s *List[V]) Begin(snap *epoch.Snapshot) { s.changes.Begin(snap) }

// Sweep implements epoch.Sweeper.
func (s *List[V]) Sweep(snap *epoch.Snapshot, limit int) (int, bool, error) {
	return s.changes.Walk(snap, limit, func(id uint32) error {
		r := s.runs.At(id)
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

func (s *List[V]) freeze() {
	s.changes.Freeze()
	s.heads.freeze()
}

func (s *List[V]) drop(n int) {
	s.changes.Drop(n)
	s.heads.drop(n)
}

func (s *List[V]) merge(i int) {
	s.changes.Merge(i)
	s.heads.merge(i)
}

func (s *List[V]) has(row uint32) bool { return s.headOf(row).v.Count > 0 }

func (s *List[V]) dirty(row uint32) bool { return s.heads.dirty(row) }

func (s *List[V]) idle(row uint32) bool { return s.headOf(row).empty() && !s.heads.dirty(row) }

func (s *List[V]) weigh(uint32) int { return 0 }

func (s *List[V]) bytes() int {
	n := s.changes.Bytes() + s.heads.changes.Bytes() + s.pool.Bytes()
	if s.heapOf != nil {
		n += s.heap.Sample(&s.pool, func(id uint32) (n int) {
			for i := range s.runs.At(id).vals {
				n += s.heapOf(&s.runs.At(id).vals[i])
			}
			return n
		})
	}
	return n
}
