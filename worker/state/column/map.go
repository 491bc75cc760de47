package column

import (
	"fmt"
	"iter"
	"reflect"
	"unsafe"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/slab"
)

// Map is a map per key: one table on (row, key in the map), with a chain per row.
type Map[M comparable, V any] struct {
	cells[V]
	hash   func(M) uint64
	keys   *codec.Codec[M]
	offset uintptr // of the head in a row
	heads  heads
	loaded func(k M, v *V) // OnImport

	index   slab.Index
	keyHeap func(*M) int // bytes that a key refers to; nil: none
	heap    slab.Average
	nodes   slab.Slab[mapNode[M, V]]
	pool    slab.Pool

	iterating int // All is running: no node may be reused
	// came are the nodes that came back from the overflow while All was running, by the number of their arrival.
	came     map[uint32]uint64
	arrivals uint64
}

// mapNode is one entry. Its cell may have lost its value; it stays in the chain until nothing can bring it back.
type mapNode[M comparable, V any] struct {
	key        M
	row        uint32 // + 1; 0: the node is free
	prev, next uint32 // in the chain of the row, + 1
	cell       cell[V]
}

// NewMap declares a map state.
func NewMap[M comparable, V any](t *Table, name string, opts ...Option) (*Map[M, V], error) {
	s := &Map[M, V]{}
	var err error
	if s.cells, err = newCells[V](t, &s.pool, name, opts); err != nil {
		return nil, err
	}
	if s.hash, err = codec.Hasher[M](); err != nil {
		return nil, fmt.Errorf("state %q: key: %w", name, err)
	}
	if s.keys, err = codec.Of[M](t.opts.Registry); err != nil {
		return nil, fmt.Errorf("state %q: key: %w", name, err)
	}
	if s.heads, err = newHeads(t, name, s.headOf); err != nil {
		return nil, err
	}
	s.nodes = slab.NewSlab[mapNode[M, V]](&s.t.Meter, s.t.blockBits())
	s.pool = slab.NewPool(&s.nodes)
	s.index = slab.NewIndex(&s.t.Meter, func(id uint32) uint64 { n := s.nodes.At(id); return s.placeOf(n.row-1, n.key) })
	s.cells.at = func(id uint32) *cell[V] { return &s.nodes.At(id).cell }
	s.cells.rowOf = func(id uint32) uint32 { return s.nodes.At(id).row - 1 }
	s.cells.entry = s.nodeEntry
	s.cells.turned = func(id uint32, exists bool) {
		if !exists {
			s.changes.Spend(id)
			s.t.emptied(s.nodes.At(id).row - 1)
		}
	}
	s.keyHeap = slab.WeigherFor[M]()
	s.number, err = t.declare(s)
	return s, err
}

func (s *Map[M, V]) headOf(row uint32) *head { return (*head)(unsafe.Add(s.t.Rows.At(row), s.offset)) }

func (s *Map[M, V]) nodeEntry(dst []byte, id uint32, e *chunk.Entry) ([]byte, error) {
	n := s.nodes.At(id)
	dst, err := s.t.rowEntry(dst, n.row-1, e)
	if err != nil {
		return dst, err
	}
	at := len(dst)
	dst, err = s.keys.Append(dst, &n.key)
	e.Key, e.Sub = dst[:at], dst[at:]
	return dst, err
}

// placeOf is the hash of an entry: rows are mixed in so that equal keys of different rows lie apart.
func (s *Map[M, V]) placeOf(row uint32, k M) uint64 {
	return codec.Mix(s.hash(k) + uint64(row)*0x9e3779b97f4a7c15)
}

// find is the node of k in the row; nil if there is none in memory.
func (s *Map[M, V]) find(row uint32, k M, h uint64) (uint32, *mapNode[M, V]) {
	l, i := s.index.Head(h), h
	for id, ok := l.Find(h, &i); ok; id, ok = l.Find(h, &i) {
		if n := s.nodes.At(id); n.row == row+1 && n.key == k {
			s.pool.Ref(id)
			return id, n
		}
	}
	return 0, nil
}

// here is the node of k in the current row; nil if there is none.
func (s *Map[M, V]) here(k M) (uint32, *mapNode[M, V]) {
	if s.t.Entry == nil {
		return 0, nil
	}
	row, h := s.t.Row, s.placeOf(s.t.Row, k)
	if id, n := s.find(row, k, h); n != nil {
		return id, n
	}
	if !s.head().cold {
		return 0, nil
	}
	return s.fetch(row, k, h)
}

