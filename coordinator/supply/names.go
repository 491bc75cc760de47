package supply

import (
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/coordinator/tally"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// Of is what a subtask stored for an edge; nil: nothing.
func Of(t *jobpb.Subtask, edge int32) *jobpb.Partition {
	for _, p := range t.GetPartitions() {
		if p.Edge == edge {
			return p
		}
	}
	return nil
}

// Superseded names what lies where a subtask ran, and what the facts need no more since its record was was.
func Superseded(facts *state.Job, was, t *jobpb.Subtask) (names []*taskpb.PartitionName) {
	name := func(edge int32, epoch uint64, attempt uint32) {
		names = append(names, &taskpb.PartitionName{
			JobEpoch: facts.Epoch(), Region: was.Region, RegionEpoch: epoch, Edge: edge, Producer: was.Index, Attempt: attempt,
		})
	}
	switch {
	case was.State == jobpb.SubtaskState_SUBTASK_FINISHED:
		for _, p := range was.Partitions {
			if n := Of(t, p.Edge); n == nil || n.Attempt != p.Attempt || n.State == jobpb.PartitionState_PARTITION_RELEASED && p.State != n.State {
				name(p.Edge, p.RegionEpoch, p.Attempt)
			}
		}
	case tally.Acts(was.State) && !tally.Acts(t.State) && t.State != jobpb.SubtaskState_SUBTASK_FINISHED:
		// It may have stored all and ended before it could say so. Its region has moved on if it was fenced.
		r := facts.Region(was.Region)
		epoch := r.Epoch
		if r.Status == jobpb.RegionStatus_REGION_RESTARTING && epoch > 1 {
			epoch--
		}
		for _, e := range facts.Layout().Out(was.Chain) {
			name(e, epoch, was.Attempt)
		}
	}
	return names
}

// Counts reports whether a result on a worker is a fact, or may still become one: its attempt acts and has not reported.
func Counts(facts *state.Job, worker string, n *taskpb.PartitionName) bool {
	if !facts.Layout().Blocking(n.Edge) {
		return false
	}
	t := facts.Subtask(facts.Plan().Edges[n.Edge].FromChain, n.Producer)
	if t == nil || t.Attempt != n.Attempt || t.Worker != worker {
		return false
	}
	return tally.Acts(t.State) || Of(t, n.Edge).GetState() == jobpb.PartitionState_PARTITION_STORED
}

// Wanted reports whether a consumer of a result has not finished.
func Wanted(facts *state.Job, counts *tally.Tally, edge, producer int32) bool {
	e, l := facts.Plan().Edges[edge], facts.Layout()
	if !l.Near(edge) && e.Partitioner != jobpb.Partitioner_PARTITIONER_GLOBAL {
		return counts.Finished(e.ToChain) < facts.Plan().Chains[e.ToChain].Parallelism
	}
	to := l.Consumers(edge, producer)
	for i := range to.Count {
		if facts.At(int(to.First+i)).State != jobpb.SubtaskState_SUBTASK_FINISHED {
			return true
		}
	}
	return false
}
