package state

import (
	"fmt"
	"iter"
	"unsafe"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/snapshot/chunk"
)

// Map is a map per key: one table on (row, key in the map), with a chain per row.
type Map[M comparable, V any] struct {
	cells[V]
	hash   func(M) uint64
	keys   *codec.Codec[M]
	decKey func([]byte, *M) ([]byte, error) // of the chunk that is being loaded

	index index
	nodes slab[mapNode[M, V]]
	next  uint32 // nodes from here on were never used
	free  []uint32
	heads slab[chain] // by row

	iterating int // All is running: no node may be reused
}

// mapNode is one entry. Its cell may have lost its value; it stays in the chain until nothing can bring it back.
type mapNode[M comparable, V any] struct {
	key        M
	row        uint32 // + 1; 0: the node is free
	prev, next uint32 // in the chain of the row, + 1
	cell       cell[V]
}

// chain is what a row has of a map or list.
type chain struct {
	first, last uint32 // nodes, + 1
	count       uint32 // nodes with a value
}

// MapOf declares a map state.
func MapOf[M comparable, V any, K comparable](d *Directory[K], name string) (*Map[M, V], error) {
	c, err := newCells[V](&d.cur, name, d.opts.Registry)
	if err != nil {
		return nil, err
	}
	s := &Map[M, V]{cells: c}
	s.index = newIndex(func(id uint32) uint64 { n := s.nodes.at(id); return s.place(n.row-1, n.key) })
	if s.hash, err = codec.Hasher[M](); err != nil {
		return nil, fmt.Errorf("state %q: key: %w", name, err)
	}
	if s.keys, err = codec.Of[M](d.opts.Registry); err != nil {
		return nil, fmt.Errorf("state %q: key: %w", name, err)
	}
	s.cells.at = func(id uint32) *cell[V] { return &s.nodes.at(id).cell }
	s.cells.key = s.entryKey
	s.cells.turned = s.turn
	return s, d.declare(s)
}

func (s *Map[M, V]) entryKey(dst []byte, id uint32) ([]byte, int, error) {
	n := s.nodes.at(id)
	b, group, err := s.cur.owner.appendKey(dst, n.row-1)
	if err != nil {
		return nil, 0, err
	}
	b, err = s.keys.Append(b, &n.key)
	return b, group, err
}

// place is the hash of an entry: rows are mixed in so that equal keys of different rows lie apart.
func (s *Map[M, V]) place(row uint32, k M) uint64 {
	return codec.Mix(s.hash(k) + uint64(row)*0x9e3779b97f4a7c15)
}

// find is the node of k in the row; nil if there is none.
func (s *Map[M, V]) find(row uint32, k M, h uint64) (uint32, *mapNode[M, V]) {
	l, i := s.index.head(h), h
	for id, ok := l.find(h, &i); ok; id, ok = l.find(h, &i) {
		if n := s.nodes.at(id); n.row == row+1 && n.key == k {
			return id, n
		}
	}
	return 0, nil
}

// here is the node of k in the current row.
func (s *Map[M, V]) here(k M) (uint32, *mapNode[M, V]) {
	if s.cur.entry == nil {
		return 0, nil
	}
	return s.find(s.cur.row, k, s.place(s.cur.row, k))
}

// Get is the value of k, or the zero value.
func (s *Map[M, V]) Get(k M) V {
	v, _ := s.Load(k)
	return v
}

// Load is the value of k and whether there is one.
func (s *Map[M, V]) Load(k M) (v V, ok bool) {
	id, n := s.here(k)
	if n == nil || n.cell.word&present == 0 {
		return v, false
	}
	if !s.flat && n.cell.word != s.cur.live {
		s.access(id, &n.cell)
	}
	return n.cell.v, true
}

// Has reports whether k has a value.
func (s *Map[M, V]) Has(k M) bool {
	_, n := s.here(k)
	return n != nil && n.cell.word&present != 0
}

// Ref is the value of k in place, the zero value if there was none; it counts as a write. The pointer is valid until
// the callback returns.
func (s *Map[M, V]) Ref(k M) *V {
	if s.cur.entry == nil {
		s.cur.owner.insert()
	}
	row := s.cur.row
	h := s.place(row, k)
	id, n := s.find(row, k, h)
	if n == nil {
		id, n = s.add(row, k, h)
	}
	if n.cell.word != s.cur.live {
		s.change(id, &n.cell)
		if n.cell.word&present == 0 {
			s.heads.at(row).count++
		}
		n.cell.word = s.cur.live
	}
	return &n.cell.v
}

// Put sets the value of k.
func (s *Map[M, V]) Put(k M, v V) { *s.Ref(k) = v }

// Delete removes k.
func (s *Map[M, V]) Delete(k M) {
	if id, n := s.here(k); n != nil && n.cell.word&present != 0 {
		s.remove(id, n)
	}
}

func (s *Map[M, V]) remove(id uint32, n *mapNode[M, V]) {
	row := n.row - 1
	s.clear(id, &n.cell)
	s.spend(id)
	if head := s.heads.at(row); head.count > 1 {
		head.count--
	} else {
		head.count = 0
		s.cur.owner.emptied(row)
	}
}

