package column

import (
	"fmt"
	"unsafe"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/slab"
)

// mapColumn is a Map whose types are known by their forms, but for finding keys: that is given to it.
type mapColumn struct {
	cells
	collection
	nodeKind *slab.Kind
	keyKind  *slab.Kind
	keys     *codec.Plan
	hashOf   func(k slab.Place) uint64
	// find is the node of the key at k in a row, whose place is h; nil if there is none in memory.
	find   func(row uint32, k slab.Place, h uint64) (uint32, *node)
	loaded func(k, v slab.Place) // OnImport

	index   slab.Index
	keyHeap slab.Weigher // bytes that a key refers to; nil: none
	nodes   slab.Slab

	// came are the nodes that came back from the overflow while All was running, by the number of their arrival.
	came     map[uint32]uint64
	arrivals uint64
}

// node is one entry; key and value lie behind it. Its cell may have lost its value; it stays in the chain until nothing
// can bring it back.
type node struct {
	links
	cell
}

// keyNode is a node with its key, which lies at the same distance for all types.
type keyNode[M comparable] struct {
	node
	key M
}

// mapNode is a node with key and value.
type mapNode[M comparable, V any] struct {
	keyNode[M]
	v V
}

// key is where the key of a node lies.
func (n *node) key() slab.Place { return unsafe.Add(unsafe.Pointer(n), unsafe.Sizeof(*n)) }

// mapForm is what a map has to know of its types: nodes as they lie in memory, their keys, and their values by form.
type mapForm struct {
	node, key *slab.Kind
	form      form
}

func mapFormOf[M comparable, V any]() mapForm {
	var n mapNode[M, V]
	f := mapForm{node: slab.KindOf[mapNode[M, V]](), key: slab.KindOf[M](), form: formOf[V]()}
	f.form.valueAt = unsafe.Offsetof(n.v) - unsafe.Offsetof(n.cell)
	return f
}

func (s *mapColumn) init(t *Table, name string, f mapForm, opts []Option) (err error) {
	if err = s.cells.init(t, &s.pool, name, f.form, opts); err != nil {
		return err
	}
	s.nodeKind, s.keyKind = f.node, f.key
	if s.keys, err = codec.PlanOf(f.key.Type, t.opts.Registry); err != nil {
		return fmt.Errorf("state %q: key: %w", name, err)
	}
	if err = s.heads.init(t, name, s.headOf); err != nil {
		return err
	}
	s.nodes = slab.NewSlab(&t.Meter, f.node, t.blockBits())
	s.pool = slab.NewPool(&s.nodes)
	s.index = slab.NewIndex(&t.Meter, func(id uint32) uint64 { n := s.node(id); return s.placeOf(n.row-1, n.key()) })
	s.at = func(id uint32) *cell {
		if n := s.node(id); n != nil {
			return &n.cell
		}
		return nil
	}
	s.rowOf = func(id uint32) uint32 { return s.node(id).row - 1 }
	s.entry = s.nodeEntry
	s.turned = func(id uint32, exists bool) {
		if !exists {
			s.changes.Spend(id)
			s.t.emptied(s.node(id).row - 1)
		}
	}
	s.keyHeap = slab.WeigherOf(f.key.Type)
	s.linksOf = func(id uint32) *links { return &s.node(id).links }
	s.number, err = t.declare(s)
	return err
}

// node is the one with this id; nil if its block does not exist.
func (s *mapColumn) node(id uint32) *node { return (*node)(s.nodes.At(id)) }

func (s *mapColumn) nodeEntry(dst []byte, id uint32, e *chunk.Entry) ([]byte, error) {
	n := s.node(id)
	dst, err := s.t.rowEntry(dst, n.row-1, e)
	if err != nil {
		return dst, err
	}
	at := len(dst)
	dst, err = s.keys.Append(dst, n.key())
	e.Key, e.Sub = dst[:at], dst[at:]
	return dst, err
}

// placeOf is the hash of an entry: rows are mixed in so that equal keys of different rows lie apart.
func placeOf(row uint32, hash uint64) uint64 { return codec.Mix(hash + uint64(row)*0x9e3779b97f4a7c15) }

func (s *mapColumn) placeOf(row uint32, k slab.Place) uint64 { return placeOf(row, s.hashOf(k)) }

