package join

import (
	"errors"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/batch/sort"
	"github.com/sluiceio/sluice/worker/spill"
)

// merger joins a pair of partitions by sort-merge. Keys have no order of their own, so both sides are sorted by the hash of
// the key; a group is what has one hash, which is nearly always one key.
type merger[K comparable, B, P, Out any] struct {
	*core[K, B, P, Out]
	builds *sort.Sorter[uint64, B]
	probes *sort.Sorter[uint64, P]
	b      *sort.Merge[uint64, B]
	p      *sort.Merge[uint64, P]

	// The streams to sort.
	bf, pf *spill.File
	bs, ps spill.Stream
}

// byHash orders hashes.
func byHash() sort.Order[uint64] {
	return sort.Order[uint64]{Prefix: func(h uint64) uint64 { return h }, Exact: true}
}

func newMerger[K comparable, B, P, Out any](c *core[K, B, P, Out], bf *spill.File, bs spill.Stream, pf *spill.File, ps spill.Stream) *merger[K, B, P, Out] {
	return &merger[K, B, P, Out]{
		core: c, bf: bf, bs: bs, pf: pf, ps: ps,
		builds: sort.NewSorter(sort.Config[uint64, B]{
			Memory: c.mem, Codec: c.buildCodec, Size: c.buildSize, Order: byHash(), Shares: 3,
			Key: func(v B) uint64 { return c.hash(c.buildKey(v)) },
		}),
		probes: sort.NewSorter(sort.Config[uint64, P]{
			Memory: c.mem, Codec: c.probeCodec, Size: c.probeSize, Order: byHash(), Shares: 3,
			Key: func(v P) uint64 { return c.hash(c.probeKey(v)) },
		}),
	}
}

// run sorts one side after the other, each with all of the memory, and merges both; the last third of the memory is for the
// build records of one group.
func (m *merger[K, B, P, Out]) run() (err error) {
	defer func() { err = errors.Join(err, m.builds.Close(), m.probes.Close()) }()
	if err := each(m.rt, m.bf, m.buildCodec, m.bs, m.builds.Add); err != nil {
		return err
	}
	if err := m.builds.Settle(); err != nil {
		return err
	}
	if err := each(m.rt, m.pf, m.probeCodec, m.ps, m.probes.Add); err != nil {
		return err
	}
	if err := m.probes.Settle(); err != nil {
		return err
	}
	if m.b, err = m.builds.Merge(); err != nil {
		return err
	}
	defer m.b.Close()
	if m.p, err = m.probes.Merge(); err != nil {
		return err
	}
	defer m.p.Close()
	return m.merge()
}

func (m *merger[K, B, P, Out]) merge() error {
	for {
		b, hasB := m.b.Peek()
		p, hasP := m.p.Peek()
		var err error
		switch {
		case !hasB && !hasP:
			return nil
		case !hasP || hasB && b < p:
			var v B
			var at element.Time
			if at, _, err = m.b.Next(&v); err == nil {
				err = m.noProbe(&v, at)
			}
		case !hasB || p < b:
			var v P
			var at element.Time
			if at, _, err = m.p.Next(&v); err == nil {
				err = m.noBuild(&v, at)
			}
		default:
			err = newGroup(m, b).run()
		}
		if err != nil {
			return err
		}
		if err := m.lookUp(); err != nil {
			return err
		}
	}
}