// Len is the number of entries.
func (s *Map[M, V]) Len() int {
	if head := s.head(); head != nil {
		return int(head.count)
	}
	return 0
}

func (s *Map[M, V]) head() *chain {
	if s.cur.entry == nil {
		return nil
	}
	return s.heads.at(s.cur.row)
}

// All yields the entries in no particular order. The loop may change the map: an entry that it deletes before its turn
// does not come, one that it adds may come.
func (s *Map[M, V]) All() iter.Seq2[M, V] {
	return func(yield func(M, V) bool) {
		head := s.head()
		if head == nil {
			return
		}
		s.iterating++
		defer func() { s.iterating-- }()
		for id := head.first; id != 0; {
			n := s.nodes.at(id - 1)
			if n.cell.word&present != 0 {
				if !s.flat && n.cell.word != s.cur.live {
					s.access(id-1, &n.cell)
				}
				if !yield(n.key, n.cell.v) {
					return
				}
			}
			id = n.next
		}
	}
}

// Clear removes all entries.
func (s *Map[M, V]) Clear() {
	head := s.head()
	if head == nil {
		return
	}
	for id := head.first; id != 0 && head.count > 0; {
		n := s.nodes.at(id - 1)
		if n.cell.word&present != 0 {
			s.remove(id-1, n)
		}
		id = n.next
	}
}

// add makes a node without a value.
func (s *Map[M, V]) add(row uint32, k M, h uint64) (uint32, *mapNode[M, V]) {
	s.reclaim()
	var id uint32
	if n := len(s.free); n > 0 {
		id = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		id = s.next
		s.next++
	}
	n := s.nodes.ensure(id)
	head := s.heads.ensure(row)
	*n = mapNode[M, V]{key: k, row: row + 1, next: head.first}
	if head.first != 0 {
		s.nodes.at(head.first - 1).prev = id + 1
	} else {
		head.last = id + 1
	}
	head.first = id + 1
	s.index.insert(h, id)
	return id, n
}

// reclaim frees nodes that have lost their value for good.
func (s *Map[M, V]) reclaim() {
	if s.cur.snap != nil || s.iterating > 0 {
		return
	}
	for range reclaimAtOnce {
		id, ok := s.pending.pop()
		if !ok {
			return
		}
		n := s.nodes.at(id)
		if n.row == 0 || n.cell.word&present != 0 || s.dirty(id) {
			continue
		}
		row := n.row - 1
		s.index.remove(s.place(row, n.key), id)
		s.unlink(s.heads.at(row), n)
		if s.heads.at(row).first == 0 {
			s.cur.owner.idled(row)
		}
		*n = mapNode[M, V]{}
		s.free = append(s.free, id)
	}
}

func (s *Map[M, V]) unlink(head *chain, n *mapNode[M, V]) {
	if n.prev != 0 {
		s.nodes.at(n.prev - 1).next = n.next
	} else {
		head.first = n.next
	}
	if n.next != 0 {
		s.nodes.at(n.next - 1).prev = n.prev
	} else {
		head.last = n.prev
	}
}

func (s *Map[M, V]) turn(id uint32, exists bool) {
	row := s.nodes.at(id).row - 1
	if head := s.heads.at(row); exists {
		head.count++
	} else {
		head.count--
		s.spend(id)
		s.cur.owner.emptied(row)
	}
}

func (s *Map[M, V]) describe() chunk.State {
	return chunk.State{Name: s.name, Kind: chunk.Map, Sub: s.keys.Schema(), Value: s.codec.Schema()}
}

func (s *Map[M, V]) begin(snap *Snapshot) { s.start(snap, s.next) }

func (s *Map[M, V]) has(row uint32) bool {
	head := s.heads.at(row)
	return head != nil && head.count > 0
}

func (s *Map[M, V]) idle(row uint32) bool {
	head := s.heads.at(row)
	return head == nil || head.first == 0
}

func (s *Map[M, V]) forget(row uint32) {
	if head := s.heads.at(row); head != nil {
		*head = chain{}
	}
}

func (s *Map[M, V]) reading(st chunk.State) (err error) {
	if s.decKey, err = decoder(s.keys, s.registry, st.Sub); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	return s.readingValue(st.Value)
}

func (s *Map[M, V]) load(row uint32, e *chunk.Entry, sub []byte) error {
	var k M
	if err := decodeAll(s.decKey, sub, &k); err != nil {
		return fmt.Errorf("key in the map: %w", err)
	}
	h := s.place(row, k)
	id, n := s.find(row, k, h)
	if n == nil {
		if e.Deleted {
			s.cur.owner.emptied(row)
			return nil
		}
		id, n = s.add(row, k, h)
	}
	was := n.cell.word & present
	if err := s.loadValue(&n.cell, e); err != nil {
		return err
	}
	switch now := n.cell.word & present; {
	case now > was:
		s.heads.at(row).count++
	case now < was:
		s.heads.at(row).count--
		s.pending.add(id)
		s.cur.owner.emptied(row)
	}
	return nil
}

func (s *Map[M, V]) bytes() int {
	return s.changes.bytes() + s.index.bytes() + s.pending.bytes() + s.heads.count()*blockLen*int(unsafe.Sizeof(chain{})) +
		s.nodes.count()*blockLen*int(unsafe.Sizeof(mapNode[M, V]{}))
}
