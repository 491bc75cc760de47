package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/sluiceio/sluice/internal/invariant"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Bounds of what is kept of one job.
const (
	MaxHistory = 100     // ended checkpoints
	MaxWanted  = 100     // savepoints that wait
	MaxObjects = 100_000 // stored objects
	MaxPlaces  = 64      // stores of one object
)

// ErrContradiction is wrapped by errors that no delay or race explains: one name for two objects, more than can be kept.
var ErrContradiction = errors.New("contradiction")

// New is the record of a job before its first checkpoint.
func New() *jobpb.Checkpoints { return &jobpb.Checkpoints{Next: 1} }

// Newest is what a restart goes back to; nil: none.
func Newest(c *jobpb.Checkpoints) *jobpb.CheckpointDone {
	if n := len(c.GetCompleted()); n > 0 {
		return c.Completed[n-1]
	}
	return nil
}

// Restore is the checkpoint to which a restart goes back: the newest completed one; 0: none.
func Restore(c *jobpb.Checkpoints) uint64 {
	if len(c.GetCompleted()) > 0 && invariant.Without("newest-checkpoint") {
		return c.Completed[0].Id
	}
	return Newest(c).GetId()
}

// Renew is what a restart that has waited goes back to, instead of old: a newer checkpoint has carried over what the region had in the older
// one. Without an old one it begins anew.
func Renew(c *jobpb.Checkpoints, old uint64) uint64 {
	if old == 0 {
		return 0
	}
	return Restore(c)
}

// Find is the completed checkpoint with an id; nil: none that is kept.
func Find(c *jobpb.Checkpoints, id uint64) *jobpb.CheckpointDone {
	i, ok := slices.BinarySearchFunc(c.GetCompleted(), id, func(d *jobpb.CheckpointDone, id uint64) int { return cmp.Compare(d.Id, id) })
	if !ok {
		return nil
	}
	return c.Completed[i]
}

// Object is where a named object is; nil: it is not known.
func Object(c *jobpb.Checkpoints, name string) *jobpb.StoredObject {
	i, ok := position(c.GetObjects(), name)
	if !ok {
		return nil
	}
	return c.Objects[i]
}

// Savepoint reports whether a checkpoint of this kind belongs to a user, who alone decides when it goes.
func Savepoint(k jobpb.CheckpointKind) bool {
	switch k {
	case jobpb.CheckpointKind_CHECKPOINT_SAVEPOINT, jobpb.CheckpointKind_CHECKPOINT_STOP, jobpb.CheckpointKind_CHECKPOINT_DRAIN:
		return true
	}
	return false
}

// Asked reports whether a checkpoint of this kind is taken because somebody asked for it.
func Asked(k jobpb.CheckpointKind) bool {
	return Savepoint(k) || k == jobpb.CheckpointKind_CHECKPOINT_RESCALE
}

// Stops reports whether the job ends with a checkpoint of this kind.
func Stops(k jobpb.CheckpointKind) bool {
	return k == jobpb.CheckpointKind_CHECKPOINT_STOP || k == jobpb.CheckpointKind_CHECKPOINT_DRAIN
}

// KindName is the kind as people read it: SAVEPOINT.
func KindName(k jobpb.CheckpointKind) string {
	const prefix = "CHECKPOINT_"
	if s := k.String(); len(s) > len(prefix) {
		return s[len(prefix):]
	}
	return k.String()
}

// Origin ends what people read of a restart: the checkpoint that it goes back to; nothing if it begins anew.
func Origin(restore uint64) string {
	if restore == 0 {
		return ""
	}
	return fmt.Sprintf("; from checkpoint %d", restore)
}

// Request notes that somebody asked for a savepoint.
func Request(c *jobpb.Checkpoints, r *jobpb.SavepointRequest) (*jobpb.Checkpoints, error) {
	switch {
	case !Asked(r.Kind):
		return nil, fmt.Errorf("%w: a %s is not asked for", ErrContradiction, KindName(r.Kind))
	case len(c.Wanted) >= MaxWanted:
		return nil, fmt.Errorf("%w: %d savepoints wait already", ErrContradiction, len(c.Wanted))
	case Stopping(c):
		return nil, errors.New("the job is asked to stop already")
	}
	n := clone(c)
	n.Wanted = append(slices.Clone(c.Wanted), r)
	return n, nil
}

