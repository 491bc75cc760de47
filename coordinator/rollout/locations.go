package rollout

import (
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// Directory tells subtasks where the others are. What it says of a subtask is made once for all messages, until Forget.
type Directory struct {
	places []*taskpb.Location // by position
}

// NewDirectory of a job with so many subtasks.
func NewDirectory(size int) *Directory { return &Directory{places: make([]*taskpb.Location, size)} }

// Forget has a subtask looked up again.
func (d *Directory) Forget(position int) { d.places[position] = nil }

// ForgetAll has everything looked up again: a worker has moved.
func (d *Directory) ForgetAll() { clear(d.places) }

// Locations are the places of every subtask with which these exchange records. data is the data port of a worker.
func (d *Directory) Locations(facts *state.Job, positions []int32, data func(worker string) string) []*taskpb.Location {
	near := make([]bool, facts.Size())
	whole := map[[2]int32]bool{} // edge and direction whose other side is marked as a whole
	mark := func(chain, first, count int32) {
		from := facts.Layout().First(chain) + first
		for i := range count {
			near[from+i] = true
		}
	}
	for _, pos := range positions {
		t := facts.At(int(pos))
		for _, e := range facts.Plan().Edges {
			producers, consumers := facts.Plan().Chains[e.FromChain].Parallelism, facts.Plan().Chains[e.ToChain].Parallelism
			if e.FromChain == t.Chain && !whole[[2]int32{e.Index, 0}] {
				lo, n := graph.Consumers(e.Partitioner, producers, consumers, t.Index)
				whole[[2]int32{e.Index, 0}] = n == consumers
				mark(e.ToChain, lo, n)
			}
			if e.ToChain == t.Chain && !whole[[2]int32{e.Index, 1}] {
				lo, n := graph.Producers(e.Partitioner, producers, consumers, t.Index)
				whole[[2]int32{e.Index, 1}] = n == producers
				mark(e.FromChain, lo, n)
			}
		}
	}
	var ls []*taskpb.Location
	for pos, is := range near {
		if is {
			ls = append(ls, d.location(facts, pos, data))
		}
	}
	return ls
}

// location of one subtask. What a finished producer stored is named by the attempt and the epoch that wrote it.
func (d *Directory) location(facts *state.Job, pos int, data func(worker string) string) *taskpb.Location {
	if d.places[pos] != nil {
		return d.places[pos]
	}
	t := facts.At(pos)
	p := &taskpb.Location{
		Chain: t.Chain, Index: t.Index, Attempt: t.Attempt, RegionEpoch: facts.Region(t.Region).Epoch, Worker: t.Worker,
		DataAddress: data(t.Worker), Process: t.Process, Region: t.Region,
	}
	for _, x := range t.Partitions {
		if x.State == jobpb.PartitionState_PARTITION_STORED {
			p.Partitions = append(p.Partitions, x)
		}
	}
	d.places[pos] = p
	return p
}
