package state

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluiceio/sluice/coordinator/state/ledger"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Checkpoints is the record of the job's checkpoints: immutable, nil if it takes none.
func (j *Job) Checkpoints() *jobpb.Checkpoints { return j.checkpoints }

// Newest is the checkpoint that a restart goes back to; nil: none.
func (j *Job) Newest() *jobpb.CheckpointDone { return ledger.Newest(j.checkpoints) }

// Checkpointed reports whether the job takes checkpoints.
func (j *Job) Checkpointed() bool { return j.checkpoints != nil }

// setCheckpoints replaces the record. The hash chain gets what is small of it; lists are folded with the commands that change
// them.
func (e *jobEdit) setCheckpoints(c *jobpb.Checkpoints) {
	e.j.checkpoints = c
	e.t.note(changeCheckpoints, &jobpb.Checkpoints{Next: c.Next, Started: c.Started, Deleting: c.Deleting, Failed: c.Failed, Confirmed: c.Confirmed, Wanted: c.Wanted, Origin: c.Origin})
	e.t.note(changeCheckpoints, &jobpb.Checkpoints{Next: uint64(len(c.Completed)), Confirmed: uint64(len(c.Objects)), Failed: int32(len(c.History))})
	if d := ledger.Newest(c); d != nil {
		e.t.note(changeCheckpoints, d)
	}
}

// took makes a transition of the record, or answers why there is none.
func (e *jobEdit) took(c *jobpb.Checkpoints, err error) Result {
	switch {
	case errors.Is(err, ledger.ErrContradiction):
		return Result{Status: Refused, Code: CodeMalformed, Job: e.j.ID(), Message: err.Error()}
	case err != nil:
		return e.stale("%v", err)
	}
	e.setCheckpoints(c)
	return applied(e.j.ID())
}

// takes checks what every command about the checkpoint of a living job presumes.
func (e *jobEdit) takes(epoch uint64) Result {
	switch {
	case e.j.checkpoints == nil:
		return e.stale("the job takes no checkpoints")
	case !e.in(jobpb.JobStatus_JOB_WAITING, jobpb.JobStatus_JOB_RUNNING, jobpb.JobStatus_JOB_RESTARTING):
		return e.wrongStatus()
	case epoch != e.j.head.Epoch:
		return e.stale("job epoch is %d", e.j.head.Epoch)
	}
	return Result{Status: Applied}
}

// checkpointed reports whether a region takes part in checkpoints.
func (e *jobEdit) checkpointed(region int32) bool {
	return e.j.checkpoints != nil && e.j.Plan().Regions[region].Checkpointed
}

func (e *jobEdit) startCheckpoint(c *commandpb.StartCheckpoint) Result {
	if r := e.takes(c.JobEpoch); r.Status != Applied {
		return r
	}
	if completed, _ := e.j.Switching(); completed {
		return e.stale("another plan takes over")
	}
	start := &jobpb.CheckpointStart{Kind: c.Kind, StartedUs: e.t.now, RequestId: c.RequestId}
	in := make([]bool, e.regions.Len())
	for _, r := range c.Regions {
		if r.Region < 0 || int(r.Region) >= len(in) || !e.checkpointed(r.Region) {
			return refused(CodeMalformed, "job %s has no region %d that takes checkpoints", e.j.ID(), r.Region)
		}
		in[r.Region] = true
	}
	for i, r := range e.regions.All() {
		runs := r.state.Status == jobpb.RegionStatus_REGION_SCHEDULED || r.state.Status == jobpb.RegionStatus_REGION_RUNNING
		switch {
		case in[i] && !runs:
			return e.stale("region %d has no attempts", i)
		case runs && !in[i] && e.checkpointed(int32(i)):
			return e.stale("region %d has attempts, too", i)
		case in[i]:
			start.Regions = append(start.Regions, &jobpb.RegionRef{Region: int32(i), Epoch: r.state.Epoch})
		case c.Kind == jobpb.CheckpointKind_CHECKPOINT_FINAL && e.checkpointed(int32(i)) && r.finished != r.size:
			return e.stale("region %d waits: this checkpoint is not the last", i)
		}
	}
	for _, r := range c.Regions {
		if now := e.regions.At(int(r.Region)).state.Epoch; r.Epoch != now {
			return e.stale("region %d is in epoch %d", r.Region, now)
		}
	}
	if c.Kind == jobpb.CheckpointKind_CHECKPOINT_FINAL && !e.allFinishing(in) {
		return e.stale("some subtask has not come to its end")
	}
	return e.took(ledger.Start(e.j.checkpoints, start))
}

