package aggregate

import (
	"math"
	"unsafe"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/batch"
	"github.com/sluiceio/sluice/worker/operator/batch/slab"
	"github.com/sluiceio/sluice/worker/spill"
)

// pass is one level of a hash aggregation. It sees what was saved of its keys, then settle, then all further records, then
// finish.
type pass[K comparable, In, Acc any] struct {
	*core[K, In, Acc]
	key   func(In) K        // Fold.Key
	plain func(Acc, In) Acc // Fold.Add, if there is nothing more to do about a further record
	level int
	shift uint // what is left of a hash chooses the partition
	parts []part[K, In, Acc]
	own   int64       // taken for parts
	file  *spill.File // of all streams; nil: nothing was spilled
	input int64       // bytes that the pass reads, if it reads a partition

	restoring bool // what was saved is being read
}

// part is a partition.
type part[K comparable, In, Acc any] struct {
	index slab.Index
	rows  slab.Rows[row[K, Acc]]
	sizes slab.Rows[size] // of the rows, if accumulators grow
	extra int64           // taken for what rows lead to

	records *spill.Writer[In]            // nil: open, each new key gets a row
	saved   *spill.Writer[saved[K, Acc]] // of a partition that was evicted, while it is being written
	onDisk  spill.Stream                 // what saved has become
}

// row is a key.
type row[K comparable, Acc any] struct {
	key K
	acc Acc
}

// size is that of an accumulator that grows, in units of 16 bytes: as measured, and what was added on suspicion since.
type size struct{ known, more uint32 }

// unit of a size, in bytes.
const unit = 16

func newPass[K comparable, In, Acc any](c *core[K, In, Acc], level int) *pass[K, In, Acc] {
	bits := c.mem.FanOut(1)
	p := &pass[K, In, Acc]{core: c, level: level, shift: 64 - bits, parts: make([]part[K, In, Acc], 1<<bits), key: c.Key}
	if c.Update == nil && !c.grows {
		p.plain = c.Add
	}
	p.own = int64(len(p.parts)) * int64(unsafe.Sizeof(part[K, In, Acc]{}))
	c.mem.Force(p.own)
	shape, sizes := slab.ShapeFor[row[K, Acc]](c.mem.Limit(), len(p.parts)), slab.ShapeFor[size](c.mem.Limit(), 2*len(p.parts))
	for i := range p.parts {
		t := &p.parts[i]
		t.rows, t.index = slab.Make[row[K, Acc]](shape, c.mem.Budget), slab.MakeIndex(c.mem.Budget)
		t.sizes = slab.Make[size](sizes, c.mem.Budget)
	}
	return p
}

// locate splits the hash of a key: the partition, and the bits that find a row in it.
func (p *pass[K, In, Acc]) locate(k K) (t *part[K, In, Acc], hash uint32) {
	g := batch.Level(p.hash(k), p.level)
	return &p.parts[g>>(p.shift&63)], uint32(g >> ((p.shift - 32) & 63))
}

// find is the row of a key, whose hash is located; nil: it has none, and w is where it belongs.
func (t *part[K, In, Acc]) find(k K, hash uint32) (r *row[K, Acc], i uint32, w slab.Walk) {
	if t.index.Len() == 0 {
		return nil, 0, w
	}
	w, i, ok := t.index.Find(hash)
	for ; ok; w, i, ok = t.index.Next(w, hash) {
		if r = t.rows.At(i); r.key == k {
			return r, i, w
		}
	}
	return nil, 0, w
}

// add takes a record.
func (p *pass[K, In, Acc]) add(v In, at element.Time) error {
	k := p.key(v)
	t, hash := p.locate(k)
	r, i, w := t.find(k, hash)
	if r == nil {
		return p.unknown(t, w, k, hash, v, at)
	}
	if p.grows {
		return p.grow(t, i, v, at)
	}
	p.fold(r, v, at)
	return nil
}

// unknown takes a record whose key has no row.
func (p *pass[K, In, Acc]) unknown(t *part[K, In, Acc], w slab.Walk, k K, hash uint32, v In, at element.Time) error {
	if t.records == nil {
		if r := p.insert(t, w, k, hash); r != nil {
			return p.begin(t, r, v, at)
		}
		if err := p.close(t); err != nil {
			return err
		}
	}
	return p.write(t, v, at)
}

