package join

import (
	"math"
	"unsafe"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/batch"
	"github.com/sluiceio/sluice/worker/operator/batch/slab"
	"github.com/sluiceio/sluice/worker/spill"
)

// pass is one level of a hybrid hash join: the build side lies in partitions by the bits of the hash that belong to the
// level. Those that stay resident are probed at once; the others go to disk with the probe records that belong to them,
// and each such pair is joined by a pass of the next level.
//
// A pass sees all build records, then index, then all probe records, then finish. Probe records of a partition that is
// on disk may come at any time.
type pass[K comparable, B, P, Out any] struct {
	*core[K, B, P, Out]
	level int
	shift uint // what is left of a hash chooses the partition
	parts []part[B, P]
	rows  int64 // of the build side
	own   int64 // taken for parts

	// The streams of all partitions, by side.
	builds *spill.File
	probes *spill.File
}

// part is a partition.
type part[B, P any] struct {
	rows  slab.Rows[row[B]]
	extra int64 // taken for what rows lead to, and for their place in the index
	index slab.Index

	build *spill.Writer[B] // nil: resident
	probe *spill.Writer[P]
}

// row is a build record. Those of one key are a list in the order of arrival.
type row[B any] struct {
	val  B
	at   element.Time
	hash uint32 // until there is an index; then one of the states of a list
	next uint32 // row+1; 0: the last one
}

// States of the list that begins at a row.
const (
	follower uint32 = iota // none begins here
	unmatched
	matched
)

// newPass makes a pass with 1<<bits partitions. expect is the number of build records, if it is known.
func newPass[K comparable, B, P, Out any](c *core[K, B, P, Out], level int, bits uint, expect int64) *pass[K, B, P, Out] {
	p := &pass[K, B, P, Out]{core: c, level: level, shift: 64 - bits, parts: make([]part[B, P], 1<<bits)}
	p.own = int64(len(p.parts)) * int64(unsafe.Sizeof(part[B, P]{}))
	c.mem.Force(p.own)
	shape := slab.ShapeFor[row[B]](c.mem.Limit(), len(p.parts))
	for i := range p.parts {
		t := &p.parts[i]
		t.rows, t.index = slab.Make[row[B]](shape, c.mem.Budget), slab.MakeIndex(c.mem.Budget)
		t.rows.Expect(int(expect >> bits))
	}
	return p
}

// locate splits the hash of a key: the partition, and the bits that find a row in it.
func (p *pass[K, B, P, Out]) locate(k K) (t *part[B, P], hash uint32) {
	g := batch.Level(p.hash(k), p.level)
	return &p.parts[g>>(p.shift&63)], uint32(g >> ((p.shift - 32) & 63))
}

// spilled reports that the partition of k lies on disk.
func (p *pass[K, B, P, Out]) spilled(k K) bool {
	t, _ := p.locate(k)
	return t.build != nil
}

// keep takes a build record, unless memory is short: then it is false.
func (p *pass[K, B, P, Out]) keep(v B, at element.Time) (bool, error) {
	t, hash := p.locate(p.buildKey(v))
	if t.build != nil {
		p.rows++
		return true, p.writeBuild(t, v, at)
	}
	r := t.rows.Add()
	if r == nil {
		return false, nil
	}
	r.val, r.at, r.hash = v, at, hash
	cost := int64(slab.SlotBytes)
	if !p.buildSize.Fixed() {
		cost += p.buildSize.Extra(&r.val)
	}
	if t.rows.Len() == math.MaxUint32 || !p.mem.Take(cost) {
		t.rows.Drop()
		return false, nil
	}
	t.extra += cost
	p.rows++
	return true, nil
}

// writeBuild and writeProbe write a record down. A pointer to an argument would move each record to the heap.
func (p *pass[K, B, P, Out]) writeBuild(t *part[B, P], v B, at element.Time) error {
	p.b = v
	return t.build.Add(&p.b, at)
}

func (p *pass[K, B, P, Out]) writeProbe(t *part[B, P], v P, at element.Time) error {
	p.p = v
	return t.probe.Add(&p.p, at)
}

// build takes a build record and makes room for it.
func (p *pass[K, B, P, Out]) build(v B, at element.Time) error {
	for {
		if kept, err := p.keep(v, at); kept || err != nil {
			return err
		}
		t, _ := p.locate(p.buildKey(v))
		if err := p.evict(p.largest(t)); err != nil {
			return err
		}
	}
}

// largest is the resident partition that holds most; t if none holds anything.
func (p *pass[K, B, P, Out]) largest(t *part[B, P]) *part[B, P] {
	most := t.held()
	for i := range p.parts {
		if x := &p.parts[i]; x.held() > most {
			t, most = x, x.held()
		}
	}
	return t
}

func (t *part[B, P]) held() int64 { return t.rows.Bytes() + t.extra }