// here is the node of the key at k in the current row; nil if there is none.
func (s *mapColumn) here(k slab.Place) (uint32, *node) {
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

// read is the value of a node, for a reader who may keep what it leads to; nil if there is none.
func (s *mapColumn) read(id uint32, n *node) slab.Place {
	if n == nil || n.word&present == 0 {
		return nil
	}
	if !s.flat && n.word != s.t.live {
		s.access(id, &n.cell)
	}
	return s.value(&n.cell)
}

// write makes the cell of a node of the current row ready for writing.
func (s *mapColumn) write(id uint32, n *node) {
	s.change(id, &n.cell)
	if n.word&present == 0 {
		s.heads.edit(s.t.Row, s.head()).Count++
	}
	n.word = s.t.live
}

func (s *mapColumn) remove(id uint32) {
	n := s.node(id)
	row := n.row - 1
	s.clear(id, &n.cell)
	s.heads.edit(row, s.headOf(row)).Count--
	s.changes.Spend(id)
	s.t.emptied(row)
}

// each calls f for every entry of the current row, until it returns false. Its changes of v are not noticed.
func (s *mapColumn) each(f func(k, v slab.Place) bool) {
	if s.t.Entry == nil {
		return
	}
	s.iterating++
	defer s.iterated()
	row, h, since := s.t.Row, s.head(), s.arrivals
	for id := h.first; id != 0; {
		n := s.node(id - 1)
		if n.word&present != 0 {
			if !s.flat && n.word != s.t.live {
				s.access(id-1, &n.cell)
			}
			if !f(n.key(), s.value(&n.cell)) {
				return
			}
		}
		id = n.next
	}
	if h.cold {
		s.t.Fail(s.t.FaultAt(CodeOverflow, s.name, row, s.eachCold(row, since, f)))
	}
}

func (s *mapColumn) iterated() {
	if s.iterating--; s.iterating == 0 {
		s.came = nil
	}
}

// clearRow removes all entries of the current row.
func (s *mapColumn) clearRow() {
	if s.t.Entry == nil || s.head().v.Count == 0 {
		return
	}
	h := s.head()
	for id := h.first; id != 0 && h.v.Count > 0; {
		n := s.node(id - 1)
		if n.word&present != 0 {
			s.remove(id - 1)
		}
		id = n.next
	}
	if h.cold && h.v.Count > 0 {
		s.t.Fail(s.t.FaultAt(CodeOverflow, s.name, s.t.Row, s.clearCold(s.t.Row)))
	}
}

// add makes a node without a value, for the key at k.
func (s *mapColumn) add(row uint32, k slab.Place, place uint64) (uint32, *node) {
	s.reclaim()
	s.t.makeRoom(&s.pool, s)
	id := s.pool.Take()
	n := (*node)(s.nodes.Ensure(id))
	*n = node{links: links{row: row + 1}}
	s.keyKind.Move(n.key(), k)
	h := s.headOf(row)
	s.link(h, id, 0, h.first)
	s.index.Insert(place, id)
	s.pool.Ref(id)
	return id, n
}

// reclaim frees nodes that have lost their value for good.
func (s *mapColumn) reclaim() {
	if s.t.Epochs.Snapshot() != nil || s.iterating > 0 {
		return
	}
	for range reclaimAtOnce {
		id, ok := s.changes.Lost.Pop()
		if !ok {
			return
		}
		if n := s.node(id); n == nil || n.row == 0 || n.word&present != 0 || s.changes.Dirty(id) {
			continue
		}
		if s.pool.Stored.Has(id) {
			s.t.Fail(s.t.FaultAt(CodeOverflow, s.name, s.node(id).row-1, s.discard(id)))
		}
		s.release(id)
	}
}

// release takes a node out of memory.
func (s *mapColumn) release(id uint32) {
	n := s.node(id)
	s.index.Remove(s.placeOf(n.row-1, n.key()), id)
	s.unlink(&n.links)
	s.nodeKind.Zero(unsafe.Pointer(n))
	s.pool.Give(id)
}

func (s *mapColumn) describe() chunk.State {
	return chunk.State{Name: s.name, Kind: s.opt.kind(chunk.Map), Sub: s.keys.Schema(), Value: s.codec.Schema(), TTL: s.opt.TTL}
}

func (s *mapColumn) freeze() {
	s.cells.freeze()
	s.heads.freeze()
}

func (s *mapColumn) drop(n int) {
	s.cells.drop(n)
	s.heads.drop(n)
}

func (s *mapColumn) merge(i int) {
	s.cells.merge(i)
	s.heads.merge(i)
}

func (s *mapColumn) rewind() {
	s.cells.rewind()
	s.heads.rewind()
}

func (s *mapColumn) weighNode(id uint32) (n int) {
	node := s.node(id)
	if s.keyHeap != nil {
		n = s.keyHeap(node.key())
	}
	if s.heapOf != nil {
		n += s.heapOf(s.value(&node.cell))
	}
	return n
}

func (s *mapColumn) bytes() int {
	n := s.changes.Bytes() + s.heads.changes.Bytes() + s.pool.Bytes()
	if s.heapOf != nil || s.keyHeap != nil {
		n += s.heap.Sample(&s.pool, s.weighNode)
	}
	return n
}
