package recovery

import (
	"github.com/sluiceio/sluice/coordinator/region"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Facts is what RestartSet asks of a job. *state.Job answers.
type Facts interface {
	Layout() *region.Layout
	Region(i int32) *jobpb.RegionState
	// At is the subtask at a position of the layout.
	At(position int) *jobpb.Subtask
}

// Missing reports whether a result that the facts call STORED cannot be read: its worker is lost, or does not have it.
type Missing func(producer *jobpb.Subtask, p *jobpb.Partition) bool

// Set is what one RestartRegions has to do.
type Set struct {
	Regions []int32               // in order; none of them waits for its attempts already
	Lost    []*jobpb.PartitionRef // results of these regions that the facts call STORED and that are missing
	// Reordered are regions that have read what will be made again, perhaps in another order. They need not run again for it,
	// but should they have to later, that counts: it has to become a fact with the restart.
	Reordered []int32
}

// change says how what a region reads when it runs again differs from what it read before.
type change uint8

const (
	untouched change = iota
	same             // byte by byte
	reordered        // the same records from each producer, perhaps in another order
	changed          // perhaps other records
)

// RestartSet is the least set of regions that has to run again: the failed ones and, for each region R in it,
//
//  1. the producers of every result that R reads and that cannot be read, unless they wait or run already;
//  2. each consumer of R over a BLOCKING edge that has been given an attempt and has not finished: its positions are void;
//  3. each finished consumer of R that may get other records than before.
//
// A region counts as failed, too, if a subtask of it has finished, a result of that cannot be read, and a consumer has
// not read it to its end. Regions that wait for their next attempt are not in the set, but what reaches them counts: they
// will run with changed input, and whoever has consumed what they wrote before must then run again.
//
// When a consumer may get other records: if the edge is not reproducible; if the input of R is changed; or if it is
// reordered and the edge depends on its order. The obvious rule, "the edge is not reproducible", was rejected: that flag
// speaks of a producer that runs again with the same input in the same order, and here what R reads may be made again, too.
//
// The cost grows with the number of subtasks and edges, not with that of the channels.
func RestartSet(f Facts, failed []int32, missing Missing) Set {
	s := newSearch(f, missing)
	for _, r := range failed {
		s.add(r)
	}
	s.addUnreadable()
	for len(s.work) > 0 {
		r := s.work[len(s.work)-1]
		s.work = s.work[:len(s.work)-1]
		s.pull(r)
		s.push(r)
	}
	return s.result()
}

// search is one RestartSet at work.
type search struct {
	f       Facts
	l       *region.Layout
	plan    *jobpb.Plan
	missing Missing
	waits   []bool   // by region: it has no attempt
	in      []bool   // by region: it is in the set
	input   []change // by region, should it run again
	pulled  []bool   // by region
	pushed  []change // by region: the input with which its consumers were looked at
	// Where every producer has the same consumers, an edge is looked at once for all of them.
	edgePulled []bool
	edgePushed []change
	work       []int32
}

func newSearch(f Facts, missing Missing) *search {
	l := f.Layout()
	p := l.Plan()
	regions, edges := len(p.Regions), len(p.Edges)
	s := &search{
		f: f, l: l, plan: p, missing: missing, waits: make([]bool, regions), in: make([]bool, regions),
		input: make([]change, regions), pulled: make([]bool, regions), pushed: make([]change, regions),
		edgePulled: make([]bool, edges), edgePushed: make([]change, edges),
	}
	for i := range s.waits {
		st := f.Region(int32(i)).Status
		s.waits[i] = st == jobpb.RegionStatus_REGION_CREATED || st == jobpb.RegionStatus_REGION_RESTARTING
		if f.Region(int32(i)).Reordered {
			s.input[i] = reordered
		}
	}
	return s
}

// add puts a region into the set, unless it waits for its next attempt anyway.
func (s *search) add(r int32) {
	if !s.in[r] && !s.waits[r] {
		s.in[r] = true
		s.work = append(s.work, r)
	}
}

// raise notes how the input of a region will differ, should the region run again.
func (s *search) raise(r int32, c change) {
	if c > s.input[r] {
		s.input[r] = c
		if s.in[r] || s.waits[r] {
			s.work = append(s.work, r)
		}
	}
}

// addUnreadable adds the regions of results that cannot be read by consumers that still have to.
func (s *search) addUnreadable() {
	unread := make([]int8, len(s.plan.Edges)) // of edges that are not near: 1 if some consumer has not finished, -1 if none
	for pos := range s.l.Size() {
		t := s.f.At(pos)
		if t.State != jobpb.SubtaskState_SUBTASK_FINISHED || s.in[t.Region] || s.waits[t.Region] {
			continue
		}
		for _, e := range s.l.Out(t.Chain) {
			if !s.readable(t, e) && s.wanted(e, t.Index, unread) {
				s.add(t.Region)
				break
			}
		}
	}
}

// wanted reports whether a consumer of a result has not finished.
func (s *search) wanted(edge, producer int32, unread []int8) bool {
	near := s.l.Near(edge)
	if !near && unread[edge] != 0 {
		return unread[edge] > 0
	}
	span, found := s.l.Consumers(edge, producer), int8(-1)
	for i := range span.Count {
		if s.f.At(int(span.First+i)).State != jobpb.SubtaskState_SUBTASK_FINISHED {
			found = 1
			break
		}
	}
	if !near {
		unread[edge] = found
	}
	return found > 0
}

// readable reports whether what a finished subtask stored for an edge is there.
func (s *search) readable(t *jobpb.Subtask, edge int32) bool {
	for _, p := range t.Partitions {
		if p.Edge == edge {
			return p.State == jobpb.PartitionState_PARTITION_STORED && !s.missing(t, p)
		}
	}
	return false
}

// pull adds the producers of what a region of the set will read and cannot.
func (s *search) pull(r int32) {
	if !s.in[r] || s.pulled[r] {
		return
	}
	s.pulled[r] = true
	for _, sub := range s.plan.Regions[r].Subtasks {
		for _, e := range s.l.In(sub.Chain) {
			switch {
			case !s.l.Reads(e, sub):
			case s.l.Near(e):
				for i := range sub.Count {
					s.pullFrom(e, s.l.Producers(e, sub.First+i))
				}
			case !s.edgePulled[e]:
				s.edgePulled[e] = true
				s.pullFrom(e, s.l.Producers(e, 0))
			}
		}
	}
}

func (s *search) pullFrom(edge int32, from region.Span) {
	for i := range from.Count {
		t := s.f.At(int(from.First + i))
		switch t.State {
		case jobpb.SubtaskState_SUBTASK_SCHEDULED, jobpb.SubtaskState_SUBTASK_RUNNING:
			// It will store it.
		default:
			if !s.in[t.Region] && !s.waits[t.Region] && !s.readable(t, edge) {
				s.add(t.Region)
			}
		}
	}
}

// push looks at the consumers of what a region will write again.
func (s *search) push(r int32) {
	input := max(s.input[r], same)
	if s.pushed[r] >= input || s.waits[r] && input == same {
		return // of a region that waits, whoever restarted it has looked at its consumers
	}
	s.pushed[r] = input
	for _, sub := range s.plan.Regions[r].Subtasks {
		for _, e := range s.l.Out(sub.Chain) {
			out := s.output(s.plan.Edges[e], input)
			if s.l.Near(e) {
				for i := range sub.Count {
					s.pushTo(s.l.Consumers(e, sub.First+i), out)
				}
			} else if s.edgePushed[e] < out {
				s.edgePushed[e] = out
				s.pushTo(s.l.Consumers(e, sub.First), out)
			}
		}
	}
}

func (s *search) pushTo(to region.Span, out change) {
	for i := range to.Count {
		t := s.f.At(int(to.First + i))
		s.raise(t.Region, out)
		switch t.State {
		case jobpb.SubtaskState_SUBTASK_CREATED:
		case jobpb.SubtaskState_SUBTASK_FINISHED:
			if out == changed && !s.plan.Regions[t.Region].Checkpointed { // there a checkpoint contains its end, for good
				s.add(t.Region)
			}
		default:
			s.add(t.Region)
		}
	}
}

// output is how what a region writes for an edge differs, given how its input does.
func (s *search) output(e *jobpb.Edge, input change) change {
	switch {
	case input == changed || !e.Reproducible || input == reordered && e.OrderDependent:
		return changed
	case input == reordered || !e.Ordered:
		return reordered
	}
	return same
}

func (s *search) result() (set Set) {
	for r, in := range s.in {
		if !in {
			if s.input[r] == reordered && !s.waits[r] && !s.f.Region(int32(r)).Reordered {
				set.Reordered = append(set.Reordered, int32(r))
			}
			continue
		}
		set.Regions = append(set.Regions, int32(r))
		for _, sub := range s.plan.Regions[r].Subtasks {
			for i := range sub.Count {
				t := s.f.At(int(s.l.First(sub.Chain) + sub.First + i))
				for _, p := range t.Partitions {
					if p.State == jobpb.PartitionState_PARTITION_STORED && s.missing(t, p) {
						set.Lost = append(set.Lost, &jobpb.PartitionRef{Edge: p.Edge, Producer: t.Index, Attempt: p.Attempt})
					}
				}
			}
		}
	}
	return set
}
