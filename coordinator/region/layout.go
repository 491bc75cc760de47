package region

import (
	"fmt"
	"slices"

	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Layout is a plan with what is looked up in it all the time: the positions of subtasks, their regions, and which stored
// results enter and leave a chain. It is immutable and costs one entry per subtask, whatever the number of channels.
type Layout struct {
	plan   *jobpb.Plan
	first  []int32   // by chain: position of its subtask 0; one more at the end
	region []int32   // by position
	in     [][]int32 // by chain: BLOCKING edges that enter it, in order
	out    [][]int32 // by chain: BLOCKING edges that leave it, in order
	gates  []bool    // by chain: some input of it is gated
}

// NewLayout prepares the lookups of a plan that its own Validate accepts. It is an error if the regions of the plan are
// not regions: a PIPELINED edge leads from one to another, or a region reads what a later one writes, or more or less than
// it says.
func NewLayout(p *jobpb.Plan) (*Layout, error) {
	l := &Layout{
		plan: p, first: make([]int32, len(p.Chains)+1), in: make([][]int32, len(p.Chains)), out: make([][]int32, len(p.Chains)),
		gates: make([]bool, len(p.Chains)),
	}
	for i, c := range p.Chains {
		l.first[i+1] = l.first[i] + c.Parallelism
		for _, o := range c.Operators {
			for _, in := range p.Graph.Operators[o].Inputs {
				l.gates[i] = l.gates[i] || in.Gated
			}
		}
	}
	l.region = make([]int32, l.first[len(p.Chains)])
	for _, r := range p.Regions {
		for _, s := range r.Subtasks {
			for i := s.First; i < s.First+s.Count; i++ {
				l.region[l.first[s.Chain]+i] = r.Index
			}
		}
	}
	for _, e := range p.Edges {
		if e.Exchange == jobpb.ExchangeKind_EXCHANGE_BLOCKING {
			l.out[e.FromChain] = append(l.out[e.FromChain], e.Index)
			l.in[e.ToChain] = append(l.in[e.ToChain], e.Index)
		}
	}
	return l, l.check()
}

// Plan is what the layout was made of.
func (l *Layout) Plan() *jobpb.Plan { return l.plan }

// Size is the number of subtasks. Their positions are ordered by chain, then index.
func (l *Layout) Size() int { return len(l.region) }

// First is the position of subtask 0 of a chain.
func (l *Layout) First(chain int32) int32 { return l.first[chain] }

// Position of a subtask among all subtasks; false if the plan has none such.
func (l *Layout) Position(chain, index int32) (int, bool) {
	if chain < 0 || int(chain) >= len(l.plan.Chains) || index < 0 || index >= l.plan.Chains[chain].Parallelism {
		return 0, false
	}
	return int(l.first[chain] + index), true
}

// Of is the region of the subtask at a position.
func (l *Layout) Of(position int) int32 { return l.region[position] }

// In are the BLOCKING edges that enter a chain, in order.
func (l *Layout) In(chain int32) []int32 { return l.in[chain] }

// Out are the BLOCKING edges that leave a chain, in order: its subtasks store one partition for each.
func (l *Layout) Out(chain int32) []int32 { return l.out[chain] }

// Gated reports whether the subtasks of a chain load something before they read what lies behind a gate.
func (l *Layout) Gated(chain int32) bool { return l.gates[chain] }

// Blocking reports whether the plan has this edge, and it is BLOCKING.
func (l *Layout) Blocking(edge int32) bool {
	return edge >= 0 && int(edge) < len(l.plan.Edges) && l.plan.Edges[edge].Exchange == jobpb.ExchangeKind_EXCHANGE_BLOCKING
}

// Near reports whether each subtask of an edge exchanges records with a part of the other side only. Otherwise every
// producer does with the same consumers, so the edge can be looked at as a whole.
func (l *Layout) Near(edge int32) bool {
	switch l.plan.Edges[edge].Partitioner {
	case jobpb.Partitioner_PARTITIONER_FORWARD, jobpb.Partitioner_PARTITIONER_RESCALE:
		return true
	}
	return false
}

// Span is a range of positions.
type Span struct{ First, Count int32 }

// Producers are the subtasks from which consumer i of an edge reads.
func (l *Layout) Producers(edge, i int32) Span {
	e := l.plan.Edges[edge]
	first, count := graph.Producers(e.Partitioner, l.plan.Chains[e.FromChain].Parallelism, l.plan.Chains[e.ToChain].Parallelism, i)
	return Span{l.first[e.FromChain] + first, count}
}

// Consumers are the subtasks that read what producer i of an edge wrote.
func (l *Layout) Consumers(edge, i int32) Span {
	e := l.plan.Edges[edge]
	first, count := graph.Consumers(e.Partitioner, l.plan.Chains[e.FromChain].Parallelism, l.plan.Chains[e.ToChain].Parallelism, i)
	return Span{l.first[e.ToChain] + first, count}
}

// Reads reports whether some subtask in a range reads a BLOCKING edge that enters its chain: of a global one only
// subtask 0 has channels.
func (l *Layout) Reads(edge int32, s *jobpb.SubtaskRange) bool {
	return l.plan.Edges[edge].Partitioner != jobpb.Partitioner_PARTITIONER_GLOBAL || s.First == 0
}

// check goes along every edge once, without looking at all its channels: where everybody exchanges records with
// everybody, the lowest and the highest region of a side stand for it.
func (l *Layout) check() error {
	for _, r := range l.plan.Regions {
		if reads := l.reads(r); !slices.Equal(reads, r.InputEdges) {
			return fmt.Errorf("region %d reads edges %v, not %v", r.Index, reads, r.InputEdges)
		}
	}
	low, high := l.bounds()
	for _, e := range l.plan.Edges {
		consumers := l.plan.Chains[e.ToChain].Parallelism
		near, blocking := l.Near(e.Index), e.Exchange == jobpb.ExchangeKind_EXCHANGE_BLOCKING
		if e.Partitioner == jobpb.Partitioner_PARTITIONER_GLOBAL {
			consumers = 1
		}
		for i := range consumers {
			reader, from := l.region[l.first[e.ToChain]+i], Span{}
			lo, hi := low[e.FromChain], high[e.FromChain]
			if near {
				from = l.Producers(e.Index, i)
				lo, hi = l.within(from)
			}
			switch {
			case near && from.Count == 0:
			case blocking && hi > reader:
				return fmt.Errorf("region %d reads over edge %d what region %d writes, which comes later", reader, e.Index, hi)
			case !blocking && (lo != reader || hi != reader):
				return fmt.Errorf("PIPELINED edge %d joins regions %d…%d with region %d", e.Index, lo, hi, reader)
			}
		}
	}
	return nil
}

// reads are the BLOCKING edges that some subtask of a region reads, in order.
func (l *Layout) reads(r *jobpb.Region) (edges []int32) {
	for i, s := range r.Subtasks {
		if i > 0 && r.Subtasks[i-1].Chain == s.Chain {
			continue // ranges are in order: the first of a chain has its lowest subtask
		}
		for _, e := range l.in[s.Chain] {
			if l.Reads(e, s) {
				edges = append(edges, e)
			}
		}
	}
	slices.Sort(edges)
	return edges
}

// bounds are the lowest and the highest region of each chain.
func (l *Layout) bounds() (low, high []int32) {
	low, high = make([]int32, len(l.plan.Chains)), make([]int32, len(l.plan.Chains))
	for c := range l.plan.Chains {
		low[c], high[c] = l.within(Span{l.first[c], l.first[c+1] - l.first[c]})
	}
	return low, high
}

func (l *Layout) within(s Span) (low, high int32) {
	for i := s.First; i < s.First+s.Count; i++ {
		r := l.region[i]
		if i == s.First {
			low, high = r, r
		}
		low, high = min(low, r), max(high, r)
	}
	return low, high
}