// Stopping reports whether a savepoint with which the job ends is asked for or under way.
func Stopping(c *jobpb.Checkpoints) bool {
	return c.GetStarted() != nil && Stops(c.Started.Kind) || slices.ContainsFunc(c.GetWanted(), func(r *jobpb.SavepointRequest) bool { return Stops(r.Kind) })
}

// Awaits reports whether somebody waits for a checkpoint of this kind that was not started.
func Awaits(c *jobpb.Checkpoints, k jobpb.CheckpointKind) bool {
	return slices.ContainsFunc(c.GetWanted(), func(r *jobpb.SavepointRequest) bool { return r.Kind == k })
}

// Start issues the next id. start has kind, time, regions and, of a savepoint, the request; the other fields are set here. The
// newest completed checkpoint becomes the base.
func Start(c *jobpb.Checkpoints, start *jobpb.CheckpointStart) (*jobpb.Checkpoints, error) {
	if c.Started != nil {
		return nil, fmt.Errorf("checkpoint %d is under way", c.Started.Id)
	}
	n := clone(c)
	switch {
	case Asked(start.Kind):
		i := slices.IndexFunc(c.Wanted, func(r *jobpb.SavepointRequest) bool { return r.RequestId == start.RequestId && r.Kind == start.Kind })
		if i < 0 {
			return nil, fmt.Errorf("nobody waits for a %s of request %.100q", KindName(start.Kind), start.RequestId)
		}
		n.Wanted = slices.Delete(slices.Clone(c.Wanted), i, i+1)
	case start.RequestId != "":
		return nil, fmt.Errorf("%w: nobody asks for a %s", ErrContradiction, KindName(start.Kind))
	case len(c.Wanted) > 0:
		return nil, fmt.Errorf("%d savepoints wait, which go first", len(c.Wanted))
	}
	n.Next++
	n.Started = &jobpb.CheckpointStart{
		Id: c.Next, Kind: start.Kind, Base: Newest(c).GetId(), StartedUs: start.StartedUs, Regions: start.Regions, RequestId: start.RequestId,
	}
	return n, nil
}

// Abort gives up the checkpoint under way. A savepoint that was lost with a worker, a region or a leader is wanted again; of
// one that failed by itself the request has its answer.
func Abort(c *jobpb.Checkpoints, id uint64, cause *jobpb.Failure, now int64) (*jobpb.Checkpoints, error) {
	s := c.Started
	if s == nil || s.Id != id {
		return nil, fmt.Errorf("checkpoint %d is not under way", id)
	}
	n := clone(c)
	n.Started = nil
	if Asked(s.Kind) && cause.GetKind() == jobpb.FailureKind_FAILURE_LOSS {
		n.Wanted = append([]*jobpb.SavepointRequest{{RequestId: s.RequestId, Kind: s.Kind, TimeUs: s.StartedUs}}, c.Wanted...)
	}
	n.Failed++
	n.History = remember(c.History, &jobpb.CheckpointRecord{Id: id, Kind: s.Kind, StartedUs: s.StartedUs, EndedUs: now, Failure: cause})
	return n, nil
}

// Confirm notes that all output up to an id is visible. News beyond the newest completed one are cut to that.
func Confirm(c *jobpb.Checkpoints, id uint64) (*jobpb.Checkpoints, error) {
	if id = min(id, Newest(c).GetId()); id <= c.Confirmed {
		return nil, fmt.Errorf("output up to checkpoint %d is confirmed", c.Confirmed)
	}
	n := clone(c)
	n.Confirmed = id
	return n, nil
}

// Confirmed reports whether the output of the newest completed checkpoint is visible.
func Confirmed(c *jobpb.Checkpoints) bool { return Newest(c).GetId() <= c.GetConfirmed() }

func remember(history []*jobpb.CheckpointRecord, r *jobpb.CheckpointRecord) []*jobpb.CheckpointRecord {
	if len(history) >= MaxHistory {
		history = history[len(history)-MaxHistory+1:]
	}
	return append(append(make([]*jobpb.CheckpointRecord, 0, len(history)+1), history...), r)
}

// clone shares everything that hangs below the record: whoever changes a list replaces it.
func clone(c *jobpb.Checkpoints) *jobpb.Checkpoints {
	return &jobpb.Checkpoints{
		Next: c.Next, Started: c.Started, Completed: c.Completed, Objects: c.Objects, Deleting: c.Deleting, History: c.History,
		Failed: c.Failed, Confirmed: c.Confirmed, Wanted: c.Wanted, Origin: c.Origin,
	}
}
