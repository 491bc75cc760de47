package plan

import (
	"cmp"
	"slices"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// slots needed to run everything at once: each slot group is as wide as its widest chain.
func slots(p *jobpb.Plan) int32 {
	width := map[string]int32{}
	for _, c := range p.Chains {
		name := slotGroup(p, c.Index)
		width[name] = max(width[name], c.Parallelism)
	}
	sum := int32(0)
	for _, w := range width {
		sum += w
	}
	return sum
}

// leastSlots is what the largest region needs: with that a job makes progress, region by region. Subtask i of every chain
// of a slot group shares the group's slot i.
func leastSlots(p *jobpb.Plan) int32 {
	most := int32(0)
	for _, r := range p.Regions {
		spans := map[string][]*jobpb.SubtaskRange{}
		for _, s := range r.Subtasks {
			name := slotGroup(p, s.Chain)
			spans[name] = append(spans[name], s)
		}
		sum := int32(0)
		for _, s := range spans {
			sum += covered(s)
		}
		most = max(most, sum)
	}
	return most
}

func slotGroup(p *jobpb.Plan, chain int32) string {
	return p.Graph.Operators[p.Chains[chain].Operators[0]].SlotGroup
}

// covered counts the indices in at least one of the ranges.
func covered(spans []*jobpb.SubtaskRange) (n int32) {
	slices.SortFunc(spans, func(a, b *jobpb.SubtaskRange) int { return cmp.Compare(a.First, b.First) })
	end := int32(0)
	for _, s := range spans {
		first := max(s.First, end)
		if last := s.First + s.Count; last > first {
			n += last - first
			end = last
		}
	}
	return n
}