// allFinishing reports whether every attempt of these regions that may act has come to its end.
func (e *jobEdit) allFinishing(in []bool) bool {
	for _, s := range e.subtasks.All() {
		if in[s.Region] && s.State != jobpb.SubtaskState_SUBTASK_FINISHING && s.State != jobpb.SubtaskState_SUBTASK_FINISHED {
			return false
		}
	}
	return true
}

// completeCheckpoint makes a checkpoint what restarts go back to (PROTOCOL 3): only with the regions in the epochs that they had
// when it was started, so that of a completion and a restart that were proposed together, the first one counts.
func (e *jobEdit) completeCheckpoint(c *commandpb.CompleteCheckpoint) Result {
	if r := e.takes(c.JobEpoch); r.Status != Applied {
		return r
	}
	s := e.j.checkpoints.Started
	if s == nil || s.Id != c.Checkpoint {
		return e.stale("checkpoint %d is not under way", c.Checkpoint)
	}
	for _, r := range s.Regions {
		if now := e.regions.At(int(r.Region)).state; now.Epoch != r.Epoch || now.Status == jobpb.RegionStatus_REGION_RESTARTING {
			return e.stale("region %d is in epoch %d", r.Region, now.Epoch)
		}
	}
	if r := e.checkCompletion(c); r.Status != Applied {
		return r
	}
	failed := e.j.checkpoints.Failed
	r := e.took(ledger.Complete(e.j.checkpoints, &ledger.Completion{
		ID: c.Checkpoint, Manifest: c.Manifest, Segments: c.Segments, Objects: c.Objects, Now: e.t.now, Retain: int(c.Retain), Copies: int(c.Copies),
		Pinned: e.restoring(), Bytes: c.Bytes, StateBytes: c.StateBytes, AlignedMicros: c.AlignedUs, FrozenMicros: c.FrozenUs,
	}))
	if r.Status != Applied {
		return r
	}
	e.keepOutput(c.Committables)
	e.settle(c)
	e.autoConfirm()
	if first := len(e.j.checkpoints.Completed) == 1 && s.Base == 0; first || failed > 0 || s.Kind != jobpb.CheckpointKind_CHECKPOINT_PERIODIC {
		e.event("checkpoint-completed", fmt.Sprintf("%d, %s: %d bytes written, %d bytes of state", s.Id, ledger.KindName(s.Kind), c.Bytes, c.StateBytes))
	}
	if ledger.Stops(s.Kind) { // what attempts do behind the savepoint is void, and its output was never prepared
		e.j.head.Desired = jobpb.JobStatus_JOB_STOPPED
		e.become(jobpb.JobStatus_JOB_STOPPING)
		e.j.head.Epoch++
		e.isolate()
		return r
	}
	if h := e.j.head; s.Kind == jobpb.CheckpointKind_CHECKPOINT_RESCALE && e.j.Rescaling() {
		h.Rescale = &jobpb.Rescale{Parallelism: h.Rescale.Parallelism, RequestId: h.Rescale.RequestId, Checkpoint: s.Id}
	}
	e.finishing()
	e.switchOver()
	return r
}

// restoring are the checkpoints that attempts still may have to read.
func (e *jobEdit) restoring() (ids []uint64) {
	for _, r := range e.regions.All() {
		s := r.state
		if s.Restore != 0 && (s.Status == jobpb.RegionStatus_REGION_RESTARTING || s.Status == jobpb.RegionStatus_REGION_SCHEDULED) {
			ids = append(ids, s.Restore)
		}
	}
	return ids
}

