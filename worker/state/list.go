package state

import (
	"encoding/binary"
	"fmt"
	"iter"
	"unsafe"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/snapshot/chunk"
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
	changes[int32]
	name     string
	registry *codec.Registry
	codec    *codec.Codec[V]
	flat     bool
	decode   func([]byte, *V) ([]byte, error) // of the chunk that is being loaded
	scratch  []byte

	runs  slab[run[V]]
	next  uint32 // runs from here on were never used
	free  []uint32
	heads slab[chain] // by row; count is that of elements

	iterating int // All is running: no run may be reused
}

// run is a piece of a list. After Clear it stays in the chain, with its elements, until nothing can bring it back; a
// list that grows again continues its numbering, so that no tombstone meets a new run of the same number.
type run[V any] struct {
	vals       []V
	word       uint32
	seq        uint32 // number in the list
	row        uint32 // + 1; 0: the run is free
	prev, next uint32 // in the chain of the row, + 1
}

func (r *run[V]) len() int {
	if r.word&present == 0 {
		return 0
	}
	return len(r.vals)
}

// ListOf declares a list state.
func ListOf[V any, K comparable](d *Directory[K], name string) (*List[V], error) {
	c, err := codec.Of[V](d.opts.Registry)
	if err != nil {
		return nil, fmt.Errorf("state %q: %w", name, err)
	}
	s := &List[V]{changes: newChanges[int32](&d.cur), name: name, registry: d.opts.Registry, codec: c, flat: c.Flat()}
	return s, d.declare(s)
}

func (s *List[V]) head() *chain {
	if s.cur.entry == nil {
		return nil
	}
	return s.heads.at(s.cur.row)
}

// Len is the number of elements.
func (s *List[V]) Len() int {
	if head := s.head(); head != nil {
		return int(head.count)
	}
	return 0
}

// Append adds elements at the end.
func (s *List[V]) Append(vs ...V) {
	if len(vs) == 0 {
		return
	}
	if s.cur.entry == nil {
		s.cur.owner.insert()
	}
	row := s.cur.row
	head := s.heads.ensure(row)
	for _, v := range vs {
		r := s.tail(row, head)
		r.vals = append(r.vals, v)
		head.count++
	}
}

// tail is the run to append to.
func (s *List[V]) tail(row uint32, head *chain) *run[V] {
	var id, seq uint32
	if head.last != 0 {
		id = head.last - 1
		r := s.runs.at(id)
		if r.word&present != 0 && len(r.vals) < runLen {
			if r.word != s.cur.live {
				s.change(id, r)
				r.word = s.cur.live
			}
			return r
		}
		seq = r.seq + 1
	}
	s.reclaim()
	if head.last == 0 {
		seq = 0
	}
	id = s.take(row, seq)
	s.link(head, id, head.last, 0)
	r := s.runs.at(id)
	s.change(id, r)
	r.word = s.cur.live
	return r
}

// All yields the elements in order.
func (s *List[V]) All() iter.Seq[V] {
	return func(yield func(V) bool) {
		head := s.head()
		if head == nil {
			return
		}
		s.iterating++
		defer func() { s.iterating-- }()
		for id := head.first; id != 0; {
			r := s.runs.at(id - 1)
			if r.word&present != 0 {
				if !s.flat && r.word != s.cur.live && s.cur.tracking {
					s.change(id-1, r)
					r.word = s.cur.live
				}
				for _, v := range r.vals {
					if !yield(v) {
						return
					}
				}
			}
			id = r.next
		}
	}
}

// Clear removes all elements.
func (s *List[V]) Clear() {
	head := s.head()
	if head == nil || head.count == 0 {
		return
	}
	for id := head.first; id != 0; {
		r := s.runs.at(id - 1)
		if r.word&present != 0 {
			s.change(id-1, r)
			r.word = s.cur.live &^ present
			if !s.flat || !s.cur.tracking {
				r.vals = nil
			}
			s.spend(id - 1)
		}
		id = r.next
	}
	head.count = 0
	s.cur.owner.emptied(s.cur.row)
}

