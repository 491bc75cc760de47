package state

import (
	"errors"
	"fmt"
	"reflect"
	"time"
	"unsafe"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/column"
	"github.com/sluiceio/sluice/worker/state/epoch"
	"github.com/sluiceio/sluice/worker/state/overflow"
	"github.com/sluiceio/sluice/worker/state/slab"
)

// Directory is the keyed state of one operator of one subtask.
type Directory[K comparable] struct {
	t     column.Table
	hash  func(K) uint64
	group func(k *K, hash uint64) int
	codec *codec.Codec[K]
	key   K // the current key and its hash
	keyH  uint64
	index slab.Index
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
	if d.codec, err = codec.Of[K](o.Registry); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Scope == 0 {
		o.Scope = chunk.Keyed
	}
	d.group = groupOf[K](o.MaxParallelism)
	d.t = column.NewTable(o, d.keys(), e)
	d.index = slab.NewIndex(&d.t.Meter, func(row uint32) uint64 { return d.hash(*d.keyAt(row)) })
	e.Join(&d.t)
	return nil
}

// keys is what the table has to know about K.
func (d *Directory[K]) keys() column.Keys {
	heap := slab.WeigherFor[K]()
	return column.Keys{
		Type:    reflect.TypeFor[K](),
		Insert:  d.insert,
		Unindex: func(row uint32) { d.index.Remove(d.hash(*d.keyAt(row)), row) },
		Text:    func(row uint32) string { return column.KeyText(*d.keyAt(row)) },
		Append: func(dst []byte, row uint32) ([]byte, int, error) {
			k := d.keyAt(row)
			b, err := d.codec.Append(dst, k)
			return b, d.group(k, d.hash(*k)), err
		},
		Seek: func(b []byte) ([]byte, error) {
			var k K
			rest, err := d.codec.Decode(b, &k)
			if err == nil {
				d.Seek(k, d.hash(k))
			}
			return rest, err
		},
		Weigh: func(row uint32) int {
			if heap == nil {
				return 0
			}
			return heap(d.keyAt(row))
		},
	}
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
	if !d.t.Cold(d.group(&d.key, d.keyH)) {
		return
	}
	var e chunk.Entry
	err := d.entry(&d.key, d.keyH, &e)
	if err != nil {
		d.t.Fail(d.t.Fault(CodeCodec, "", err))
		return
	}
	d.t.Fail(d.t.Recall(&e, func() (uint32, unsafe.Pointer) { return d.newRow(d.key, d.keyH) }))
}

// Key is the current key.
func (d *Directory[K]) Key() K { return d.key }

// KeyHash is the routing hash of the current key.
func (d *Directory[K]) KeyHash() uint64 { return d.keyH }

// KeyGroup is the key group of the current key.
func (d *Directory[K]) KeyGroup() int { return d.group(&d.key, d.keyH) }

// Options are those of the directory.
func (d *Directory[K]) Options() Options { return *d.t.Options() }

// Registry holds the codecs of the pipeline; nil: none.
func (d *Directory[K]) Registry() *codec.Registry { return d.t.Options().Registry }

// Len is the number of rows in memory: keys with state, and keys whose state was cleared since the last completed
// checkpoint.
func (d *Directory[K]) Len() int { return d.t.Pool.Count() }

// Stats counts what has moved between memory and the overflow.
func (d *Directory[K]) Stats() Stats { return d.t.Stats() }

// Bytes is the memory of all states, of changes that are undecided and of what waits to be written. What values refer to is
// estimated from samples.
func (d *Directory[K]) Bytes() int { return d.t.Bytes() }

// Err is the first failure of this directory: of a codec or of the overflow. The handles cannot return it; whoever drives
// the operator must end the attempt, and looks at it once per batch.
func (d *Directory[K]) Err() error { return d.t.Err }

// Now is the clock by which values expire, in microseconds since the Unix epoch: not older than 64 Seeks, or the last
// Maintain.
func (d *Directory[K]) Now() int64 { return d.t.Clock.Us }

func (d *Directory[K]) insert() {
	row, p := d.newRow(d.key, d.keyH)
	d.t.Entry, d.t.Row = p, row
	if d.t.Refs != nil {
		d.t.Refer(row)
	}
}

func (d *Directory[K]) newRow(k K, h uint64) (uint32, unsafe.Pointer) {
	row, p := d.t.NewRow()
	*(*K)(p) = k
	d.index.Insert(h, row)
	return row, p
}