// checkCompletion refuses what can only be a fault of whoever composed it.
func (e *jobEdit) checkCompletion(c *commandpb.CompleteCheckpoint) Result {
	took := map[int32]bool{}
	for _, r := range e.j.checkpoints.Started.Regions {
		took[r.Region] = true
	}
	for _, ref := range c.Finished {
		s := e.j.Subtask(ref.Chain, ref.Index)
		switch {
		case s == nil || !took[s.Region]:
			return refused(CodeMalformed, "job %s: subtask %d[%d] takes no part in checkpoint %d", e.j.ID(), ref.Chain, ref.Index, c.Checkpoint)
		case s.State != jobpb.SubtaskState_SUBTASK_FINISHED && (s.Attempt != ref.Attempt || s.State != jobpb.SubtaskState_SUBTASK_FINISHING):
			return e.stale("subtask %d[%d] is not at its end in attempt %d", ref.Chain, ref.Index, ref.Attempt)
		}
	}
	for _, ref := range c.Settled {
		if s := e.j.Subtask(ref.Chain, ref.Index); s == nil || !took[s.Region] {
			return refused(CodeMalformed, "job %s: subtask %d[%d] takes no part in checkpoint %d", e.j.ID(), ref.Chain, ref.Index, c.Checkpoint)
		}
	}
	bytes := e.j.outputBytes
	for _, x := range c.Committables {
		if region, ok := e.j.plan.Writer(x.Sink, x.Subtask); !ok || !took[region] {
			return refused(CodeBadOutput, "job %s: output of %.100q[%d], which takes no part in checkpoint %d", e.j.ID(), x.Sink, x.Subtask, c.Checkpoint)
		}
		bytes += outputSize(x)
	}
	if bytes > MaxOutputBytes {
		return refused(CodeBadOutput, "job %s: prepared output takes more than %d MiB to describe: write fewer, larger parts", e.j.ID(), MaxOutputBytes>>20)
	}
	return Result{Status: Applied}
}

// keepOutput appends output of the checkpoint that completes; what is known already is not doubled.
func (e *jobEdit) keepOutput(list []*jobpb.Committable) {
	type key struct {
		sink       string
		subtask, n int32
		checkpoint uint64
	}
	known := map[key]bool{}
	of := func(c *jobpb.Committable) key { return key{c.Sink, c.Subtask, c.N, c.Checkpoint} }
	for _, c := range e.j.output {
		known[of(c)] = true
	}
	out := e.j.output[:len(e.j.output):len(e.j.output)]
	for _, c := range list {
		if c.Checkpoint <= e.j.checkpoints.Confirmed || known[of(c)] {
			continue
		}
		known[of(c)] = true
		out = append(out, c)
		e.j.outputBytes += outputSize(c)
		e.t.note(changeOutput, c)
	}
	e.j.output = out
}

// settle makes what the checkpoint contains facts of the subtasks.
func (e *jobEdit) settle(c *commandpb.CompleteCheckpoint) {
	for _, ref := range c.Settled {
		pos, _ := e.j.Position(ref.Chain, ref.Index)
		if s := e.subtasks.At(pos); !s.Settled {
			n := copySubtask(s)
			n.Settled = true
			e.replace(pos, n)
		}
	}
	for _, ref := range c.Finished {
		pos, _ := e.j.Position(ref.Chain, ref.Index)
		s := e.subtasks.At(pos)
		if s.State == jobpb.SubtaskState_SUBTASK_FINISHED {
			continue
		}
		n := copySubtask(s)
		n.State, n.EndedUs = jobpb.SubtaskState_SUBTASK_FINISHED, e.t.now
		e.replace(pos, n)
		e.release(e.j.SlotOf(s.Chain, s.Index))
	}
	for i := range e.regions.Len() {
		if e.checkpointed(int32(i)) {
			e.settleRegion(i)
		}
	}
}

// autoConfirm: with no output left to commit there is nothing to wait for.
func (e *jobEdit) autoConfirm() {
	for _, c := range e.j.output {
		if e.j.OfCheckpoint(c) {
			return
		}
	}
	if n, err := ledger.Confirm(e.j.checkpoints, e.j.Newest().GetId()); err == nil {
		e.setCheckpoints(n)
	}
}

// OfCheckpoint reports whether output belongs to a completed checkpoint: then it is committed while the job runs, and never
// removed. Other output is that of the end of a region that takes no checkpoints.
func (j *Job) OfCheckpoint(c *jobpb.Committable) bool {
	if j.checkpoints == nil {
		return false
	}
	region, ok := j.plan.Writer(c.Sink, c.Subtask)
	return ok && j.Plan().Regions[region].Checkpointed
}

func (e *jobEdit) abortCheckpoint(c *commandpb.AbortCheckpoint) Result {
	if e.j.checkpoints == nil {
		return e.stale("the job takes no checkpoints")
	}
	if c.JobEpoch != e.j.head.Epoch {
		return e.stale("job epoch is %d", e.j.head.Epoch)
	}
	return e.abort(c.Checkpoint, c.Cause)
}

