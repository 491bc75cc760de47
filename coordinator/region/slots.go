package region

import "github.com/sluiceio/sluice/proto/jobpb"

// Groups divides a plan's slots: those of group g are numbered from First[g] on, and subtask i of a chain lives in slot
// First[Of[chain]]+i.
type Groups struct {
	Of    []int   // by chain
	First []int32 // by group; one more at the end: the number of slots of the plan
}

// SlotGroups finds the slot groups of a plan. Chains of one group share slots; each group is as wide as its widest chain.
func SlotGroups(p *jobpb.Plan) Groups {
	g := Groups{Of: make([]int, len(p.Chains))}
	number := map[string]int{}
	var width []int32
	for i, c := range p.Chains {
		name := p.Graph.Operators[c.Operators[0]].SlotGroup
		n, ok := number[name]
		if !ok {
			n = len(width)
			number[name] = n
			width = append(width, 0)
		}
		g.Of[i] = n
		width[n] = max(width[n], c.Parallelism)
	}
	sum := int32(0)
	for _, w := range width {
		g.First = append(g.First, sum)
		sum += w
	}
	g.First = append(g.First, sum)
	return g
}
