package state

import (
	"errors"
	"fmt"
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

// directory is a Directory that knows its keys by their places.
type directory struct {
	t     column.Table
	keys  keyed
	codec *codec.Plan
	index slab.Index
	spare slab.Place // a key that was decoded
	freed uint64     // how many rows were, so far
}

// keyed is what a directory has to know of its keys.
type keyed struct {
	kind *slab.Kind
	text func(k slab.Place) string // for people
	// hash is the routing hash of a key, group its key group.
	hash  func(k slab.Place) uint64
	group func(k slab.Place, hash uint64) int
	// seek makes a key the current one, insert makes a row for that.
	seek   func(k slab.Place, hash uint64)
	insert func()
}

// init makes d a member of e.
func (d *directory) init(o Options, e *epoch.Epochs, k keyed) (err error) {
	d.keys = k
	if d.codec, err = codec.PlanOf(k.kind.Type, o.Registry); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Scope == 0 {
		o.Scope = chunk.Keyed
	}
	d.spare = k.kind.Make(1)
	d.t = column.NewTable(o, d.tableKeys(), e)
	d.index = slab.NewIndex(&d.t.Meter, func(row uint32) uint64 { return k.hash(d.t.Rows.At(row)) })
	e.Join(&d.t)
	return nil
}

// tableKeys is what the table has to know about keys.
func (d *directory) tableKeys() column.Keys {
	heap := slab.WeigherOf(d.keys.kind.Type)
	return column.Keys{
		Type:   d.keys.kind.Type,
		Insert: d.keys.insert,
		Unindex: func(row uint32) {
			d.index.Remove(d.keys.hash(d.t.Rows.At(row)), row)
			d.freed++
		},
		Text: func(row uint32) string { return d.keys.text(d.t.Rows.At(row)) },
		Append: func(dst []byte, row uint32) ([]byte, int, error) {
			k := d.t.Rows.At(row)
			b, err := d.codec.Append(dst, k)
			return b, d.keys.group(k, d.keys.hash(k)), err
		},
		Seek: d.seekEncoded,
		Weigh: func(row uint32) int {
			if heap == nil {
				return 0
			}
			return heap(d.t.Rows.At(row))
		},
	}
}

// decode reads a key from the front of b, which is valid until the next call, and returns its hash and what follows.
func (d *directory) decode(b []byte) (k slab.Place, h uint64, rest []byte, err error) {
	d.keys.kind.Zero(d.spare)
	if rest, err = d.codec.Decode(b, d.spare); err != nil {
		return nil, 0, nil, err
	}
	return d.spare, d.keys.hash(d.spare), rest, nil
}

// seekEncoded makes the key at the front of b the current one, and returns what follows.
func (d *directory) seekEncoded(b []byte) (rest []byte, err error) {
	k, h, rest, err := d.decode(b)
	if err == nil {
		d.keys.seek(k, h)
	}
	return rest, err
}

// bringBack brings a key back from the overflow, if it is there.
func (d *directory) bringBack(k slab.Place, h uint64) {
	var e chunk.Entry
	if err := d.entry(k, h, &e); err != nil {
		d.t.Fail(d.t.Fault(CodeCodec, "", err))
		return
	}
	d.t.Fail(d.t.Recall(&e, func() (uint32, unsafe.Pointer) {
		row, p := d.t.NewRow()
		d.keys.kind.Move(p, k)
		d.index.Insert(h, row)
		return row, p
	}))
}

// entry completes the entry of a key: namespace, key and key group.
func (d *directory) entry(k slab.Place, h uint64, e *chunk.Entry) (err error) {
	e.Space, e.Group = d.t.Space, d.keys.group(k, h)
	e.Key, err = d.codec.Append(e.Key[:0], k)
	return err
}

// Options are those of the directory.
func (d *directory) Options() Options { return *d.t.Options() }

// Registry holds the codecs of the pipeline; nil: none.
func (d *directory) Registry() *codec.Registry { return d.t.Options().Registry }

// Len is the number of rows in memory: keys with state, and keys whose state was cleared since the last completed
// checkpoint.
func (d *directory) Len() int { return d.t.Pool.Count() }

// Stats counts what has moved between memory and the overflow.
func (d *directory) Stats() Stats { return d.t.Stats() }

// Bytes is the memory of all states, of changes that are undecided and of what waits to be written. What values refer to is
// estimated from samples.
func (d *directory) Bytes() int { return d.t.Bytes() }

// Err is the first failure of this directory: of a codec or of the overflow. The handles cannot return it; whoever drives
// the operator must end the attempt, and looks at it once per batch.
func (d *directory) Err() error { return d.t.Err }

// Fault is where Err is kept, for those who look at it once per record.
func (d *directory) Fault() *error { return &d.t.Err }

// Now is the clock by which values expire, in microseconds since the Unix epoch: not older than 64 Seeks, or the last
// Maintain.
func (d *directory) Now() int64 { return d.t.Clock.Us }

// Header describes the chunks of this directory.
func (d *directory) Header() chunk.Header {
	o := d.t.Options()
	return chunk.Header{MaxParallelism: o.MaxParallelism, Table: o.Table, Scope: o.Scope, Space: o.Space, Key: d.codec.Schema(), States: d.t.States()}
}

// Freeze fixes the state for checkpoint id, at its barrier. It takes the same time whatever the size of the state. A
// snapshot that is not finished yet is given up: its checkpoint can no longer complete.
func (d *directory) Freeze(id element.CheckpointID, extent Extent) (*Snapshot, error) {
	if d.t.Evicted() {
		extent = Delta
	}
	return d.t.Epochs.Freeze(id, extent)
}

// Completed says that checkpoint id is completed: what it holds never has to be written or undone again. Ids that are
// older than the last completed one change nothing.
func (d *directory) Completed(id element.CheckpointID) { d.t.Fail(d.t.Epochs.Completed(id)) }

// Aborted says that checkpoint id will never complete: the next one takes over what it would have written.
func (d *directory) Aborted(id element.CheckpointID) { d.t.Fail(d.t.Epochs.Aborted(id)) }

// Base is the last checkpoint that is known to be completed, or was restored; 0: none.
func (d *directory) Base() element.CheckpointID { return d.t.Epochs.Base() }

// Rewind puts the state back to checkpoint id, which must be the last completed one, or 0 for the empty beginning.
func (d *directory) Rewind(id element.CheckpointID) error {
	if err := d.t.Epochs.Rewind(id); err != nil {
		return err
	}
	return d.t.Err
}

// Maintain does what is better done between batches of records: it reads the clock, makes room if the budget asks for
// it, and looks for values that have expired, work units of each at most. The owner calls it once per batch.
func (d *directory) Maintain(work int) error {
	d.t.Maintain(work)
	return d.t.Err
}

// Close gives back what the directory holds beside memory. It must not be used afterwards.
func (d *directory) Close() error { return errors.Join(d.t.Epochs.Close(), d.t.Close()) }

// What follows is for packages that keep something beside the states (package timer).

// Follow makes m a member of the epochs of this directory: it is told of barriers, completions, aborts and rewinds. Before
// the first record.
func (d *directory) Follow(m epoch.Member) { d.t.Epochs.Join(m) }

// Meter is where memory is counted that is kept beside the states.
func (d *directory) Meter() *slab.Meter { return &d.t.Meter }

// Overflow is the store of the process; nil: everything stays in memory.
func (d *directory) Overflow() *overflow.Store {
	if !d.t.Evicts() {
		return nil
	}
	return d.t.Options().Overflow
}

// Relieve has f called when the directory must shrink, before it moves out units of its own. f makes some room.
func (d *directory) Relieve(f func() error) { d.t.Relieve(f) }

// Fail ends the attempt with err, if it is not nil and the first.
func (d *directory) Fail(err error) { d.t.Fail(d.t.Fault(CodeOverflow, "", err)) }

// Tracking reports whether there are checkpoints.
func (d *directory) Tracking() bool { return d.t.Epochs.Tracking() }

// SeekEncoded makes the key current whose encoding is b.
func (d *directory) SeekEncoded(b []byte) error {
	if _, err := d.seekEncoded(b); err != nil {
		return d.ofKey(err, fmt.Sprintf("of the bytes %x", b))
	}
	return d.t.Err
}

// ofKey gives the error of a key's codec its place. shown is the key, or what there is of it.
func (d *directory) ofKey(err error, shown string) error {
	err = d.t.Fault(CodeCodec, "", err)
	if e, ok := err.(*Error); ok && e.Key == "" {
		e.Key = shown
	}
	return err
}

// Table is what the driver of checkpoints sees.
func (d *directory) Table() Table { return d }
