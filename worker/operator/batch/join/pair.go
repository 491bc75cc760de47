package join

import (
	"unsafe"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/batch/slab"
	"github.com/sluiceio/sluice/worker/spill"
)

// streams are a pair of partitions on disk.
type streams struct{ build, probe spill.Stream }

// maxLevel bounds the recursion: each level divides by the fan-out, so what is still too large then has few keys.
const maxLevel = 6

// again joins a pair of partitions that lie on disk, with all of the memory.
func (p *pass[K, B, P, Out]) again(s streams) error {
	switch {
	case s.probe.Records == 0 && (s.build.Records == 0 || p.buildOnly == nil), s.build.Records == 0 && p.probeOnly == nil:
		return nil
	case s.probe.Records == 0:
		return each(p.rt, p.builds, p.buildCodec, s.build, func(v B, at element.Time) error { return p.noProbe(&v, at) })
	case s.build.Records == 0:
		return each(p.rt, p.probes, p.probeCodec, s.probe, func(v P, at element.Time) error { return p.noBuild(&v, at) })
	case p.sorts(s):
		return newMerger(p.core, p.builds, s.build, p.probes, s.probe).run()
	case s.probe.Raw < s.build.Raw/2:
		return next(reversed(p.core), p.level+1, p.probes, s.probe, p.builds, s.build)
	}
	return next(p.core, p.level+1, p.builds, s.build, p.probes, s.probe)
}

// sorts decides for sort-merge: if partitioning has not made the pair smaller, because few keys have most of its records;
// or if both sides exceed the memory so many times that a further level would bring neither into memory, while merging
// has a larger fan-in.
func (p *pass[K, B, P, Out]) sorts(s streams) bool {
	least := min(s.build.Raw, s.probe.Raw)
	few := s.build.Records > p.rows/10*9
	return few && least > p.mem.Limit()/4 || p.level >= maxLevel || least > p.mem.Limit()<<(64-p.shift)
}

// next is a pass of a further level.
func next[K comparable, B, P, Out any](c *core[K, B, P, Out], level int, bf *spill.File, b spill.Stream, pf *spill.File, s spill.Stream) error {
	// In memory a record takes about its row, its place in the index and twice its encoding.
	bytes := b.Records*(int64(unsafe.Sizeof(row[B]{}))+slab.SlotBytes) + 2*b.Raw
	p := newPass(c, level, c.mem.Needed(2, bytes), b.Records)
	if err := each(c.rt, bf, c.buildCodec, b, p.build); err != nil {
		return err
	}
	if err := p.index(); err != nil {
		return err
	}
	if err := each(c.rt, pf, c.probeCodec, s, p.probe); err != nil {
		return err
	}
	return p.finish()
}

// reversed is the join with the roles of its sides exchanged: of a pair on disk the sizes are known. As a method it would be
// compiled for every type that embeds a core.
func reversed[K comparable, B, P, Out any](c *core[K, B, P, Out]) *core[K, P, B, Out] {
	match := c.match
	return &core[K, P, B, Out]{
		spec: spec[K, P, B, Out]{
			buildKey: c.probeKey, probeKey: c.buildKey,
			match:     func(b B, p P, emit func(Out)) { match(p, b, emit) },
			buildOnly: c.probeOnly, probeOnly: c.buildOnly,
		},
		rt: c.rt, mem: c.mem, hash: c.hash, emit: c.emit,
		buildCodec: c.probeCodec, probeCodec: c.buildCodec, buildSize: c.probeSize, probeSize: c.buildSize,
	}
}
