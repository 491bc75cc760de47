package snapshot

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
)

// Added are the segments that a manifest has and its base has not, with the places that acknowledgements tell, by name.
func Added(base, m *snapshotpb.Manifest, acks []Acknowledged) []*jobpb.StoredObject {
	places := map[string]map[string]bool{}
	for _, a := range acks {
		for _, s := range a.Ack.GetSegments() {
			name := s.GetObject().GetName()
			if places[name] == nil {
				places[name] = map[string]bool{}
			}
			for _, store := range s.Stores {
				places[name][store] = true
			}
		}
	}
	old := map[string]bool{}
	for _, o := range base.GetObjects() {
		old[o.Name] = true
	}
	var added []*jobpb.StoredObject
	for _, o := range m.Objects {
		if !old[o.Name] {
			added = append(added, &jobpb.StoredObject{Object: o, Stores: slices.Sorted(maps.Keys(places[o.Name]))})
		}
	}
	return added
}

// StateBytes is the size of all parts of a manifest.
func StateBytes(m *snapshotpb.Manifest) (bytes int64) {
	eachPart(m, func(_ *snapshotpb.SubtaskState, _ *snapshotpb.OperatorState, p *snapshotpb.Part) { bytes += p.Size })
	return bytes
}

func eachPart(m *snapshotpb.Manifest, f func(*snapshotpb.SubtaskState, *snapshotpb.OperatorState, *snapshotpb.Part)) {
	for _, s := range m.GetSubtasks() {
		for _, o := range s.Operators {
			for _, p := range o.Parts {
				f(s, o, p)
			}
		}
	}
}

// Retained are those of completed checkpoints, oldest first, that are kept: the newest n, at least one, and everything that a user
// asked for.
func Retained(completed []*jobpb.CheckpointDone, n int) []*jobpb.CheckpointDone {
	n = max(n, 1)
	periodic := 0
	kept := make([]*jobpb.CheckpointDone, 0, len(completed))
	for i := len(completed) - 1; i >= 0; i-- {
		d := completed[i]
		if !users(d.Kind) {
			if periodic++; periodic > n && i != len(completed)-1 {
				continue
			}
		}
		kept = append(kept, d)
	}
	slices.Reverse(kept)
	return kept
}

// users: the checkpoint belongs to the user.
func users(k jobpb.CheckpointKind) bool {
	return k == jobpb.CheckpointKind_CHECKPOINT_SAVEPOINT || k == jobpb.CheckpointKind_CHECKPOINT_STOP || k == jobpb.CheckpointKind_CHECKPOINT_DRAIN
}

// Keep is what must not be deleted.
type Keep struct {
	Needed [][]string // names of what kept checkpoints, bases and running restores need
	Newest uint64     // completed; 0: none
	Live   bool       // the job may still acknowledge
}

// Deletable are those of the stored objects of a job, in the facts or found in inventories, that nobody needs. An object of an id
// above the newest completed one may still be acknowledged, also if its own checkpoint was given up: an attempt lists again
// what it froze since its base. Names that are none are left alone. The answer is ordered.
func Deletable(stored []string, k Keep) []string {
	needed := map[string]bool{}
	for _, names := range k.Needed {
		for _, n := range names {
			needed[n] = true
		}
	}
	var gone []string
	for _, name := range stored {
		p, err := Name(name).Parse()
		if err != nil || needed[name] || k.Live && p.Checkpoint > k.Newest {
			continue
		}
		gone = append(gone, name)
	}
	slices.Sort(gone)
	return slices.Compact(gone)
}

// LongChain is from how many parts on a chain is worth merging.
const LongChain = 16

// ChainRef names the chain of a table.
type ChainRef struct {
	Chain, Index int32
	Operator     string
	Table        string
	Parts        int
}

// Hints are what is worth rewriting.
type Hints struct {
	Chains   []ChainRef // with more than LongChain parts
	Segments []string   // of which less than half is named by a part
}

// Compaction looks for what is worth rewriting in a manifest. Nothing changes until an acknowledgement names the new parts.
func Compaction(m *snapshotpb.Manifest) (h Hints) {
	live := map[string]int64{}
	counts := map[ChainRef]int{}
	eachPart(m, func(s *snapshotpb.SubtaskState, o *snapshotpb.OperatorState, p *snapshotpb.Part) {
		live[p.Segment] += p.Size
		counts[ChainRef{Chain: s.Chain, Index: s.Index, Operator: o.Operator, Table: p.Table}]++
	})
	for c, n := range counts {
		if n > LongChain {
			c.Parts = n
			h.Chains = append(h.Chains, c)
		}
	}
	slices.SortFunc(h.Chains, func(a, b ChainRef) int {
		return cmp.Or(cmp.Compare(a.Chain, b.Chain), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Operator, b.Operator), cmp.Compare(a.Table, b.Table))
	})
	for _, o := range m.GetObjects() {
		if live[o.Name] < (o.Size+1)/2 {
			h.Segments = append(h.Segments, o.Name)
		}
	}
	return h
}
