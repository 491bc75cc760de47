package snapshot

import (
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
