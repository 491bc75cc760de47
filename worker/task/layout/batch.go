package layout

import "github.com/sluiceio/sluice/proto/jobpb"

// BatchOperators is the number of operators with a share of batch.memory that work in the slot of subtask index of a
// chain while it runs: those of the subtasks with the same index and slot group in its region or, if all regions run at
// the same time, in the job.
func (l *Layout) BatchOperators(chain, index int32, eager bool) int {
	group, region := l.slotGroup(chain), l.region(chain, index)
	n := 0
	for _, c := range l.Plan.Chains {
		if index >= c.Parallelism || l.slotGroup(c.Index) != group || !eager && !holds(region, c.Index, index) {
			continue
		}
		for _, op := range c.Operators {
			if l.Graph.Operators[op].BatchMemory {
				n++
			}
		}
	}
	return n
}

// slotGroup of a chain: all its operators have one.
func (l *Layout) slotGroup(chain int32) string {
	return l.Graph.Operators[l.Plan.Chains[chain].Operators[0]].SlotGroup
}

// region is the one that a subtask belongs to.
func (l *Layout) region(chain, index int32) *jobpb.Region {
	for _, r := range l.Plan.Regions {
		if holds(r, chain, index) {
			return r
		}
	}
	return nil
}

func holds(r *jobpb.Region, chain, index int32) bool {
	for _, s := range r.GetSubtasks() {
		if s.Chain == chain && s.First <= index && index < s.First+s.Count {
			return true
		}
	}
	return false
}
