package adopt

import (
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
)

// sources are the facts of the sources that the plan begins with, and adds to the entries of subtasks what they read. A split
// that was not finished carries its position, so it is the split that is given out now; one that was finished is left out.
func (t *translation) sources(subtasks []*snapshotpb.SubtaskState) (out []*jobpb.SourceState) {
	for _, c := range t.in.Plan.Chains {
		op := c.Operators[0]
		o := t.in.Plan.Graph.Operators[op]
		f := t.old[o.Id]
		if len(o.Inputs) > 0 || f == nil || !f.stateful() {
			continue
		}
		facts := t.facts(f.index)
		if facts == nil {
			continue
		}
		s := &jobpb.SourceState{Job: t.in.Job, Operator: op, Complete: facts.Complete, Enumerator: facts.Enumerator}
		s.Region = regionOf(t.in.Plan, c.Index)
		open, rest := f.splits(facts)
		states := make([]*snapshotpb.SourceState, c.Parallelism)
		for i := range states {
			states[i] = &snapshotpb.SourceState{WatermarkUs: f.said(), PastUs: math.MinInt64}
			for _, h := range f.states {
				if at := h.state.GetSource(); at != nil {
					states[i].Phase, states[i].PastUs = max(states[i].Phase, at.Phase), max(states[i].PastUs, at.PastUs)
				}
			}
		}
		for n, at := range open {
			owner := int32(n) % c.Parallelism
			state := proto.CloneOf(at)
			state.Index = states[owner].Have
			states[owner].Splits = append(states[owner].Splits, state)
			states[owner].Have++
			s.Assignments = append(s.Assignments, &jobpb.SplitAssignment{Subtask: owner, Split: int32(len(s.Splits))})
			s.Splits = append(s.Splits, at.Split)
		}
		s.Splits = append(s.Splits, rest...)
		for _, entry := range subtasks {
			if entry.Chain == c.Index {
				give(entry, o.Id, states[entry.Index])
			}
		}
		out = append(out, s)
	}
	return out
}

// facts of an old source.
func (t *translation) facts(operator int32) *jobpb.SourceState {
	i := slices.IndexFunc(t.from.Sources, func(s *jobpb.SourceState) bool { return s.Operator == operator })
	if i < 0 {
		return nil
	}
	return t.from.Sources[i]
}

// splits are those that somebody has begun and not finished, with their positions, in the order of the facts; and those that nobody had.
func (f *former) splits(facts *jobpb.SourceState) (open []*snapshotpb.SplitState, rest []*jobpb.Split) {
	had := map[int32]bool{}
	for _, h := range f.states {
		if h.state.GetSource() == nil {
			continue
		}
		open = append(open, h.state.Source.Splits...)
		n := int32(0)
		for _, a := range facts.Assignments { // what a reader had is a prefix of what it was given
			if a.Subtask == h.index && n < h.state.Source.Have {
				had[a.Split] = true
				n++
			}
		}
	}
	slices.SortStableFunc(open, func(a, b *snapshotpb.SplitState) int { return int(a.Index) - int(b.Index) })
	for i, s := range facts.Splits {
		if !had[int32(i)] {
			rest = append(rest, s)
		}
	}
	return open, rest
}

// said is the lowest watermark that a subtask of the source has said.
func (f *former) said() int64 {
	first, low := true, int64(math.MinInt64)
	for _, h := range f.states {
		if s := h.state.GetSource(); s != nil && (first || s.WatermarkUs < low) {
			first, low = false, s.WatermarkUs
		}
	}
	return low
}

// give adds what a subtask reads to the state of its operator.
func give(entry *snapshotpb.SubtaskState, operator string, s *snapshotpb.SourceState) {
	for _, o := range entry.Operators {
		if o.Operator == operator {
			o.Source = s
			return
		}
	}
	entry.Operators = append([]*snapshotpb.OperatorState{{Operator: operator, Source: s}}, entry.Operators...)
}

// regionOf is the region of subtask 0 of a chain.
func regionOf(p *jobpb.Plan, chain int32) int32 {
	for _, r := range p.Regions {
		for _, s := range r.Subtasks {
			if s.Chain == chain && s.First == 0 {
				return r.Index
			}
		}
	}
	return 0
}
