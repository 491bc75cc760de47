package join

import (
	"unsafe"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/batch/slab"
	"github.com/sluiceio/sluice/worker/spill"
)

// group joins the records of one hash. Its build records are kept in memory; if they do not fit, both sides go to disk, and
// for each part of the build side that does fit the probe side is read once. Every pair that is looked at is a result,
// but for keys that share a hash: so the work is that of emitting, and the memory one part.
type group[K comparable, B, P, Out any] struct {
	*merger[K, B, P, Out]
	hash uint64
	keys []member[K] // nearly always one
	rows slab.Rows[grouped[B]]
	held int64 // taken for what rows lead to, and for keys

	file *spill.File // nil: the build side is in memory
	bw   *spill.Writer[B]
	pw   *spill.Writer[P]
}

// member is a key of the group.
type member[K any] struct {
	key            K
	builds, probes bool // it has records on this side
}

// grouped is a build record in memory.
type grouped[B any] struct {
	val B
	at  element.Time
	key int32 // index in keys
}

func newGroup[K comparable, B, P, Out any](m *merger[K, B, P, Out], hash uint64) *group[K, B, P, Out] {
	return &group[K, B, P, Out]{merger: m, hash: hash, rows: slab.Make[grouped[B]](slab.ShapeFor[grouped[B]](m.mem.Limit(), 3), m.mem.Budget)}
}