// write writes a record down. A pointer to the argument would move each record to the heap.
func (p *pass[K, In, Acc]) write(t *part[K, In, Acc], v In, at element.Time) error {
	p.record = v
	return t.records.Add(&p.record, at)
}

// fold adds a record to the accumulator of its key.
func (p *pass[K, In, Acc]) fold(r *row[K, Acc], v In, at element.Time) (grown int64) {
	if p.Update != nil {
		return p.Update(&r.acc, v, at, false)
	}
	r.acc = p.Add(r.acc, v)
	return 0
}

// insert makes the row of a new key at w; nil: memory is short.
func (p *pass[K, In, Acc]) insert(t *part[K, In, Acc], w slab.Walk, k K, hash uint32) *row[K, Acc] {
	if t.index.Full() {
		if t.rows.Len() == math.MaxUint32-1 || !t.index.Grow() {
			return nil
		}
		w = t.index.Gap(hash)
		p.mem.Publish()
	}
	r := t.rows.Add()
	if r == nil {
		return nil
	}
	r.key = k
	if p.grows && t.sizes.Add() == nil {
		t.rows.Drop()
		return nil
	}
	if !p.keySize.Fixed() {
		extra := p.keySize.Extra(&r.key)
		if !p.mem.Take(extra) {
			t.rows.Drop()
			if p.grows {
				t.sizes.Drop()
			}
			return nil
		}
		t.extra += extra
	}
	t.index.Insert(w, hash, uint32(t.rows.Len()-1))
	return r
}

// begin makes the accumulator of a new key.
func (p *pass[K, In, Acc]) begin(t *part[K, In, Acc], r *row[K, Acc], v In, at element.Time) error {
	if p.Update != nil {
		p.Update(&r.acc, v, at, true)
	} else {
		r.acc = p.First(v)
	}
	if !p.grows {
		return nil
	}
	return p.measure(t, uint32(t.rows.Len()-1))
}

// finish emits what is in memory, and then aggregates what lies on disk, partition by partition.
func (p *pass[K, In, Acc]) finish() error {
	rest := make([]streams, len(p.parts))
	for i := range p.parts {
		t := &p.parts[i]
		if err := p.emit(t); err != nil {
			return err
		}
		p.release(t)
		if t.records == nil {
			continue
		}
		s, err := t.records.Finish()
		if err != nil {
			return err
		}
		rest[i] = streams{records: s, saved: t.onDisk}
	}
	p.mem.Give(p.own)
	p.parts, p.own = nil, 0
	for _, s := range rest {
		if s.records.Records+s.saved.Records == 0 {
			continue
		}
		if err := p.again(s); err != nil {
			return err
		}
	}
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}

// emit emits the keys of a partition that are in memory.
func (p *pass[K, In, Acc]) emit(t *part[K, In, Acc]) error {
	if p.Emit == nil {
		return nil
	}
	for chunk := range t.rows.Chunks {
		for i := range chunk {
			if err := p.Emit(chunk[i].key, &chunk[i].acc); err != nil {
				return err
			}
		}
	}
	return nil
}

// release forgets what a partition has in memory.
func (p *pass[K, In, Acc]) release(t *part[K, In, Acc]) {
	t.rows.Release()
	t.sizes.Release()
	t.index.Release()
	p.mem.Give(t.extra)
	t.extra = 0
}

// each reads a stream.
func each[T any](rt interface{ Stopped() error }, f *spill.File, c *codec.Codec[T], s spill.Stream, do func(v T, at element.Time) error) error {
	r := spill.NewReader(f, c, s)
	defer r.Close()
	var v, zero T // one for all: it is on the heap, because decoding needs its address
	for {
		v = zero
		at, ok, err := r.Next(&v)
		if err != nil || !ok {
			return err
		}
		if err := do(v, at); err != nil {
			return err
		}
		if r.Left()%lookUpEvery == 0 {
			if err := rt.Stopped(); err != nil {
				return err
			}
		}
	}
}

// lookUpEvery is the number of records that may be read in vain after the attempt has been told to stop.
const lookUpEvery = 256
