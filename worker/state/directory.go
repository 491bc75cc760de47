package state

import (
	"fmt"
	"reflect"
	"unsafe"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/worker/state/column"
	"github.com/sluiceio/sluice/worker/state/epoch"
	"github.com/sluiceio/sluice/worker/state/slab"
)

// Directory is the keyed state of one operator of one subtask. What does not happen for every record is in directory: the
// compiler makes this type for each type of keys.
type Directory[K comparable] struct {
	directory
	hash  func(K) uint64
	group func(k *K, hash uint64) int
	key   K // the current key and its hash
	keyH  uint64
}

// NewDirectory makes a directory without states.
func NewDirectory[K comparable](o Options) (*Directory[K], error) {
	d := &Directory[K]{}
	e := epoch.New(epoch.Config{Tracking: o.Checkpoints, Header: d.Header, Store: o.Overflow})
	return d, d.init(o, e)
}

// init makes d a member of e.
func (d *Directory[K]) init(o Options, e *epoch.Epochs) (err error) {
	if o.MaxParallelism < 1 || o.MaxParallelism > codec.MaxParallelism {
		return fmt.Errorf("max parallelism %d is not in [1, %d]", o.MaxParallelism, codec.MaxParallelism)
	}
	if d.hash, err = codec.Hasher[K](); err != nil {
		return err
	}
	d.group = groupOf[K](o.MaxParallelism)
	return d.directory.init(o, e, keyed{
		kind:   slab.KindOf[K](),
		text:   func(k slab.Place) string { return column.KeyText(*(*K)(k)) },
		hash:   func(k slab.Place) uint64 { return d.hash(*(*K)(k)) },
		group:  func(k slab.Place, h uint64) int { return d.group((*K)(k), h) },
		seek:   func(k slab.Place, h uint64) { d.Seek(*(*K)(k), h) },
		insert: d.insert,
	})
}

func (d *Directory[K]) keyAt(row uint32) *K { return (*K)(d.t.Rows.At(row)) }

// grouper is a key that knows its key group.
type grouper interface{ KeyGroup() int }

func groupOf[K comparable](maxParallelism int) func(k *K, hash uint64) int {
	if reflect.TypeFor[K]().Implements(reflect.TypeFor[grouper]()) {
		return func(k *K, _ uint64) int { return any(*k).(grouper).KeyGroup() }
	}
	return func(_ *K, hash uint64) int { return codec.KeyGroup(hash, maxParallelism) }
}

// Hash is the routing hash of a key.
func (d *Directory[K]) Hash(k K) uint64 { return d.hash(k) }

// Seek makes k the current key. h is its routing hash. References to values of the key before are void. It is the walk
// of slab.Index, written out: this is what every record pays.
func (d *Directory[K]) Seek(k K, h uint64) {
	if d.t.Ticks--; d.t.Ticks <= 0 {
		d.t.Entry = nil
		d.t.Tick()
	}
	d.key, d.keyH = k, h
	l := d.index.Head(h)
	slots, mask, tags := l.Slots, l.Mask, l.Tags
	tag := l.Tag(h)
	for i := uint32(h); ; i++ {
		s := *(*uint32)(unsafe.Add(slots, uintptr(i&mask)*4))
		if (s^tag)&tags != 0 {
			if s == 0 {
				break
			}
			continue
		}
		if s == 0 {
			break
		}
		row := s&^tags - 1
		if p := d.t.Rows.At(row); *(*K)(p) == k {
			d.t.Entry, d.t.Row = p, row
			if d.t.Refs != nil {
				d.t.Refer(row)
			}
			return
		}
	}
	d.t.Entry = nil
	if d.t.Evicts() {
		d.recall()
	}
}

// recall brings the current key back from the overflow, if it is there.
func (d *Directory[K]) recall() {
	if d.t.Cold(d.group(&d.key, d.keyH)) {
		d.bringBack(unsafe.Pointer(&d.key), d.keyH)
	}
}

// Key is the current key.
func (d *Directory[K]) Key() K { return d.key }

// KeyHash is the routing hash of the current key.
func (d *Directory[K]) KeyHash() uint64 { return d.keyH }

// KeyGroup is the key group of the current key.
func (d *Directory[K]) KeyGroup() int { return d.group(&d.key, d.keyH) }

func (d *Directory[K]) insert() {
	row, p := d.t.NewRow()
	*(*K)(p) = d.key
	d.index.Insert(d.keyH, row)
	d.t.Entry, d.t.Row = p, row
	if d.t.Refs != nil {
		d.t.Refer(row)
	}
}

// AppendKey appends the encoded current key.
func (d *Directory[K]) AppendKey(dst []byte) ([]byte, error) {
	b, err := d.codec.Append(dst, unsafe.Pointer(&d.key))
	if err != nil {
		err = d.ofKey(err, column.KeyText(d.key))
	}
	return b, err
}
