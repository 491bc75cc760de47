package state

import (
	"iter"

	"github.com/sluiceio/sluice/coordinator/state/vector"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Changes are the positions of the subtasks whose records differ from those of an earlier state of the same job, in
// order; of a nil one all. It looks at each chunk of records, and into those that differ: after one report a
// hundredth of the subtasks.
func (j *Job) Changes(since *Job) iter.Seq[int] {
	if since == nil {
		return vector.Changes(j.subtasks, vector.Vec[*jobpb.Subtask]{})
	}
	return vector.Changes(j.subtasks, since.subtasks)
}

// RegionChanges are the regions whose records differ from those of an earlier state of the same job, in order; of a nil
// one all. The record of a region counts its subtasks, so it changes with each of them that begins or ends.
func (j *Job) RegionChanges(since *Job) iter.Seq[int] {
	if since == nil {
		return vector.Changes(j.regions, vector.Vec[regionRecord]{})
	}
	return vector.Changes(j.regions, since.regions)
}

// SlotChanges are the slots that were granted, given back, or whose attempts began or ended.
func (j *Job) SlotChanges(since *Job) iter.Seq[int] {
	if since == nil {
		return vector.Changes(j.slots, vector.Vec[slot]{})
	}
	return vector.Changes(j.slots, since.slots)
}

// InSlot is the number of attempts in slot i that may act.
func (j *Job) InSlot(i int) int { return int(j.slots.At(i).active) }