func (e *jobEdit) abort(id uint64, cause *jobpb.Failure) Result {
	kind := e.j.checkpoints.GetStarted().GetKind()
	r := e.took(ledger.Abort(e.j.checkpoints, id, cause, e.t.now))
	if r.Status != Applied {
		return r
	}
	if kind == jobpb.CheckpointKind_CHECKPOINT_RESCALE && !ledger.Awaits(e.j.checkpoints, kind) {
		e.endRescale(cause)
	}
	// Of a long row of failures the history of events keeps some; the job's own history has all.
	if n := e.j.checkpoints.Failed; n == 1 || n%10 == 0 {
		e.event("checkpoint-failed", fmt.Sprintf("%d, %d in a row: %s: %s", id, n, cause.GetCode(), firstLine(cause.GetMessage())))
	}
	return r
}

// CodeInterrupted is the code of a checkpoint that was given up because a region which takes part in it runs again.
const CodeInterrupted = "E157"

// interrupt gives up the checkpoint under way if one of these regions takes part in it.
func (e *jobEdit) interrupt(in []bool) {
	s := e.j.checkpoints.GetStarted()
	if s == nil {
		return
	}
	for _, r := range s.Regions {
		if in[r.Region] {
			e.abort(s.Id, &jobpb.Failure{Kind: jobpb.FailureKind_FAILURE_LOSS, Code: CodeInterrupted, Message: fmt.Sprintf("region %d runs again", r.Region), TimeUs: e.t.now})
			return
		}
	}
}

func (e *jobEdit) placeObjects(c *commandpb.PlaceObjects) Result {
	if e.j.checkpoints == nil {
		return e.stale("the job has no checkpoints")
	}
	for _, o := range append(c.Placed[:len(c.Placed):len(c.Placed)], c.Lost...) {
		e.t.note(changeObject, o)
	}
	return e.took(ledger.Place(e.j.checkpoints, c.Placed, c.Lost))
}

func (e *jobEdit) deleteObjects(c *commandpb.DeleteObjects) Result {
	if e.j.checkpoints == nil {
		return e.stale("the job has no checkpoints")
	}
	n, left, err := ledger.PlanDeletion(e.j.checkpoints, c.Names, e.t.knownElsewhere(&e.j))
	r := e.took(n, err)
	r.Dropped = left
	return r
}

// knownElsewhere tells of objects that another job knows: one of two jobs has begun with a checkpoint of the other. Whoever is the
// last to know an object deletes it.
func (t *tx) knownElsewhere(own *Job) func(name string) bool {
	var others []*jobpb.Checkpoints
	for j := range t.Jobs() {
		if c := j.checkpoints; c != nil && j.number != own.number && (c.Origin != 0 || own.checkpoints.Origin != 0) {
			others = append(others, c)
		}
	}
	return func(name string) bool {
		return slices.ContainsFunc(others, func(c *jobpb.Checkpoints) bool { return ledger.Object(c, name) != nil })
	}
}

func (e *jobEdit) forgetObjects(c *commandpb.ForgetObjects) Result {
	if e.j.checkpoints == nil {
		return e.stale("the job has no checkpoints")
	}
	n, left, err := ledger.Forget(e.j.checkpoints, c.Names)
	r := e.took(n, err)
	r.Dropped = left
	return r
}

// requestSavepoint notes the wish, once per request id.
func (t *tx) requestSavepoint(c *commandpb.RequestSavepoint, request string) Result {
	return t.once(request, "savepoint", c, func() Result {
		return t.edit(c.Job, func(e *jobEdit) Result { return e.want(c.Kind, request) })
	})
}

// want notes the wish for a checkpoint.
func (e *jobEdit) want(kind jobpb.CheckpointKind, request string) Result {
	if r := e.takes(e.j.head.Epoch); r.Status != Applied {
		r.Code = CodeWrongStatus
		return r
	}
	r := e.took(ledger.Request(e.j.checkpoints, &jobpb.SavepointRequest{RequestId: request, Kind: kind, TimeUs: e.t.now}))
	if r.Status == Applied {
		e.event("savepoint-requested", ledger.KindName(kind))
	}
	return r
}
