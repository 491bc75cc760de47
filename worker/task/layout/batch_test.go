package layout

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// sharing is a job with batch operators in three chains: 0 and 2 in the default slot group, 1 in its own. Subtask 0 of
// chains 0 and 2 is one region, everything else another.
func sharing() *Layout {
	o := func(batch bool, group string) *jobpb.Operator {
		return &jobpb.Operator{BatchMemory: batch, SlotGroup: group}
	}
	return &Layout{
		Graph: &jobpb.Graph{Operators: []*jobpb.Operator{o(true, ""), o(false, ""), o(true, ""), o(true, "own"), o(true, "")}},
		Plan: &jobpb.Plan{
			Chains: []*jobpb.Chain{
				{Index: 0, Operators: []int32{0, 1, 2}, Parallelism: 3},
				{Index: 1, Operators: []int32{3}, Parallelism: 2},
				{Index: 2, Operators: []int32{4}, Parallelism: 2},
			},
			Regions: []*jobpb.Region{
				{Index: 0, Subtasks: []*jobpb.SubtaskRange{{Chain: 0, Count: 1}, {Chain: 2, Count: 1}}},
				{Index: 1, Subtasks: []*jobpb.SubtaskRange{{Chain: 0, First: 1, Count: 2}, {Chain: 1, Count: 2}}},
				{Index: 2, Subtasks: []*jobpb.SubtaskRange{{Chain: 2, First: 1, Count: 1}}},
			},
		},
	}
}

func TestMemoryIsSharedByWhatWorksInOneSlotAtOneTime(t *testing.T) {
	l := sharing()
	for _, c := range []struct {
		chain, index   int32
		regions, eager int
	}{
		{0, 0, 3, 3}, // with chain 2
		{0, 1, 2, 3}, // chain 2 runs in another region, at the same time only if all do
		{0, 2, 2, 2}, // chain 2 has no subtask 2
		{1, 0, 1, 1}, // another slot
		{1, 1, 1, 1},
		{2, 0, 3, 3},
		{2, 1, 1, 3},
	} {
		if got := l.BatchOperators(c.chain, c.index, false); got != c.regions {
			t.Errorf("chain %d, subtask %d, by region: %d operators, want %d", c.chain, c.index, got, c.regions)
		}
		if got := l.BatchOperators(c.chain, c.index, true); got != c.eager {
			t.Errorf("chain %d, subtask %d, all at once: %d operators, want %d", c.chain, c.index, got, c.eager)
		}
	}
}

// Together they get no more than there is: every slot's operators count each other alike.
func TestSharesOfASlotAddUpToTheSlot(t *testing.T) {
	l := sharing()
	before := proto.CloneOf(l.Plan)
	for slot := range int32(3) {
		total := 0.0
		for _, c := range l.Plan.Chains {
			if slot >= c.Parallelism || l.slotGroup(c.Index) != "" {
				continue
			}
			n := l.BatchOperators(c.Index, slot, true)
			for _, op := range c.Operators {
				if l.Graph.Operators[op].BatchMemory {
					total += 1 / float64(n)
				}
			}
		}
		if total < 0.999 || total > 1.001 {
			t.Errorf("slot %d: the shares add up to %v", slot, total)
		}
	}
	if !proto.Equal(before, l.Plan) {
		t.Error("the plan was changed")
	}
}
