package rollout

import (
	"maps"
	"slices"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// Directory tells subtasks where the others are. What it says of a subtask, and of a chain as a whole, is made once for all
// messages, until it is forgotten: thousands of consumers of a shuffle are told of the same producers.
type Directory struct {
	places []*taskpb.Location   // by position; nil: to be looked up
	whole  [][]*taskpb.Location // by chain, all of its subtasks; nil: to be put together
}

// NewDirectory of a planned job.
func NewDirectory(facts *state.Job) *Directory {
	return &Directory{places: make([]*taskpb.Location, facts.Size()), whole: make([][]*taskpb.Location, len(facts.Plan().Chains))}
}

// Forget has a subtask of a chain looked up again.
func (d *Directory) Forget(position int, chain int32) { d.places[position], d.whole[chain] = nil, nil }

// ForgetAll has everything looked up again: a worker is somewhere else.
func (d *Directory) ForgetAll() {
	clear(d.places)
	clear(d.whole)
}

// Data is the data port of a worker.
type Data func(worker string) string

// Locations are the places of every subtask with which these exchange records, in order.
func (d *Directory) Locations(facts *state.Job, positions []int32, data Data) []*taskpb.Location {
	p := facts.Plan()
	whole, some := make([]bool, len(p.Chains)), make([]map[int32]bool, len(p.Chains))
	add := func(chain, first, count int32) {
		switch {
		case count == p.Chains[chain].Parallelism:
			whole[chain] = true
		case !whole[chain] && some[chain] == nil:
			some[chain] = map[int32]bool{}
			fallthrough
		case !whole[chain]:
			for i := range count {
				some[chain][first+i] = true
			}
		}
	}
	for _, pos := range positions {
		t := facts.At(int(pos))
		for _, e := range p.Edges {
			producers, consumers := p.Chains[e.FromChain].Parallelism, p.Chains[e.ToChain].Parallelism
			if e.FromChain == t.Chain {
				lo, n := graph.Consumers(e.Partitioner, producers, consumers, t.Index)
				add(e.ToChain, lo, n)
			}
			if e.ToChain == t.Chain {
				lo, n := graph.Producers(e.Partitioner, producers, consumers, t.Index)
				add(e.FromChain, lo, n)
			}
		}
	}
	var ls []*taskpb.Location
	for c := range p.Chains {
		if whole[c] {
			ls = append(ls, d.chain(facts, int32(c), data)...)
			continue
		}
		for _, i := range slices.Sorted(maps.Keys(some[c])) {
			ls = append(ls, d.location(facts, int(facts.Layout().First(int32(c))+i), data))
		}
	}
	return ls
}

func (d *Directory) chain(facts *state.Job, chain int32, data Data) []*taskpb.Location {
	if d.whole[chain] == nil {
		first, n := int(facts.Layout().First(chain)), int(facts.Plan().Chains[chain].Parallelism)
		d.whole[chain] = make([]*taskpb.Location, n)
		for i := range n {
			d.whole[chain][i] = d.location(facts, first+i, data)
		}
	}
	return d.whole[chain]
}

// location of one subtask. What a finished producer stored is named by the attempt and the epoch that wrote it.
func (d *Directory) location(facts *state.Job, pos int, data Data) *taskpb.Location {
	if d.places[pos] != nil {
		return d.places[pos]
	}
	t, r := facts.At(pos), facts.Region(facts.At(pos).Region)
	p := &taskpb.Location{
		Chain: t.Chain, Index: t.Index, Attempt: t.Attempt, RegionEpoch: r.Epoch, Worker: t.Worker,
		DataAddress: data(t.Worker), Process: t.Process, Region: t.Region,
		// In a region that starts from a checkpoint nobody is FINISHED whose end that does not contain.
		Finished: r.Restore > 0 && t.State == jobpb.SubtaskState_SUBTASK_FINISHED,
	}
	for _, x := range t.Partitions {
		if x.State == jobpb.PartitionState_PARTITION_STORED {
			p.Partitions = append(p.Partitions, x)
		}
	}
	d.places[pos] = p
	return p
}