// head is that of the current row, which exists.
func (s *Map[M, V]) head() *head { return (*head)(unsafe.Add(s.t.Entry, s.offset)) }

// Get is the value of k, or the zero value.
func (s *Map[M, V]) Get(k M) V {
	v, _ := s.Load(k)
	return v
}

// Load is the value of k and whether there is one.
func (s *Map[M, V]) Load(k M) (v V, ok bool) {
	if p := s.Peek(k); p != nil {
		return *p, true
	}
	return v, false
}

// Peek is the value of k in place, nil if there is none. It must not be changed, and is valid as Ref is.
func (s *Map[M, V]) Peek(k M) *V {
	id, n := s.here(k)
	if n == nil || n.cell.word&present == 0 {
		return nil
	}
	if !s.flat && n.cell.word != s.t.live {
		s.access(id, &n.cell)
	}
	return &n.cell.v
}

// Look is Peek for callers that keep nothing of what the value leads to.
func (s *Map[M, V]) Look(k M) *V {
	if _, n := s.here(k); n != nil && n.cell.word&present != 0 {
		return &n.cell.v
	}
	return nil
}

// Has reports whether k has a value.
func (s *Map[M, V]) Has(k M) bool {
	_, n := s.here(k)
	return n != nil && n.cell.word&present != 0
}

// Ref is the value of k in place, the zero value if there was none; it counts as a write. The pointer is valid until
// the callback returns, or the next Seek.
func (s *Map[M, V]) Ref(k M) *V {
	if s.t.Entry == nil {
		s.t.keys.Insert()
	}
	id, n := s.here(k)
	if n == nil {
		id, n = s.add(s.t.Row, k, s.placeOf(s.t.Row, k))
	}
	if n.cell.word != s.t.live {
		s.change(id, &n.cell)
		if n.cell.word&present == 0 {
			s.heads.edit(s.t.Row, s.head()).Count++
		}
		n.cell.word = s.t.live
	}
	return &n.cell.v
}

// Put sets the value of k.
func (s *Map[M, V]) Put(k M, v V) { *s.Ref(k) = v }

// Delete removes k.
func (s *Map[M, V]) Delete(k M) {
	if id, n := s.here(k); n != nil && n.cell.word&present != 0 {
		s.remove(id)
	}
}

func (s *Map[M, V]) remove(id uint32) {
	n := s.nodes.At(id)
	row := n.row - 1
	s.clear(id, &n.cell)
	s.heads.edit(row, s.headOf(row)).Count--
	s.changes.Spend(id)
	s.t.emptied(row)
}

// Len is the number of entries.
func (s *Map[M, V]) Len() int {
	if s.t.Entry == nil {
		return 0
	}
	return int(s.head().v.Count)
}

// Exists reports whether there are entries.
func (s *Map[M, V]) Exists() bool { return s.Len() > 0 }

// All yields the entries in no particular order. The loop may change the map: an entry that it deletes before its turn
// does not come, one that it adds may come.
func (s *Map[M, V]) All() iter.Seq2[M, V] {
	return func(yield func(M, V) bool) {
		s.each(func(k M, v *V) bool { return yield(k, *v) })
	}
}

// each calls f for every entry of the current row, until it returns false. Its changes of *v are not noticed.
func (s *Map[M, V]) each(f func(k M, v *V) bool) {
	if s.t.Entry == nil {
		return
	}
	s.iterating++
	defer s.iterated()
	row, h, since := s.t.Row, s.head(), s.arrivals
	for id := h.first; id != 0; {
		n := s.nodes.At(id - 1)
		if n.cell.word&present != 0 {
			if !s.flat && n.cell.word != s.t.live {
				s.access(id-1, &n.cell)
			}
			if !f(n.key, &n.cell.v) {
				return
			}
		}
		id = n.next
	}
	if h.cold {
		s.t.Fail(s.t.FaultAt(CodeOverflow, s.name, row, s.eachCold(row, since, f)))
	}
}

func (s *Map[M, V]) iterated() {
	if s.iterating--; s.iterating == 0 {
		s.came = nil
	}
}