// change keeps what run id was before its first change in this epoch.
func (s *List[V]) change(id uint32, r *run[V]) {
	if !s.cur.tracking || r.word>>1 == s.cur.live>>1 {
		return
	}
	unwritten := s.unwritten(id)
	first := s.open().dirty.add(id)
	if s.flat {
		if unwritten {
			s.check(s.write(s.cur.snap, id, r))
		}
		if first {
			s.open().flat.push(pre[int32]{id, r.word, int32(len(r.vals))})
		}
		return
	}
	if !unwritten && !first {
		return
	}
	enc, err := s.encode(s.scratch[:0], r)
	if err != nil {
		s.check(err)
		return
	}
	s.scratch = enc
	if unwritten {
		s.check(s.writeEncoded(s.cur.snap, id, r, enc))
	}
	if first {
		s.open().enc.push(pre[[]byte]{id, r.word, s.arena.copy(enc)})
	}
}

func (s *List[V]) check(err error) {
	if err != nil {
		s.cur.fail(fmt.Errorf("state %q: %w", s.name, err))
	}
}

// encode appends the elements of a run behind their number; nothing if it is cleared.
func (s *List[V]) encode(b []byte, r *run[V]) (_ []byte, err error) {
	if r.word&present == 0 {
		return b, nil
	}
	b = binary.AppendUvarint(b, uint64(len(r.vals)))
	for i := range r.vals {
		if b, err = s.codec.Append(b, &r.vals[i]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func decodeRun[V any](decode func([]byte, *V) ([]byte, error), b []byte) ([]V, error) {
	count, n := binary.Uvarint(b)
	if n <= 0 || count > maxRun {
		return nil, fmt.Errorf("%w: bad number of elements", codec.ErrCorrupt)
	}
	b = b[n:]
	vals := make([]V, 0, min(int(count), runLen))
	for range count {
		var v V
		var err error
		if b, err = decode(b, &v); err != nil {
			return nil, err
		}
		vals = append(vals, v)
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%w: %d bytes behind the last element", codec.ErrCorrupt, len(b))
	}
	return vals, nil
}

func (s *List[V]) write(snap *Snapshot, id uint32, r *run[V]) (err error) {
	if snap.value, err = s.encode(snap.value[:0], r); err != nil {
		return err
	}
	return s.writeEncoded(snap, id, r, snap.value)
}

func (s *List[V]) writeEncoded(snap *Snapshot, _ uint32, r *run[V], enc []byte) error {
	exists := r.word&present != 0
	if r.row == 0 || !exists && snap.extent == Full {
		return nil
	}
	key, group, err := s.cur.owner.appendKey(snap.key[:0], r.row-1)
	if err != nil {
		return err
	}
	snap.key = binary.AppendUvarint(key, uint64(r.seq)) // as the codec writes a u32
	return snap.put(s.name, group, exists, enc)
}

func (s *List[V]) rewind() {
	back := func(id, word uint32, vals func(r *run[V]) []V) {
		r := s.runs.at(id)
		head := s.heads.at(r.row - 1)
		head.count -= uint32(r.len())
		r.word, r.vals = word, vals(r)
		head.count += uint32(r.len())
		if word&present == 0 {
			s.spend(id)
			s.cur.owner.emptied(r.row - 1)
		}
	}
	s.undo(func(p *pre[int32]) {
		back(p.id, p.word, func(r *run[V]) []V {
			clear(r.vals[p.was:])
			return r.vals[:p.was]
		})
	}, func(p *pre[[]byte]) {
		back(p.id, p.word, func(*run[V]) (vals []V) {
			if p.word&present != 0 {
				var err error
				vals, err = decodeRun(s.codec.Decode, p.was)
				s.check(err)
			}
			return vals
		})
	})
}

// take makes a run without elements.
func (s *List[V]) take(row, seq uint32) uint32 {
	var id uint32
	if n := len(s.free); n > 0 {
		id = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		id = s.next
		s.next++
	}
	*s.runs.ensure(id) = run[V]{row: row + 1, seq: seq}
	return id
}

// link puts a run between two others, which are given + 1, 0 for none.
func (s *List[V]) link(head *chain, id, prev, next uint32) {
	r := s.runs.at(id)
	r.prev, r.next = prev, next
	if prev != 0 {
		s.runs.at(prev - 1).next = id + 1
	} else {
		head.first = id + 1
	}
	if next != 0 {
		s.runs.at(next - 1).prev = id + 1
	} else {
		head.last = id + 1
	}
}

// reclaim frees runs that are cleared for good.
func (s *List[V]) reclaim() {
	if s.cur.snap != nil || s.iterating > 0 {
		return
	}
	for range reclaimAtOnce {
		id, ok := s.pending.pop()
		if !ok {
			return
		}
		r := s.runs.at(id)
		if r.row == 0 || r.word&present != 0 || s.dirty(id) {
			continue
		}
		head := s.heads.at(r.row - 1)
		if r.prev != 0 {
			s.runs.at(r.prev - 1).next = r.next
		} else {
			head.first = r.next
		}
		if r.next != 0 {
			s.runs.at(r.next - 1).prev = r.prev
		} else {
			head.last = r.prev
		}
		if head.first == 0 {
			s.cur.owner.idled(r.row - 1)
		}
		*r = run[V]{}
		s.free = append(s.free, id)
	}
}

func (s *List[V]) describe() chunk.State {
	return chunk.State{Name: s.name, Kind: chunk.List, Sub: "u32", Value: s.codec.Schema()}
}

func (s *List[V]) begin(snap *Snapshot) { s.start(snap, s.next) }

func (s *List[V]) sweep(snap *Snapshot, limit int) (int, bool, error) {
	return s.walk(snap, limit, func(id uint32) error {
		r := s.runs.at(id)
		if r.word>>1 > snap.epoch { // written when it changed
			return nil
		}
		return s.write(snap, id, r)
	})
}

func (s *List[V]) has(row uint32) bool {
	head := s.heads.at(row)
	return head != nil && head.count > 0
}

func (s *List[V]) idle(row uint32) bool {
	head := s.heads.at(row)
	return head == nil || head.first == 0
}

func (s *List[V]) forget(row uint32) {
	if head := s.heads.at(row); head != nil {
		*head = chain{}
	}
}

func (s *List[V]) reading(st chunk.State) (err error) {
	if st.Sub != "u32" {
		return fmt.Errorf("%w: runs of a list are numbered by %q", chunk.ErrCorrupt, st.Sub)
	}
	s.decode, err = decoder(s.codec, s.registry, st.Value)
	return err
}

// load takes a run. Runs may come in any order, and again from a later chunk.
func (s *List[V]) load(row uint32, e *chunk.Entry, sub []byte) error {
	seq, n := binary.Uvarint(sub)
	if n != len(sub) || n == 0 || seq > 1<<32-2 {
		return fmt.Errorf("%w: bad number of a run", chunk.ErrCorrupt)
	}
	var vals []V
	if !e.Deleted {
		var err error
		if vals, err = decodeRun(s.decode, e.Value); err != nil {
			return err
		}
	}
	head := s.heads.ensure(row)
	id, found, prev, next := s.search(head, uint32(seq))
	switch {
	case !found && e.Deleted:
		s.cur.owner.emptied(row)
		return nil
	case !found:
		id = s.take(row, uint32(seq))
		s.link(head, id, prev, next)
	}
	r := s.runs.at(id)
	head.count -= uint32(r.len())
	r.vals, r.word = vals, present
	if e.Deleted {
		r.word = 0
		s.pending.add(id)
		s.cur.owner.emptied(row)
	}
	head.count += uint32(r.len())
	return nil
}

// search finds the run with number seq, or its place: the runs before and behind it, + 1. It looks from the end,
// because runs usually come in order.
func (s *List[V]) search(head *chain, seq uint32) (id uint32, found bool, prev, next uint32) {
	prev = head.last
	for prev != 0 && s.runs.at(prev-1).seq > seq {
		prev, next = s.runs.at(prev-1).prev, prev
	}
	if prev != 0 && s.runs.at(prev-1).seq == seq {
		return prev - 1, true, 0, 0
	}
	return 0, false, prev, next
}

func (s *List[V]) bytes() int {
	n := s.changes.bytes() + s.pending.bytes() + s.heads.count()*blockLen*int(unsafe.Sizeof(chain{})) + s.runs.count()*blockLen*int(unsafe.Sizeof(run[V]{}))
	return n
}
