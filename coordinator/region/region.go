package region

import (
	"slices"

	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Build finds the regions of a plan: subtasks joined by PIPELINED edges, and then regions that read each other's BLOCKING
// results in a circle, because none of them could ever be the first. whole[c] says that the subtasks of chain c cannot
// be separated, because they share what no edge shows: the splits of one source. nil: none.
//
// Regions are numbered so that each reads only from lower ones. The cost grows with the number of subtasks, not with
// that of the channels between them: an edge from all to all joins both its sides once.
func Build(chains []*jobpb.Chain, edges []*jobpb.Edge, whole []bool) []*jobpb.Region {
	b := &builder{chains: chains, edges: edges, first: make([]int32, len(chains)+1), into: make([][]*jobpb.Edge, len(chains))}
	for i, c := range chains {
		b.first[i+1] = b.first[i] + c.Parallelism
	}
	b.sets = makeSets(b.first[len(chains)])
	for i, w := range whole {
		if w {
			b.sets.joinRange(b.first[i], b.first[i], chains[i].Parallelism)
		}
	}
	for _, e := range edges {
		if e.Exchange != jobpb.ExchangeKind_EXCHANGE_BLOCKING {
			b.joinEdge(e)
		} else {
			b.into[e.ToChain] = append(b.into[e.ToChain], e)
		}
	}
	return b.regions(order(b.nodes()))
}

type builder struct {
	chains []*jobpb.Chain
	edges  []*jobpb.Edge
	first  []int32         // by chain: position of its subtask 0; one more at the end
	into   [][]*jobpb.Edge // by chain: BLOCKING edges
	sets   sets
}

// joinEdge merges the subtasks that exchange records over an edge.
func (b *builder) joinEdge(e *jobpb.Edge) {
	b.pairs(e, func(from, fromCount, to, toCount int32) {
		b.sets.joinRange(to, from, fromCount)
		b.sets.joinRange(from, to, toCount)
	})
}

// pairs calls f with ranges of positions of which every producer exchanges records with every consumer.
func (b *builder) pairs(e *jobpb.Edge, f func(from, fromCount, to, toCount int32)) {
	producers, consumers := b.chains[e.FromChain].Parallelism, b.chains[e.ToChain].Parallelism
	from, to := b.first[e.FromChain], b.first[e.ToChain]
	switch e.Partitioner {
	case jobpb.Partitioner_PARTITIONER_FORWARD, jobpb.Partitioner_PARTITIONER_RESCALE:
		for i := range producers {
			lo, n := graph.Consumers(e.Partitioner, producers, consumers, i)
			f(from+i, 1, to+lo, n)
		}
	case jobpb.Partitioner_PARTITIONER_GLOBAL:
		f(from, producers, to, 1)
	default:
		f(from, producers, to, consumers)
	}
}

// node is a set of subtasks, or (no positions) the meeting point of a BLOCKING edge: producers → meeting point →
// consumers stands for all pairs.
type node struct {
	positions []int32
	out       []int32 // nodes that read from this one
}

// nodes is the graph over the BLOCKING edges.
func (b *builder) nodes() []node {
	var ns []node
	number := make([]int32, b.first[len(b.chains)])
	of := map[int32]int32{}
	for pos := range number {
		root := b.sets.find(int32(pos))
		n, ok := of[root]
		if !ok {
			n = int32(len(ns))
			of[root] = n
			ns = append(ns, node{})
		}
		number[pos] = n
		ns[n].positions = append(ns[n].positions, int32(pos))
	}
	for _, e := range b.edges {
		if e.Exchange != jobpb.ExchangeKind_EXCHANGE_BLOCKING {
			continue
		}
		b.pairs(e, func(from, fromCount, to, toCount int32) {
			meet := int32(len(ns))
			ns = append(ns, node{})
			for _, n := range distinct(number[from : from+fromCount]) {
				ns[n].out = append(ns[n].out, meet)
			}
			ns[meet].out = distinct(number[to : to+toCount])
		})
	}
	return ns
}

func distinct(ns []int32) []int32 {
	d := slices.Clone(ns)
	slices.Sort(d)
	return slices.Compact(d)
}

// regions turns ordered groups of nodes into messages.
func (b *builder) regions(groups []group) []*jobpb.Region {
	rs := make([]*jobpb.Region, len(groups))
	for i, g := range groups {
		r := &jobpb.Region{Index: int32(i)}
		chain := 0
		slices.Sort(g.positions)
		for _, pos := range g.positions {
			for pos >= b.first[chain+1] {
				chain++
			}
			index := pos - b.first[chain]
			if n := len(r.Subtasks); n > 0 && r.Subtasks[n-1].Chain == int32(chain) && r.Subtasks[n-1].First+r.Subtasks[n-1].Count == index {
				r.Subtasks[n-1].Count++
				continue
			}
			r.Subtasks = append(r.Subtasks, &jobpb.SubtaskRange{Chain: int32(chain), First: index, Count: 1})
		}
		r.InputEdges = b.inputEdges(r)
		rs[i] = r
	}
	return rs
}

// inputEdges are the BLOCKING edges that some subtask of a region reads.
func (b *builder) inputEdges(r *jobpb.Region) (edges []int32) {
	last := int32(-1)
	for _, s := range r.Subtasks {
		if s.Chain == last {
			continue // ranges are in order, so the first of a chain has its lowest subtask
		}
		last = s.Chain
		for _, e := range b.into[s.Chain] {
			// Of a global edge only subtask 0 has channels.
			if e.Partitioner != jobpb.Partitioner_PARTITIONER_GLOBAL || s.First == 0 {
				edges = append(edges, e.Index)
			}
		}
	}
	slices.Sort(edges)
	return edges
}

// sets are disjoint sets of positions (union by size, path halving).
type sets struct{ parent, size []int32 }

func makeSets(n int32) sets {
	s := sets{parent: make([]int32, n), size: make([]int32, n)}
	for i := range s.parent {
		s.parent[i], s.size[i] = int32(i), 1
	}
	return s
}

func (s *sets) find(i int32) int32 {
	for s.parent[i] != i {
		s.parent[i] = s.parent[s.parent[i]]
		i = s.parent[i]
	}
	return i
}

func (s *sets) join(a, b int32) {
	a, b = s.find(a), s.find(b)
	if a == b {
		return
	}
	if s.size[a] < s.size[b] {
		a, b = b, a
	}
	s.parent[b] = a
	s.size[a] += s.size[b]
}

func (s *sets) joinRange(with, first, count int32) {
	for i := first; i < first+count; i++ {
		s.join(with, i)
	}
}
