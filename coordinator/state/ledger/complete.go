package ledger

import (
	"fmt"
	"slices"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// Completion is what makes a checkpoint under way a completed one.
type Completion struct {
	ID       uint64
	Manifest *jobpb.StoredObject
	Segments []*jobpb.StoredObject // that are new with it
	Objects  []string              // all that the manifest needs, itself included
	Now      int64                 // microseconds since the Unix epoch
	Retain   int                   // completed ones to keep, savepoints aside; at least 1
	Copies   int                   // that each object should have; 0: whatever there is will do
	Pinned   []uint64              // ids that restarts still read
	// What people see.
	Bytes, StateBytes, AlignedMicros, FrozenMicros int64
}

// Complete ends the checkpoint under way with success, and forgets those that are no longer kept: whose objects then may be
// deleted by a plan. Kept are the newest Retain ones, savepoints, those pinned, and the newest that has all its copies.
func Complete(c *jobpb.Checkpoints, d *Completion) (*jobpb.Checkpoints, error) {
	s := c.Started
	if s == nil || s.Id != d.ID {
		return nil, fmt.Errorf("checkpoint %d is not under way", d.ID)
	}
	n := clone(c)
	for _, o := range append(slices.Clone(d.Segments), d.Manifest) {
		if err := place(n, o); err != nil {
			return nil, err
		}
	}
	names := slices.Clone(d.Objects)
	slices.Sort(names)
	names = slices.Compact(names)
	for _, name := range names {
		if err := usable(n, name); err != nil {
			return nil, err
		}
	}
	if _, ok := slices.BinarySearch(names, d.Manifest.GetObject().GetName()); !ok {
		return nil, fmt.Errorf("%w: the manifest is not among what checkpoint %d needs", ErrContradiction, d.ID)
	}
	if len(n.Objects) > MaxObjects {
		return nil, fmt.Errorf("%w: %d objects, at most %d can be kept", ErrContradiction, len(n.Objects), MaxObjects)
	}
	n.Started, n.Failed = nil, 0
	n.Completed = append(slices.Clone(c.Completed), &jobpb.CheckpointDone{
		Id: s.Id, Kind: s.Kind, Base: s.Base, StartedUs: s.StartedUs, CompletedUs: d.Now, Manifest: d.Manifest.Object, Objects: names,
		Bytes: d.Bytes, StateBytes: d.StateBytes, RequestId: s.RequestId,
	})
	n.History = remember(c.History, &jobpb.CheckpointRecord{
		Id: s.Id, Kind: s.Kind, StartedUs: s.StartedUs, EndedUs: d.Now, Completed: true, Bytes: d.Bytes, StateBytes: d.StateBytes,
		AlignedUs: d.AlignedMicros, FrozenUs: d.FrozenMicros,
	})
	retain(n, d)
	return n, nil
}

// usable: a manifest may name an object only if it is there and stays.
func usable(c *jobpb.Checkpoints, name string) error {
	if _, doomed := slices.BinarySearch(c.Deleting, name); doomed {
		return fmt.Errorf("object %.200q is being deleted", name)
	}
	if o := Object(c, name); o == nil || len(o.Stores) == 0 {
		return fmt.Errorf("object %.200q is in no store", name)
	}
	return nil
}

// retain drops the completed checkpoints that nobody needs. The newest is always kept.
func retain(n *jobpb.Checkpoints, d *Completion) {
	whole := wholeID(n, d.Copies)
	left := max(1, d.Retain)
	kept := make([]*jobpb.CheckpointDone, 0, len(n.Completed))
	for i, x := range slices.Backward(n.Completed) {
		counts := !Savepoint(x.Kind)
		if i == len(n.Completed)-1 || !counts || left > 0 || x.Id == whole || slices.Contains(d.Pinned, x.Id) {
			kept = append(kept, x)
		}
		if counts {
			left--
		}
	}
	slices.Reverse(kept)
	n.Completed = kept
}

// wholeID is the newest checkpoint of which every object has its copies; 0: none.
func wholeID(n *jobpb.Checkpoints, copies int) uint64 {
	if copies <= 1 {
		return 0
	}
	for _, x := range slices.Backward(n.Completed) {
		if Whole(n, x, copies) {
			return x.Id
		}
	}
	return 0
}

// Whole reports whether every object of a completed checkpoint is in so many stores.
func Whole(c *jobpb.Checkpoints, d *jobpb.CheckpointDone, copies int) bool {
	return !slices.ContainsFunc(d.Objects, func(name string) bool { return len(Object(c, name).GetStores()) < copies })
}

// Drop gives up a savepoint. Of a job that lives, the newest checkpoint stays: a restart goes back to it, and the one under way may
// build on it.
func Drop(c *jobpb.Checkpoints, id uint64, lives bool) (*jobpb.Checkpoints, error) {
	d := Find(c, id)
	switch {
	case d == nil || !Savepoint(d.Kind):
		return nil, fmt.Errorf("%w: there is no savepoint %d", ErrContradiction, id)
	case lives && d == Newest(c):
		return nil, fmt.Errorf("%w: savepoint %d is what a restart goes back to until the next checkpoint", ErrContradiction, id)
	}
	n := clone(c)
	n.Completed = slices.DeleteFunc(slices.Clone(c.Completed), func(x *jobpb.CheckpointDone) bool { return x == d })
	return n, nil
}

// Savepoints reports whether there are any that somebody keeps.
func Savepoints(c *jobpb.Checkpoints) bool {
	return slices.ContainsFunc(c.GetCompleted(), func(d *jobpb.CheckpointDone) bool { return Savepoint(d.Kind) })
}

// Release forgets the completed checkpoints of a job that ended, except savepoints, and every wish for one.
func Release(c *jobpb.Checkpoints) *jobpb.Checkpoints {
	n := clone(c)
	n.Started, n.Wanted = nil, nil
	n.Completed = slices.DeleteFunc(slices.Clone(c.Completed), func(d *jobpb.CheckpointDone) bool { return !Savepoint(d.Kind) })
	return n
}
