package glance

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// ByProcess groups positions by task process and by the checkpoint that they begin with, in the order of both.
func ByProcess(facts *state.Job, positions []int32) [][]int32 {
	type with struct{ process, restore uint64 }
	groups := map[with][]int32{}
	for _, p := range positions {
		t := facts.At(int(p))
		k := with{t.Process, facts.Region(t.Region).Restore}
		groups[k] = append(groups[k], p)
	}
	var all [][]int32
	for _, k := range slices.SortedFunc(maps.Keys(groups), func(a, b with) int {
		return cmp.Or(cmp.Compare(a.process, b.process), cmp.Compare(a.restore, b.restore))
	}) {
		all = append(all, groups[k])
	}
	return all
}

// Enumerated are, by chain, the sources whose splits are not all known.
func Enumerated(facts *state.Job) map[int32][]int32 {
	sources := map[int32][]int32{}
	for _, s := range facts.Sources() {
		if !s.Complete() {
			sources[s.Chain()] = append(sources[s.Chain()], s.Operator())
		}
	}
	return sources
}

// GoneOn are the enumerators that go on behind splits which are known already.
func GoneOn(facts *state.Job, operators []int32) (out []*taskpb.EnumeratorState) {
	for _, op := range operators {
		if src := facts.Source(op); src.Len() > 0 {
			out = append(out, &taskpb.EnumeratorState{Operator: op, State: src.Enumerator(), Offset: int32(src.Len())})
		}
	}
	return out
}

// Completed is the output of completed checkpoints that is not confirmed, in order. Sinks of other regions prepare theirs for the end of
// the job.
func Completed(facts *state.Job) (out []*jobpb.Committable) {
	for _, c := range facts.Committables() {
		if facts.OfCheckpoint(c) {
			out = append(out, c)
		}
	}
	return out
}