// evict moves a resident partition to disk.
func (p *pass[K, B, P, Out]) evict(t *part[B, P]) error {
	if err := p.mem.MustSpill(); err != nil {
		return err
	}
	if p.builds == nil {
		p.mem.Deeper(p.level + 1)
		p.builds, p.probes = p.mem.NewFile(), p.mem.NewFile()
	}
	t.build, t.probe = spill.NewWriter(p.builds, p.buildCodec), spill.NewWriter(p.probes, p.probeCodec)
	for chunk := range t.rows.Chunks {
		for i := range chunk {
			if err := t.build.Add(&chunk[i].val, chunk[i].at); err != nil {
				return err
			}
		}
	}
	p.release(t)
	p.mem.Publish()
	return nil
}

// release forgets what a partition has in memory.
func (p *pass[K, B, P, Out]) release(t *part[B, P]) {
	t.rows.Release()
	t.index.Release()
	p.mem.Give(t.extra)
	t.extra = 0
}

// index makes the resident partitions ready to be probed: their number of rows is known now, so that each index is made
// once and fits.
func (p *pass[K, B, P, Out]) index() error {
	for i := range p.parts {
		t := &p.parts[i]
		n := t.rows.Len()
		if t.build != nil || n == 0 {
			continue
		}
		p.mem.Give(int64(n) * slab.SlotBytes)
		t.extra -= int64(n) * slab.SlotBytes
		t.index.Reserve(n)
		// From the last row to the first: each is put in front of the list of its key.
		for j := uint32(n); j > 0; j-- {
			p.enter(t, j-1)
		}
		if err := p.rt.Stopped(); err != nil {
			return err
		}
	}
	return nil
}

// enter puts a row into the index.
func (p *pass[K, B, P, Out]) enter(t *part[B, P], i uint32) {
	r := t.rows.At(i)
	hash := r.hash
	r.hash = unmatched
	w, j, ok := t.index.Find(hash)
	if ok {
		k := p.buildKey(r.val)
		for ; ok; w, j, ok = t.index.Next(w, hash) {
			head := t.rows.At(j)
			if p.buildKey(head.val) == k {
				head.hash = follower
				r.next = j + 1
				t.index.Replace(w, hash, i)
				return
			}
		}
	}
	t.index.Insert(w, hash, i)
}

// probe joins a probe record with its partners, or puts it beside them on the disk.
func (p *pass[K, B, P, Out]) probe(v P, at element.Time) error {
	k := p.probeKey(v)
	t, hash := p.locate(k)
	if t.probe != nil {
		return p.writeProbe(t, v, at)
	}
	if t.index.Len() > 0 {
		for w, i, ok := t.index.Find(hash); ok; w, i, ok = t.index.Next(w, hash) {
			head := t.rows.At(i)
			if p.buildKey(head.val) != k {
				continue
			}
			head.hash = matched
			return p.pairs(&v, at, t, head)
		}
	}
	return p.noBuild(&v, at)
}

// pairs emits a probe record with each row of a list.
func (p *pass[K, B, P, Out]) pairs(v *P, at element.Time, t *part[B, P], r *row[B]) error {
	for {
		p.pair(v, at, &r.val, r.at)
		if r.next == 0 {
			return nil
		}
		if err := p.lookUp(); err != nil {
			return err
		}
		r = t.rows.At(r.next - 1)
	}
}

// finish emits the resident build records without a partner, and then joins what lies on disk, pair by pair.
func (p *pass[K, B, P, Out]) finish() error {
	pairs := make([]streams, len(p.parts))
	for i := range p.parts {
		t := &p.parts[i]
		if t.build == nil {
			if err := p.lonely(t); err != nil {
				return err
			}
			p.release(t)
			continue
		}
		var err error
		if pairs[i].build, err = t.build.Finish(); err != nil {
			return err
		}
		if pairs[i].probe, err = t.probe.Finish(); err != nil {
			return err
		}
	}
	p.mem.Give(p.own)
	p.parts, p.own = nil, 0
	for _, s := range pairs {
		if err := p.again(s); err != nil {
			return err
		}
	}
	if p.builds == nil {
		return nil
	}
	if err := p.builds.Close(); err != nil {
		return err
	}
	return p.probes.Close()
}

// lonely emits the rows of a partition that no probe record has met.
func (p *pass[K, B, P, Out]) lonely(t *part[B, P]) error {
	if p.buildOnly == nil {
		return nil
	}
	for chunk := range t.rows.Chunks {
		for i := range chunk {
			if chunk[i].hash != unmatched {
				continue
			}
			for r := &chunk[i]; ; r = t.rows.At(r.next - 1) {
				if err := p.noProbe(&r.val, r.at); err != nil {
					return err
				}
				if r.next == 0 {
					break
				}
			}
		}
	}
	return nil
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
