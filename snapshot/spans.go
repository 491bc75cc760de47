package snapshot

import (
	"slices"

	"github.com/sluiceio/sluice/proto/snapshotpb"
)

// Span is a range of key groups and the chain of parts that says what is in it, oldest first.
type Span struct {
	First, End int32
	Parts      []*snapshotpb.Part
}

// Spans cuts [first, end) into ranges of which each is covered by the same parts from one end to the other. A part counts for the
// key groups that the manifest names for it and for no others, although its chunk may hold more: after a change of parallelism
// several subtasks name one part, and each of them writes newer ones for its own groups alone. Ranges that no part covers are left out.
func Spans(parts []*snapshotpb.Part, first, end int32) []Span {
	cuts := []int32{first, end}
	for _, p := range parts {
		for _, at := range []int32{p.First, p.End} {
			if at > first && at < end {
				cuts = append(cuts, at)
			}
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	var out []Span
	for i := range len(cuts) - 1 {
		s := Span{First: cuts[i], End: cuts[i+1]}
		for _, p := range parts {
			if p.First <= s.First && p.End >= s.End {
				s.Parts = append(s.Parts, p)
			}
		}
		if len(s.Parts) > 0 {
			out = append(out, s)
		}
	}
	return out
}