func (g *group[K, B, P, Out]) run() error {
	defer g.release()
	if err := g.gather(); err != nil {
		return err
	}
	if g.file != nil {
		return g.blocks()
	}
	for k, ok := g.p.Peek(); ok && k == g.hash; k, ok = g.p.Peek() {
		var v P
		at, _, err := g.p.Next(&v)
		if err != nil {
			return err
		}
		key := g.member(g.probeKey(v))
		g.keys[key].probes = true
		if !g.keys[key].builds {
			err = g.noBuild(&v, at)
		} else {
			err = g.probe(&v, at, key)
		}
		if err != nil {
			return err
		}
	}
	for chunk := range g.rows.Chunks {
		for i := range chunk {
			if r := &chunk[i]; !g.keys[r.key].probes {
				if err := g.noProbe(&r.val, r.at); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (g *group[K, B, P, Out]) release() {
	g.rows.Release()
	g.mem.Give(g.held)
	g.held = 0
	if g.bw != nil {
		g.bw.Discard()
		g.pw.Discard()
	}
}

// member is the index of k in keys.
func (g *group[K, B, P, Out]) member(k K) int32 {
	for i := range g.keys {
		if g.keys[i].key == k {
			return int32(i)
		}
	}
	n := int64(unsafe.Sizeof(member[K]{}))
	g.mem.Force(n)
	g.held += n
	g.keys = append(g.keys, member[K]{key: k})
	return int32(len(g.keys) - 1)
}

// keep takes a build record into memory, unless that is short.
func (g *group[K, B, P, Out]) keep(v *B, at element.Time, key int32) bool {
	extra := g.buildSize.Extra(v)
	if !g.mem.Take(extra) {
		return false
	}
	r := g.rows.Add()
	if r == nil {
		g.mem.Give(extra)
		return false
	}
	g.held += extra
	r.val, r.at, r.key = *v, at, key
	return true
}

// gather takes the build side of the group, and if it does not fit into memory the probe side as well.
func (g *group[K, B, P, Out]) gather() error {
	for k, ok := g.b.Peek(); ok && k == g.hash; k, ok = g.b.Peek() {
		var v B
		at, _, err := g.b.Next(&v)
		if err != nil {
			return err
		}
		if err := g.lookUp(); err != nil {
			return err
		}
		key := g.member(g.buildKey(v))
		g.keys[key].builds = true
		if g.file == nil {
			if g.keep(&v, at, key) {
				continue
			}
			if err := g.overflow(); err != nil {
				return err
			}
		}
		if err := g.bw.Add(&v, at); err != nil {
			return err
		}
	}
	if g.file == nil {
		return nil
	}
	for k, ok := g.p.Peek(); ok && k == g.hash; k, ok = g.p.Peek() {
		var v P
		at, _, err := g.p.Next(&v)
		if err != nil {
			return err
		}
		g.keys[g.member(g.probeKey(v))].probes = true
		if err := g.pw.Add(&v, at); err != nil {
			return err
		}
		if err := g.lookUp(); err != nil {
			return err
		}
	}
	return nil
}

// overflow moves the build records to disk.
func (g *group[K, B, P, Out]) overflow() error {
	g.file = g.mem.NewFile()
	g.bw, g.pw = spill.NewWriter(g.file, g.buildCodec), spill.NewWriter(g.file, g.probeCodec)
	for chunk := range g.rows.Chunks {
		for i := range chunk {
			if err := g.bw.Add(&chunk[i].val, chunk[i].at); err != nil {
				return err
			}
		}
	}
	g.clear()
	return nil
}

// clear forgets the rows, not the keys.
func (g *group[K, B, P, Out]) clear() {
	g.rows.Release()
	keys := int64(len(g.keys)) * int64(unsafe.Sizeof(member[K]{}))
	g.mem.Give(g.held - keys)
	g.held = keys
}

// blocks joins both sides from the disk.
func (g *group[K, B, P, Out]) blocks() error {
	builds, err := g.bw.Finish()
	if err != nil {
		return err
	}
	probes, err := g.pw.Finish()
	if err != nil {
		return err
	}
	join := func() error {
		err := each(g.rt, g.file, g.probeCodec, probes, func(v P, at element.Time) error {
			return g.probe(&v, at, g.member(g.probeKey(v)))
		})
		g.clear()
		return err
	}
	if err := each(g.rt, g.file, g.buildCodec, builds, func(v B, at element.Time) error { return g.block(v, at, join) }); err != nil {
		return err
	}
	if err := join(); err != nil {
		return err
	}
	if err := g.partnerless(builds, probes); err != nil {
		return err
	}
	return g.file.Close()
}

// block puts a build record into the part in memory; if that is full, it is joined first.
func (g *group[K, B, P, Out]) block(v B, at element.Time, join func() error) error {
	key := g.member(g.buildKey(v))
	if g.keep(&v, at, key) {
		return nil
	}
	if g.rows.Len() > 0 {
		if err := join(); err != nil {
			return err
		}
		if g.keep(&v, at, key) {
			return nil
		}
	}
	r := g.rows.Force() // larger than the memory: it is not held but in flight, in one pair after the other
	r.val, r.at, r.key = v, at, key
	return join()
}

// probe emits a probe record with every build record of its key that is in memory.
func (g *group[K, B, P, Out]) probe(v *P, at element.Time, key int32) error {
	for chunk := range g.rows.Chunks {
		for i := range chunk {
			r := &chunk[i]
			if r.key != key {
				continue
			}
			g.pair(v, at, &r.val, r.at)
			if err := g.lookUp(); err != nil {
				return err
			}
		}
	}
	return nil
}

// partnerless emits the records of keys that only one side has.
func (g *group[K, B, P, Out]) partnerless(builds, probes spill.Stream) error {
	if g.buildOnly != nil {
		err := each(g.rt, g.file, g.buildCodec, builds, func(v B, at element.Time) error {
			if g.keys[g.member(g.buildKey(v))].probes {
				return nil
			}
			return g.noProbe(&v, at)
		})
		if err != nil {
			return err
		}
	}
	if g.probeOnly == nil {
		return nil
	}
	return each(g.rt, g.file, g.probeCodec, probes, func(v P, at element.Time) error {
		if g.keys[g.member(g.probeKey(v))].builds {
			return nil
		}
		return g.noBuild(&v, at)
	})
}
