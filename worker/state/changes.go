package state

import (
	"slices"
	"unsafe"

	"github.com/sluiceio/sluice/snapshot/chunk"
)

// Cursor is what the handles of a directory share: the current row and the epoch. It does not know the type of the key.
type Cursor struct {
	entry unsafe.Pointer // the current row in memory; nil if the current key has none
	row   uint32         // number of the current row, if entry is not nil
	// live is the word of a cell that has a value and was written in this epoch.
	live     uint32
	tracking bool
	owner    owner
	snap     *Snapshot // being written; nil if none
	err      error     // the first failure of a codec; ends the attempt
}

// owner is the directory, as its columns see it. Nothing here is called more than once per cell and epoch.
type owner interface {
	// insert makes a row for the current key.
	insert()
	// emptied says that a state of the row was cleared.
	emptied(row uint32)
	// idled says that the row may be idle now, although nothing was cleared in this epoch.
	idled(row uint32)
	// appendKey appends the encoded key of the row and returns its key group.
	appendKey(dst []byte, row uint32) ([]byte, int, error)
}

// cell is one value with its history: word is the epoch of its last change, shifted left, and 1 if there is a value.
// A cell without a value holds the zero value.
type cell[V any] struct {
	word uint32
	v    V
}

const present = 1

// column is a state of an operator, as the directory sees it.
type column interface {
	describe() chunk.State
	// freeze closes the open segment and opens another.
	freeze()
	// drop forgets the n oldest segments: a completed checkpoint has them.
	drop(n int)
	// merge joins segment i to the one behind it: its checkpoint was aborted.
	merge(i int)
	// rewind undoes all segments, newest first, and leaves an empty open one.
	rewind()
	// begin fixes what the snapshot will write; sweep writes up to limit cells and reports whether it has reached the end.
	begin(s *Snapshot)
	sweep(s *Snapshot, limit int) (n int, done bool, err error)
	// has reports whether the row has this state, idle whether nothing can bring it back either.
	has(row uint32) bool
	idle(row uint32) bool
	// forget prepares the row, which is idle, for another key.
	forget(row uint32)
	// load takes an entry of a chunk into the row.
	load(row uint32, e *chunk.Entry, sub []byte) error
	// reading compiles decoders for the schema that a chunk has for this state.
	reading(s chunk.State) error
	bytes() int
}

// pre is the pre-image of a cell.
type pre[P any] struct {
	id, word uint32
	was      P
}

// segment is what one epoch has changed in one column.
type segment[P any] struct {
	dirty bitmap
	// Pre-images: of flat types as they are, of others encoded. The oldest entry of an id counts.
	flat log[pre[P]]
	enc  log[pre[[]byte]]
	// spent are ids whose cell has lost its value and may be free when the segment goes; used by lists and maps.
	spent bitmap
}

// changes is the change tracking of a column whose flat pre-images are of type P.
type changes[P any] struct {
	cur   *Cursor
	segs  []*segment[P] // oldest first; the last one is open
	arena arena
	// pending are ids that may be free; used by lists and maps.
	pending queue

	// Of the snapshot that is being written.
	frozen  bitmap // ids to write; not used by a full snapshot
	limit   uint32 // ids from here on did not exist
	drained uint32 // ids below are written
}

func newChanges[P any](cur *Cursor) changes[P] {
	return changes[P]{cur: cur, segs: []*segment[P]{{}}}
}

func (c *changes[P]) open() *segment[P] { return c.segs[len(c.segs)-1] }

func (c *changes[P]) freeze() { c.segs = append(c.segs, &segment[P]{}) }

// dirty reports whether a segment can bring cell id back.
func (c *changes[P]) dirty(id uint32) bool {
	for _, s := range c.segs {
		if s.dirty.has(id) {
			return true
		}
	}
	return false
}

// unwritten reports whether the snapshot still has to write cell id, which has not changed since the barrier.
func (c *changes[P]) unwritten(id uint32) bool {
	s := c.cur.snap
	return s != nil && id >= c.drained && id < c.limit && (s.extent == Full || c.frozen.has(id))
}

func (c *changes[P]) drop(n int) {
	for _, s := range c.segs[:n] {
		c.pending.push(s.spent)
	}
	c.segs = slices.Delete(c.segs, 0, n)
}

// spend says that cell id has lost its value.
func (c *changes[P]) spend(id uint32) {
	if c.cur.tracking {
		c.open().spent.add(id)
	} else {
		c.pending.add(id)
	}
}

func (c *changes[P]) merge(i int) {
	old, next := c.segs[i], c.segs[i+1]
	old.flat.join(&next.flat, func(p *pre[P]) bool { return !old.dirty.has(p.id) })
	old.enc.join(&next.enc, func(p *pre[[]byte]) bool { return !old.dirty.has(p.id) })
	old.dirty.merge(&next.dirty)
	old.spent.merge(&next.spent)
	c.segs = slices.Delete(c.segs, i+1, i+2)
}

// undo hands out all pre-images, newest first, and forgets them.
func (c *changes[P]) undo(flat func(*pre[P]), enc func(*pre[[]byte])) {
	for i := len(c.segs) - 1; i >= 0; i-- {
		c.segs[i].flat.backward(flat)
		c.segs[i].enc.backward(enc)
	}
	for _, s := range c.segs {
		c.pending.push(s.spent)
	}
	c.segs = []*segment[P]{{}}
}

// start fixes the set of the snapshot: all closed segments, none of which is known to be completed.
func (c *changes[P]) start(s *Snapshot, ids uint32) {
	c.limit, c.drained, c.frozen = ids, 0, bitmap{}
	if s.extent == Full {
		return
	}
	closed := c.segs[:len(c.segs)-1]
	if len(closed) == 1 {
		c.frozen = closed[0].dirty // does not change any more
		return
	}
	for _, seg := range closed {
		c.frozen.merge(&seg.dirty)
	}
}

// walk calls write for the next ids of the snapshot, at most limit.
func (c *changes[P]) walk(s *Snapshot, limit int, write func(id uint32) error) (n int, done bool, err error) {
	for ; n < limit; n++ {
		id, ok := c.drained, c.drained < c.limit
		if s.extent == Delta {
			id, ok = c.frozen.next(c.drained)
		}
		if !ok {
			c.frozen = bitmap{}
			return n, true, nil
		}
		if err := write(id); err != nil {
			return n, false, err
		}
		c.drained = id + 1
	}
	return n, false, nil
}

// fail remembers the first failure. The handles go on with what they have: the attempt is over.
func (c *Cursor) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

func (c *changes[P]) bytes() int {
	n := c.frozen.bytes()
	for _, s := range c.segs {
		n += s.dirty.bytes() + logLen*(len(s.flat.blocks)*int(unsafe.Sizeof(pre[P]{}))+len(s.enc.blocks)*int(unsafe.Sizeof(pre[[]byte]{})))
	}
	return n
}
