package state

import (
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/snapshot/chunk"
)

// Options of a directory.
type Options struct {
	// MaxParallelism is the number of key groups of the job.
	MaxParallelism int
	// Checkpoints: changes are tracked, for Freeze and Rewind. Without, state lives and dies with the attempt.
	Checkpoints bool
	// Registry holds the codecs of the pipeline; nil: none.
	Registry *codec.Registry
}

// Directory is the keyed state of one operator of one subtask.
type Directory[K comparable] struct {
	opts  Options
	hash  func(K) uint64
	codec *codec.Codec[K]
	cur   Cursor

	key   K // the current key and its hash
	keyH  uint64
	index index
	rows  rows
	inRow bool // a value state lies in the rows
	cols  []column
	names map[string]bool

	segs      []epoch              // oldest first; the last one is open
	base      element.CheckpointID // the last one known to be completed
	last      element.CheckpointID // of the newest barrier
	pending   queue                // rows that may be free
	iterating int                  // Each is running: no row may be reused
}

// epoch is what a segment of every column has in common.
type epoch struct {
	id      element.CheckpointID // of the barrier at its end; 0 while open
	emptied bitmap               // rows of which a state was cleared
}

// NewDirectory makes a directory without states.
func NewDirectory[K comparable](o Options) (*Directory[K], error) {
	if o.MaxParallelism < 1 || o.MaxParallelism > codec.MaxParallelism {
		return nil, fmt.Errorf("max parallelism %d is not in [1, %d]", o.MaxParallelism, codec.MaxParallelism)
	}
	hash, err := codec.Hasher[K]()
	if err != nil {
		return nil, err
	}
	c, err := codec.Of[K](o.Registry)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	d := &Directory[K]{opts: o, hash: hash, codec: c, names: map[string]bool{}, segs: make([]epoch, 1)}
	d.index = newIndex(func(row uint32) uint64 { return hash(*(*K)(d.rows.at(row))) })
	d.cur.owner = (*columnOwner[K])(d)
	d.cur.tracking = o.Checkpoints
	d.cur.live = 1<<1 | present
	d.rows.setType(reflect.StructField{Name: "Key", Type: reflect.TypeFor[K]()})
	return d, nil
}

// placeInRow gives the first value state a place in the row.
func placeInRow[V any, K comparable](d *Directory[K]) (offset uintptr, ok bool) {
	if d.inRow || d.rows.next > 0 {
		return 0, false
	}
	d.inRow = true
	d.rows.setType(d.rows.typ.Field(0), reflect.StructField{Name: "Cell", Type: reflect.TypeFor[cell[V]]()})
	return d.rows.typ.Field(1).Offset, true
}

func (d *Directory[K]) declare(c column) error {
	name := c.describe().Name
	switch {
	case name == "":
		return errors.New("a state has an empty name")
	case d.names[name]:
		return fmt.Errorf("two states are called %q", name)
	case d.last != 0 || d.rows.next > 0:
		return fmt.Errorf("state %q is declared after the first record", name)
	}
	d.names[name] = true
	d.cols = append(d.cols, c)
	return nil
}

// Hash is the routing hash of a key.
func (d *Directory[K]) Hash(k K) uint64 { return d.hash(k) }

// Seek makes k the current key. h is its routing hash. It is the walk of index.find, written out: this is what every
// record pays.
func (d *Directory[K]) Seek(k K, h uint64) {
	d.key, d.keyH = k, h
	l := d.index.head(h)
	slots, idBits := l.slots, l.idBits&31
	mask, tag, ids := uint64(len(slots)-1), uint32(h>>32)<<idBits, uint32(1)<<idBits-1
	for i := h & mask; ; i = (i + 1) & mask {
		s := slots[i&mask]
		if (s^tag)>>idBits != 0 {
			if s == 0 {
				break
			}
			continue
		}
		if s == 0 {
			break
		}
		row := s&ids - 1
		if p := d.rows.at(row); *(*K)(p) == k {
			d.cur.entry, d.cur.row = p, row
			return
		}
	}
	d.cur.entry = nil
}

