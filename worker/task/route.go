package task

import (
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// span is a half-open range of subtask indices.
type span struct{ first, end int32 }

func (s span) len() int { return int(s.end - s.first) }

// consumersOf is the range of consumers that producer i of edge e has a channel to.
func (t *topology) consumersOf(e *jobpb.Edge, i int32) span {
	first, n := graph.Consumers(e.Partitioner, t.plan.Chains[e.FromChain].Parallelism, t.plan.Chains[e.ToChain].Parallelism, i)
	return span{first, first + n}
}

// producersOf is the range of producers that consumer i of edge e has a channel from. It may be empty: only subtask 0
// reads a global edge.
func (t *topology) producersOf(e *jobpb.Edge, i int32) span {
	first, n := graph.Producers(e.Partitioner, t.plan.Chains[e.FromChain].Parallelism, t.plan.Chains[e.ToChain].Parallelism, i)
	return span{first, first + n}
}

// keyGroupsOf are the key groups g with codec.Subtask(g) = subtask.
func keyGroupsOf(subtask, parallelism, maxParallelism int) KeyGroups {
	ceil := func(a int) int { return (a*maxParallelism + parallelism - 1) / parallelism }
	return KeyGroups{First: ceil(subtask), End: ceil(subtask + 1)}
}

// owners maps each key group to the subtask that owns it: a division per record less.
func owners(parallelism, maxParallelism int) []int32 {
	t := make([]int32, maxParallelism)
	for g := range t {
		t[g] = int32(codec.Subtask(g, parallelism, maxParallelism))
	}
	return t
}
