package group

import (
	"cmp"
	"slices"

	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// Elsewhere is what the processes of one heartbeat have to be told: of each group that they have named, where it stands in the
// other processes of the job. A process that has named no group is told nothing. all are the newest samples of every process,
// those of the heartbeat included.
func Elsewhere(heartbeat, all []*controlpb.ProcessSample) (out []*taskpb.GroupClocks) {
	for _, p := range heartbeat {
		if len(p.Sample.GetGroups()) == 0 {
			continue
		}
		stands := map[string]int64{}
		for _, o := range all {
			if o.Job != p.Job || o.Process == p.Process {
				continue
			}
			for _, g := range o.Sample.GetGroups() {
				at, known := stands[g.Group]
				if !known || g.WatermarkUs < at {
					stands[g.Group] = g.WatermarkUs
				}
			}
		}
		m := &taskpb.GroupClocks{Job: p.Job, Process: p.Process}
		for _, g := range p.Sample.Groups {
			if at, known := stands[g.Group]; known {
				m.Groups = append(m.Groups, &taskpb.GroupClock{Group: g.Group, WatermarkUs: at})
			}
		}
		slices.SortFunc(m.Groups, func(a, b *taskpb.GroupClock) int { return cmp.Compare(a.Group, b.Group) })
		out = append(out, m)
	}
	return out
}
