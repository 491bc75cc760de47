package region

import "github.com/sluiceio/sluice/proto/jobpb"

// Needs tells which stored results may still be read: those that a region reads which has not finished, and those that
// it took to make a needed one. The first may be read at any moment, the others only if what was made of them is lost.
// Everything else is released.
type Needs struct {
	l    *Layout
	live []bool // by region
	edge []bool // by edge that is not near: a live region reads it
}

// Need looks at the regions from the last to the first; done reports whether every subtask of a region has FINISHED. The
// cost grows with subtasks and edges.
func Need(l *Layout, done func(region int32) bool) *Needs {
	n := &Needs{l: l, live: make([]bool, len(l.plan.Regions)), edge: make([]bool, len(l.plan.Edges))}
	for r := len(n.live) - 1; r >= 0; r-- {
		// A region that has finished does not need what it stored for itself, and no lower region reads from it.
		n.live[r] = !done(int32(r)) || n.anyNeeded(l.plan.Regions[r])
		if n.live[r] {
			n.mark(l.plan.Regions[r])
		}
	}
	return n
}

// Region reports whether a region has not finished, or its results are needed.
func (n *Needs) Region(i int32) bool { return n.live[i] }

// Partition reports whether what a producer stored for a BLOCKING edge is needed.
func (n *Needs) Partition(edge, producer int32) bool {
	if !n.l.Near(edge) {
		return n.edge[edge]
	}
	s := n.l.Consumers(edge, producer)
	for i := s.First; i < s.First+s.Count; i++ {
		if n.live[n.l.region[i]] {
			return true
		}
	}
	return false
}

func (n *Needs) anyNeeded(r *jobpb.Region) bool {
	for _, s := range r.Subtasks {
		for _, e := range n.l.out[s.Chain] {
			if !n.l.Near(e) {
				if n.edge[e] {
					return true
				}
				continue
			}
			for i := s.First; i < s.First+s.Count; i++ {
				if n.Partition(e, i) {
					return true
				}
			}
		}
	}
	return false
}

// mark notes the edges that a live region reads.
func (n *Needs) mark(r *jobpb.Region) {
	for _, s := range r.Subtasks {
		for _, e := range n.l.in[s.Chain] {
			n.edge[e] = n.edge[e] || n.l.Reads(e, s)
		}
	}
}
