package ledger

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// Begin is the record of a job that begins with a checkpoint of another one. Ids go on above it, so that nothing of the two jobs has
// one name. Its output is that of the other job, which makes it visible.
func Begin(from *jobpb.Checkpoints, d *jobpb.CheckpointDone) (*jobpb.Checkpoints, error) {
	n := &jobpb.Checkpoints{Next: d.Id + 1, Origin: d.Id, Confirmed: d.Id}
	for _, name := range d.Objects {
		if err := usable(from, name); err != nil {
			return nil, err
		}
		n.Objects = append(n.Objects, Object(from, name))
	}
	n.Completed = []*jobpb.CheckpointDone{{
		Id: d.Id, Kind: jobpb.CheckpointKind_CHECKPOINT_PERIODIC, StartedUs: d.StartedUs, CompletedUs: d.CompletedUs, Manifest: d.Manifest, Objects: d.Objects,
		StateBytes: d.StateBytes,
	}}
	return n, nil
}

// Adopt replaces what the newest checkpoint consists of: the same state, seen by another plan. A savepoint stays what it was,
// since it belongs to its user, who may start other jobs from it: then the newest one is not it.
func Adopt(c *jobpb.Checkpoints, manifest *jobpb.StoredObject, objects []string) (*jobpb.Checkpoints, error) {
	d := Newest(c)
	switch {
	case d == nil:
		return nil, errors.New("there is no checkpoint to adopt")
	case c.Started != nil:
		return nil, fmt.Errorf("checkpoint %d is under way", c.Started.Id)
	case Savepoint(d.Kind):
		return nil, fmt.Errorf("%w: checkpoint %d is a savepoint", ErrContradiction, d.Id)
	}
	n := clone(c)
	if err := place(n, manifest); err != nil {
		return nil, err
	}
	names := slices.Clone(objects)
	slices.Sort(names)
	names = slices.Compact(names)
	for _, name := range names {
		if err := usable(n, name); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrContradiction, err)
		}
	}
	if _, ok := slices.BinarySearch(names, manifest.GetObject().GetName()); !ok {
		return nil, fmt.Errorf("%w: the manifest is not among what the checkpoint needs", ErrContradiction)
	}
	n.Completed = slices.Clone(c.Completed)
	n.Completed[len(n.Completed)-1] = &jobpb.CheckpointDone{
		Id: d.Id, Kind: d.Kind, Base: d.Base, StartedUs: d.StartedUs, CompletedUs: d.CompletedUs, Manifest: manifest.Object, Objects: names, Bytes: d.Bytes,
		StateBytes: d.StateBytes, RequestId: d.RequestId,
	}
	return n, nil
}
