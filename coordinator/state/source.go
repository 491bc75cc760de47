package state

import "github.com/sluiceio/sluice/proto/jobpb"

// Source is what is known of one source of a job: the splits that its enumerator found and which attempt reads which.
// An immutable record, kept apart from the job. Splits are given away in the order in which they were found, so those
// that have an owner are always the first ones.
type Source struct {
	job         string
	operator    int32
	chain       int32
	region      int32
	regionEpoch uint64
	complete    bool
	bytes       int // of all splits
	splits      vec[*jobpb.Split]
	owners      vec[*jobpb.SplitAssignment] // of the first owners.len() splits
	of          vec[[]int32]                // by subtask: its splits, in order
}

// Operator is the index of the source in the graph, Chain that of its chain in the plan.
func (s *Source) Operator() int32 { return s.operator }

// Chain is the chain that reads the source.
func (s *Source) Chain() int32 { return s.chain }

// Region is the region of that chain.
func (s *Source) Region() int32 { return s.region }

// RegionEpoch is the epoch in which the present assignments hold.
func (s *Source) RegionEpoch() uint64 { return s.regionEpoch }

// Complete reports whether the enumerator reached its end.
func (s *Source) Complete() bool { return s.complete }

// Len is the number of splits found so far.
func (s *Source) Len() int { return s.splits.len() }

// Bytes is the size of all splits together, as it is bounded by MaxSourceBytes.
func (s *Source) Bytes() int { return s.bytes }

// Split is the split with index i.
func (s *Source) Split(i int) *jobpb.Split { return s.splits.at(i) }

// Assigned is the number of splits that have an owner: the first ones.
func (s *Source) Assigned() int { return s.owners.len() }

// Of are the splits of a subtask, in the order of assignment.
func (s *Source) Of(subtask int32) []int32 {
	if subtask < 0 || int(subtask) >= s.of.len() {
		return nil
	}
	return s.of.at(int(subtask))
}

// Readers is the parallelism of the source.
func (s *Source) Readers() int { return s.of.len() }

// Proto is the source in one message.
func (s *Source) Proto() *jobpb.SourceState {
	p := s.head()
	for _, x := range s.splits.all() {
		p.Splits = append(p.Splits, x)
	}
	for _, a := range s.owners.all() {
		p.Assignments = append(p.Assignments, a)
	}
	return p
}

func (s *Source) head() *jobpb.SourceState {
	return &jobpb.SourceState{Job: s.job, Operator: s.operator, Region: s.region, RegionEpoch: s.regionEpoch, Complete: s.complete}
}

// restarted is the source in a new epoch of its region. Assignments end. The splits of an unfinished enumeration are
// forgotten with them: the next enumerator starts from nothing and need not find things in the same order.
func (s *Source) restarted(epoch uint64) *Source {
	n := *s
	n.regionEpoch = epoch
	n.owners = vec[*jobpb.SplitAssignment]{}
	n.of = makeVec[[]int32](s.of.len())
	if !n.complete {
		n.splits, n.bytes = vec[*jobpb.Split]{}, 0
	}
	return &n
}
