package layout

import (
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Span is a half-open range of subtask indices.
type Span struct{ First, End int32 }

// ConsumersOf is the range of consumers that producer i of edge e has a channel to.
func (l *Layout) ConsumersOf(e *jobpb.Edge, i int32) Span {
	first, n := graph.Consumers(e.Partitioner, l.Plan.Chains[e.FromChain].Parallelism, l.Plan.Chains[e.ToChain].Parallelism, i)
	return Span{first, first + n}
}

// ProducersOf is the range of producers that consumer i of edge e has a channel from. It may be empty: only subtask 0
// reads a global edge.
func (l *Layout) ProducersOf(e *jobpb.Edge, i int32) Span {
	first, n := graph.Producers(e.Partitioner, l.Plan.Chains[e.FromChain].Parallelism, l.Plan.Chains[e.ToChain].Parallelism, i)
	return Span{first, first + n}
}

// KeyGroupsOf are the key groups g with codec.Subtask(g) = subtask: from first up to, without, end.
func KeyGroupsOf(subtask, parallelism, groups int) (first, end int) {
	ceil := func(a int) int { return (a*groups + parallelism - 1) / parallelism }
	return ceil(subtask), ceil(subtask + 1)
}

// Owners maps each key group to the subtask that owns it: a division per record less.
func Owners(parallelism, groups int) []int32 {
	t := make([]int32, groups)
	for g := range t {
		t[g] = int32(codec.Subtask(g, parallelism, groups))
	}
	return t
}