// Key is the current key.
func (d *Directory[K]) Key() K { return d.key }

// Each makes every key with state current in turn, until f returns an error. f may change and clear the state of the
// current key.
func (d *Directory[K]) Each(f func(K) error) error {
	d.iterating++
	defer func() { d.iterating-- }()
	for row, ok := d.rows.used.next(0); ok; row, ok = d.rows.used.next(row + 1) {
		if !d.live(row) {
			continue
		}
		p := d.rows.at(row)
		k := *(*K)(p)
		d.key, d.keyH = k, d.hash(k)
		d.cur.entry, d.cur.row = p, row
		if err := f(k); err != nil {
			return err
		}
	}
	return nil
}

func (o *columnOwner[K]) idled(row uint32) { o.pending.add(row) }

// live reports whether the key of the row has any state.
func (d *Directory[K]) live(row uint32) bool {
	for _, c := range d.cols {
		if c.has(row) {
			return true
		}
	}
	return false
}

// Len is the number of rows: keys with state, and keys whose state was cleared since the last completed checkpoint.
func (d *Directory[K]) Len() int { return int(d.rows.next) - len(d.rows.free) }

// Err is the first failure of a codec of this directory. The handles cannot return it; whoever drives the operator
// must end the attempt, and looks at it once per batch.
func (d *Directory[K]) Err() error { return d.cur.err }

// Bytes is the memory of all states, without what values point to.
func (d *Directory[K]) Bytes() int {
	n := d.index.bytes() + d.rows.bytes() + d.pending.bytes()
	for _, c := range d.cols {
		n += c.bytes()
	}
	return n
}

// columnOwner is the directory in its role as owner, which no user sees.
type columnOwner[K comparable] Directory[K]

func (o *columnOwner[K]) insert() {
	d := (*Directory[K])(o)
	d.reclaim()
	d.cur.row, d.cur.entry = d.newRow(d.key, d.keyH)
}

func (d *Directory[K]) newRow(k K, h uint64) (uint32, unsafe.Pointer) {
	row := d.rows.take()
	p := d.rows.at(row)
	*(*K)(p) = k
	d.index.insert(h, row)
	return row, p
}

func (o *columnOwner[K]) emptied(row uint32) {
	if o.cur.tracking {
		o.segs[len(o.segs)-1].emptied.add(row)
	} else {
		o.pending.add(row)
	}
}

func (o *columnOwner[K]) appendKey(dst []byte, row uint32) ([]byte, int, error) {
	k := (*K)(o.rows.at(row))
	b, err := o.codec.Append(dst, k)
	return b, codec.KeyGroup(o.hash(*k), o.opts.MaxParallelism), err
}

// reclaimAtOnce is how many rows are looked at when one is made: twice as many as can be added, so that the list ends.
const reclaimAtOnce = 2

// reclaim frees rows whose states are cleared for good. A snapshot may still have to write their tombstones, and an
// iteration stands on one of them.
func (d *Directory[K]) reclaim() {
	if d.cur.snap != nil || d.iterating > 0 {
		return
	}
	for range reclaimAtOnce {
		row, ok := d.pending.pop()
		if !ok {
			return
		}
		if d.rows.used.has(row) && d.idle(row) {
			for _, c := range d.cols {
				c.forget(row)
			}
			d.index.remove(d.hash(*(*K)(d.rows.at(row))), row)
			d.rows.give(row)
		}
	}
}

func (d *Directory[K]) idle(row uint32) bool {
	for _, c := range d.cols {
		if !c.idle(row) {
			return false
		}
	}
	return true
}

// Header describes the chunks of this directory.
func (d *Directory[K]) Header() chunk.Header {
	h := chunk.Header{MaxParallelism: d.opts.MaxParallelism, Key: d.codec.Schema()}
	for _, c := range d.cols {
		h.States = append(h.States, c.describe())
	}
	return h
}
