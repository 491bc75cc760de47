package chain

import (
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/worker/state"
)

// wholeParts is from how many parts on a table may be written as a whole.
const wholeParts = 16

// growth decides when a checkpoint writes a table as a whole in place of what has changed, so that the chain of its parts, which
// a restore reads and every manifest names, does not grow for ever.
//
// That is when the parts since it was written whole are many, and have at least as many bytes as that had: so everything is written
// a fixed number of times over, however large the table is and however little changes. Only completed checkpoints count. A
// rewrite from the parts themselves would spare the table's thread, and has to know which process owns which part; it can still come.
type growth struct {
	parts int   // since the table was written whole, that included
	whole int64 // bytes of that; 0: it was restored, and nobody has counted
	since int64 // bytes of the others

	next struct { // frozen, undecided
		id    element.CheckpointID
		whole bool
		bytes int64
	}
}

// extent is how the next checkpoint writes the table.
func (g *growth) extent() state.Extent {
	if g.parts >= wholeParts && g.since >= g.whole {
		return state.Full
	}
	return state.Delta
}

// froze notes that a checkpoint has fixed the table.
func (g *growth) froze(id element.CheckpointID, whole bool) {
	g.next.id, g.next.whole, g.next.bytes = id, whole, 0
}

// wrote notes what the checkpoint has written of the table.
func (g *growth) wrote(id element.CheckpointID, bytes int64) {
	if g.next.id == id {
		g.next.bytes += bytes
	}
}

// completed counts what a checkpoint has.
func (g *growth) completed(id element.CheckpointID) {
	switch {
	case g.next.id != id:
	case g.next.whole:
		g.parts, g.whole, g.since = 1, g.next.bytes, 0
	case g.next.bytes > 0:
		g.parts, g.since = g.parts+1, g.since+g.next.bytes
	}
	if g.next.id <= id {
		g.next.id = 0
	}
}

// growthOf is that of a table of the operator.
func (rt *Runtime) growthOf(table string) *growth {
	if rt.growth == nil {
		rt.growth = map[string]*growth{}
	}
	g := rt.growth[table]
	if g == nil {
		g = &growth{}
		rt.growth[table] = g
	}
	return g
}

// Wrote says what a checkpoint that was frozen has written, when all of it is handed over.
func (c *Chain) Wrote(id element.CheckpointID, s *snapshotpb.SubtaskState) {
	for i := range c.nodes {
		n := &c.nodes[i]
		for _, o := range s.Operators {
			if n.Runtime == nil || o.Operator != n.ID {
				continue
			}
			for _, p := range o.Parts {
				n.Runtime.growthOf(p.Table).wrote(id, p.Size)
			}
		}
	}
}