// entry completes the entry of a key: namespace, key and key group.
func (d *Directory[K]) entry(k *K, h uint64, e *chunk.Entry) (err error) {
	e.Space, e.Group = d.t.Space, d.group(k, h)
	e.Key, err = d.codec.Append(e.Key[:0], k)
	return err
}

// Header describes the chunks of this directory.
func (d *Directory[K]) Header() chunk.Header {
	o := d.t.Options()
	return chunk.Header{MaxParallelism: o.MaxParallelism, Table: o.Table, Scope: o.Scope, Space: o.Space, Key: d.codec.Schema(), States: d.t.States()}
}

// Freeze fixes the state for checkpoint id, at its barrier. It takes the same time whatever the size of the state. A
// snapshot that is not finished yet is given up: its checkpoint can no longer complete.
func (d *Directory[K]) Freeze(id element.CheckpointID, extent Extent) (*Snapshot, error) {
	if d.t.Evicted() {
		extent = Delta
	}
	return d.t.Epochs.Freeze(id, extent)
}

// Completed says that checkpoint id is completed: what it holds never has to be written or undone again. Ids that are
// older than the last completed one change nothing.
func (d *Directory[K]) Completed(id element.CheckpointID) { d.t.Fail(d.t.Epochs.Completed(id)) }

// Aborted says that checkpoint id will never complete: the next one takes over what it would have written.
func (d *Directory[K]) Aborted(id element.CheckpointID) { d.t.Fail(d.t.Epochs.Aborted(id)) }

// Base is the last checkpoint that is known to be completed, or was restored; 0: none.
func (d *Directory[K]) Base() element.CheckpointID { return d.t.Epochs.Base() }

// Rewind puts the state back to checkpoint id, which must be the last completed one, or 0 for the empty beginning.
func (d *Directory[K]) Rewind(id element.CheckpointID) error {
	if err := d.t.Epochs.Rewind(id); err != nil {
		return err
	}
	return d.t.Err
}

// Maintain does what is better done between batches of records: it reads the clock, makes room if the budget asks for
// it, and looks for values that have expired, work units of each at most. The owner calls it once per batch.
func (d *Directory[K]) Maintain(work int) error {
	d.t.Maintain(work)
	return d.t.Err
}

// Close gives back what the directory holds beside memory. It must not be used afterwards.
func (d *Directory[K]) Close() error { return errors.Join(d.t.Epochs.Close(), d.t.Close()) }

// What follows is for packages that keep something beside the states (package timer).

// Follow makes m a member of the epochs of this directory: it is told of barriers, completions, aborts and rewinds. Before
// the first record.
func (d *Directory[K]) Follow(m epoch.Member) { d.t.Epochs.Join(m) }

// Meter is where memory is counted that is kept beside the states.
func (d *Directory[K]) Meter() *slab.Meter { return &d.t.Meter }

// Overflow is the store of the process; nil: everything stays in memory.
func (d *Directory[K]) Overflow() *overflow.Store {
	if !d.t.Evicts() {
		return nil
	}
	return d.t.Options().Overflow
}

// Relieve has f called when the directory must shrink, before it moves out units of its own. f makes some room.
func (d *Directory[K]) Relieve(f func() error) { d.t.Relieve(f) }

// Fail ends the attempt with err, if it is not nil and the first.
func (d *Directory[K]) Fail(err error) { d.t.Fail(d.t.Fault(CodeOverflow, "", err)) }

// Tracking reports whether there are checkpoints.
func (d *Directory[K]) Tracking() bool { return d.t.Epochs.Tracking() }

// AppendKey appends the encoded current key.
func (d *Directory[K]) AppendKey(dst []byte) ([]byte, error) {
	b, err := d.codec.Append(dst, &d.key)
	return b, d.ofKey(err, d.key)
}

// ofKey gives the error of a key's codec its place. shown is the key, or what there is of it.
func (d *Directory[K]) ofKey(err error, shown any) error {
	err = d.t.Fault(CodeCodec, "", err)
	if e, ok := err.(*Error); ok && e.Key == "" {
		e.Key = column.KeyText(shown)
	}
	return err
}

// SeekEncoded makes the key current whose encoding is b.
func (d *Directory[K]) SeekEncoded(b []byte) error {
	var k K
	if _, err := d.codec.Decode(b, &k); err != nil {
		return d.ofKey(err, fmt.Sprintf("of the bytes %x", b))
	}
	d.Seek(k, d.hash(k))
	return d.t.Err
}