// Clear removes all entries.
func (s *Map[M, V]) Clear() {
	if s.t.Entry == nil || s.head().v.Count == 0 {
		return
	}
	h := s.head()
	for id := h.first; id != 0 && h.v.Count > 0; {
		n := s.nodes.At(id - 1)
		if n.cell.word&present != 0 {
			s.remove(id - 1)
		}
		id = n.next
	}
	if h.cold && h.v.Count > 0 {
		s.t.Fail(s.t.FaultAt(CodeOverflow, s.name, s.t.Row, s.clearCold(s.t.Row)))
	}
}

// add makes a node without a value.
func (s *Map[M, V]) add(row uint32, k M, h uint64) (uint32, *mapNode[M, V]) {
	s.reclaim()
	s.t.makeRoom(&s.pool, s)
	id := s.pool.Take()
	n := s.nodes.Ensure(id)
	head := s.headOf(row)
	*n = mapNode[M, V]{key: k, row: row + 1, next: head.first}
	if head.first != 0 {
		s.nodes.At(head.first - 1).prev = id + 1
	} else {
		head.last = id + 1
	}
	head.first = id + 1
	s.index.Insert(h, id)
	s.pool.Ref(id)
	return id, n
}

// reclaim frees nodes that have lost their value for good.
func (s *Map[M, V]) reclaim() {
	if s.t.Epochs.Snapshot() != nil || s.iterating > 0 {
		return
	}
	for range reclaimAtOnce {
		id, ok := s.changes.Lost.Pop()
		if !ok {
			return
		}
		if n := s.nodes.At(id); n == nil || n.row == 0 || n.cell.word&present != 0 || s.cells.changes.Dirty(id) {
			continue
		}
		if s.pool.Stored.Has(id) {
			s.t.Fail(s.t.FaultAt(CodeOverflow, s.name, s.nodes.At(id).row-1, s.discard(id)))
		}
		s.release(id)
	}
}

// release takes a node out of memory.
func (s *Map[M, V]) release(id uint32) {
	n := s.nodes.At(id)
	row := n.row - 1
	s.index.Remove(s.placeOf(row, n.key), id)
	head := s.headOf(row)
	if n.prev != 0 {
		s.nodes.At(n.prev - 1).next = n.next
	} else {
		head.first = n.next
	}
	if n.next != 0 {
		s.nodes.At(n.next - 1).prev = n.prev
	} else {
		head.last = n.prev
	}
	if head.empty() {
		s.t.pending.Add(row)
	}
	*n = mapNode[M, V]{}
	s.pool.Give(id)
}

// OnImport has f called for every entry that Import takes, with its key as the current one.
func (s *Map[M, V]) OnImport(f func(k M, v *V)) { s.loaded = f }

func (s *Map[M, V]) describe() chunk.State {
	return chunk.State{Name: s.name, Kind: s.opt.kind(chunk.Map), Sub: s.keys.Schema(), Value: s.codec.Schema(), TTL: s.opt.TTL}
}

func (s *Map[M, V]) field() reflect.Type  { return reflect.TypeFor[head]() }
func (s *Map[M, V]) place(offset uintptr) { s.offset = offset }

func (s *Map[M, V]) freeze() {
	s.cells.freeze()
	s.heads.freeze()
}

func (s *Map[M, V]) drop(n int) {
	s.cells.drop(n)
	s.heads.drop(n)
}

func (s *Map[M, V]) merge(i int) {
	s.cells.merge(i)
	s.heads.merge(i)
}

func (s *Map[M, V]) rewind() {
	s.cells.rewind()
	s.heads.rewind()
}

func (s *Map[M, V]) has(row uint32) bool { return s.headOf(row).v.Count > 0 }

func (s *Map[M, V]) dirty(row uint32) bool { return s.heads.dirty(row) }

func (s *Map[M, V]) idle(row uint32) bool { return s.headOf(row).empty() && !s.heads.dirty(row) }

func (s *Map[M, V]) weigh(uint32) int { return 0 }

func (s *Map[M, V]) weighNode(id uint32) (n int) {
	node := s.nodes.At(id)
	if s.keyHeap != nil {
		n = s.keyHeap(&node.key)
	}
	if s.heapOf != nil {
		n += s.heapOf(&node.cell.v)
	}
	return n
}

func (s *Map[M, V]) bytes() int {
	n := s.changes.Bytes() + s.heads.changes.Bytes() + s.pool.Bytes()
	if s.heapOf != nil || s.keyHeap != nil {
		n += s.heap.Sample(&s.pool, s.weighNode)
	}
	return n
}
