package commandpb

import (
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// validateCheckpoint checks the commands about checkpoints; known is false for others.
func (c *Command) validateCheckpoint() (known bool, err error) {
	switch b := c.Command.(type) {
	case *Command_StartCheckpoint:
		return true, b.StartCheckpoint.validate()
	case *Command_CompleteCheckpoint:
		return true, b.CompleteCheckpoint.validate()
	case *Command_AbortCheckpoint:
		return true, checkFailure("abort_checkpoint.cause", b.AbortCheckpoint.GetCause())
	case *Command_PlaceObjects:
		p := b.PlaceObjects
		return true, errors.Join(checkCount("place_objects", len(p.GetPlaced())+len(p.GetLost())),
			checkObjects("place_objects.placed", p.GetPlaced()), checkObjects("place_objects.lost", p.GetLost()))
	case *Command_DeleteObjects:
		return true, checkNames("delete_objects.names", b.DeleteObjects.GetNames())
	case *Command_ForgetObjects:
		return true, checkNames("forget_objects.names", b.ForgetObjects.GetNames())
	case *Command_DeleteSavepoint:
		if b.DeleteSavepoint.GetCheckpoint() == 0 {
			return true, errors.New("delete_savepoint.checkpoint: checkpoints count from 1")
		}
		return true, nil
	case *Command_RequestSavepoint:
		return true, errors.Join(checkKind("request_savepoint.kind", b.RequestSavepoint.GetKind()), checkID("request_id", c.RequestId, required))
	case *Command_RequestRescale:
		return true, errors.Join(checkID("request_id", c.RequestId, required), checkParallelism(b.RequestRescale.GetParallelism()))
	case *Command_RescaleJob:
		r := b.RescaleJob
		if r.GetAdopted() == nil {
			return true, errors.New("rescale_job.adopted: missing")
		}
		return true, errors.Join(r.Plan.Validate(), r.Adopted.validate("rescale_job.adopted"))
	case *Command_AbandonRescale:
		return true, checkFailure("abandon_rescale.cause", b.AbandonRescale.GetCause())
	}
	return false, nil
}

func checkParallelism(n int32) error {
	if n < 1 || n > jobpb.MaxParallelism {
		return fmt.Errorf("request_rescale.parallelism: %d is not in 1…%d", n, jobpb.MaxParallelism)
	}
	return nil
}

// validate checks what is adopted; nil: nothing is.
func (a *Adopted) validate(path string) error {
	if a == nil {
		return nil
	}
	if err := errors.Join(checkObjects(path+".manifest", []*jobpb.StoredObject{a.Manifest}), checkNames(path+".objects", a.Objects)); err != nil {
		return err
	}
	if len(a.Manifest.Object.Digest) == 0 {
		return fmt.Errorf("%s.manifest: no digest", path)
	}
	for i, s := range a.Sources {
		if s == nil {
			return fmt.Errorf("%s.sources[%d]: missing", path, i)
		}
	}
	return nil
}

func (s *StartCheckpoint) validate() error {
	return errors.Join(checkKind("start_checkpoint.kind", s.GetKind()), checkRegions("start_checkpoint.regions", s.GetRegions()),
		checkID("start_checkpoint.request_id", s.GetRequestId(), optional))
}

func (x *CompleteCheckpoint) validate() error {
	if err := errors.Join(checkObjects("complete_checkpoint.segments", x.GetSegments()), checkNames("complete_checkpoint.objects", x.GetObjects()),
		checkObjects("complete_checkpoint.manifest", []*jobpb.StoredObject{x.GetManifest()}), checkSubtasks("complete_checkpoint.finished", x.GetFinished()),
		checkSubtasks("complete_checkpoint.settled", x.GetSettled())); err != nil {
		return err
	}
	if len(x.Manifest.Object.Digest) == 0 {
		return errors.New("complete_checkpoint.manifest: no digest")
	}
	if x.Retain < 1 || x.Copies < 0 || x.Bytes < 0 || x.StateBytes < 0 || x.AlignedUs < 0 || x.FrozenUs < 0 {
		return errors.New("complete_checkpoint: a figure is negative, or retain is not above zero")
	}
	if err := checkMost("complete_checkpoint.committables", len(x.Committables)); err != nil {
		return err
	}
	for i, c := range x.Committables {
		if err := c.Validate(); err != nil {
			return fmt.Errorf("complete_checkpoint.committables[%d]: %w", i, err)
		}
		if c.Checkpoint == 0 || c.Checkpoint > x.Checkpoint {
			return fmt.Errorf("complete_checkpoint.committables[%d]: of checkpoint %d, not of 1…%d", i, c.Checkpoint, x.Checkpoint)
		}
	}
	return nil
}

func checkKind(path string, k jobpb.CheckpointKind) error {
	if _, known := jobpb.CheckpointKind_name[int32(k)]; !known || k == jobpb.CheckpointKind_CHECKPOINT_UNSPECIFIED {
		return fmt.Errorf("%s: %d is none", path, k)
	}
	return nil
}

func checkObjects(path string, objects []*jobpb.StoredObject) error {
	for i, o := range objects {
		if err := o.Validate(); err != nil {
			return fmt.Errorf("%s[%d]: %w", path, i, err)
		}
	}
	return checkMost(path, len(objects))
}

func checkNames(path string, names []string) error {
	for i, n := range names {
		if err := jobpb.CheckObjectName(n); err != nil {
			return fmt.Errorf("%s[%d]: %w", path, i, err)
		}
	}
	return checkCount(path, len(names))
}

func checkSubtasks(path string, refs []*SubtaskRef) error {
	for i, r := range refs {
		if r == nil || r.Attempt == 0 {
			return fmt.Errorf("%s[%d]: missing, or without an attempt", path, i)
		}
	}
	return checkMost(path, len(refs))
}
