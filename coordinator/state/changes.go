package state

import (
	"iter"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// Changes are the positions of the subtasks whose records differ from those of an earlier state of the same job, in
// order; of a nil one all. It looks at each chunk of records, and into those that differ: after one report a
// hundredth of the subtasks.
func (j *Job) Changes(since *Job) iter.Seq[int] {
	if since == nil {
		return changes(j.subtasks, vec[*jobpb.Subtask]{})
	}
	return changes(j.subtasks, since.subtasks)
}

// RegionChanges are the regions whose records differ from those of an earlier state of the same job, in order; of a nil
// one all. The record of a region counts its subtasks, so it changes with each of them that begins or ends.
func (j *Job) RegionChanges(since *Job) iter.Seq[int] {
	if since == nil {
		return changes(j.regions, vec[regionRecord]{})
	}
	return changes(j.regions, since.regions)
}

// SlotChanges are the slots that were granted, given back, or whose attempts began or ended.
func (j *Job) SlotChanges(since *Job) iter.Seq[int] {
	if since == nil {
		return changes(j.slots, vec[slot]{})
	}
	return changes(j.slots, since.slots)
}

// InSlot is the number of attempts in slot i that may act.
func (j *Job) InSlot(i int) int { return int(j.slots.at(i).active) }

// changes are the indexes at which two vectors differ. Both stem from the same one, if they have the same length.
func changes[T comparable](now, since vec[T]) iter.Seq[int] {
	return func(yield func(int) bool) {
		for c, chunk := range now.chunks {
			var old []T
			if now.n == since.n {
				old = since.chunks[c]
			}
			if old != nil && &old[0] == &chunk[0] {
				continue
			}
			for i, x := range chunk {
				if (old == nil || old[i] != x) && !yield(c*chunkLen+i) {
					return
				}
			}
		}
	}
}
