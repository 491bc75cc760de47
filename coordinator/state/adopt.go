package state

import (
	"cmp"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/coordinator/state/ledger"
	"github.com/sluiceio/sluice/coordinator/state/outline"
	"github.com/sluiceio/sluice/coordinator/state/status"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// CodeNoSnapshot is the code of a checkpoint to begin with that is not there.
const CodeNoSnapshot = "E154"

// origin makes exact which checkpoint a job begins with. From now on the job knows the objects of it, so that no plan of
// another one deletes them.
func (t *tx) origin(spec *jobpb.JobSpec) (*jobpb.JobSpec, *jobpb.Checkpoints, Result) {
	o := spec.Origin
	if o == nil {
		return spec, nil, Result{Status: Applied}
	}
	from := t.Job(o.Job)
	if o.Job == "" {
		for j := range t.Jobs() { // in order: the last one that fits is the newest
			if j.head.Spec.Name == spec.Name && j.Newest() != nil {
				from = j
			}
		}
	}
	if from == nil {
		return nil, nil, refused(CodeNoJob, "no job %.100q, and so no checkpoint of it to begin with", cmp.Or(o.Job, spec.Name))
	}
	d := from.Newest()
	if o.Checkpoint != 0 {
		d = ledger.Find(from.checkpoints, o.Checkpoint)
	}
	if d == nil {
		return nil, nil, refused(CodeNoSnapshot, "job %s keeps no such checkpoint (%d)", from.ID(), o.Checkpoint)
	}
	if d.Kind == jobpb.CheckpointKind_CHECKPOINT_DRAIN {
		return nil, nil, refused(CodeNoSnapshot, "job %s ended event time with checkpoint %d (stop --drain): nothing can go on from it", from.ID(), d.Id)
	}
	c, err := ledger.Begin(from.checkpoints, d)
	if err != nil {
		return nil, nil, refused(CodeNoSnapshot, "checkpoint %d of job %s: %v", d.Id, from.ID(), err)
	}
	spec = proto.CloneOf(spec)
	spec.Origin.Job, spec.Origin.Checkpoint = from.ID(), d.Id
	return spec, c, Result{Status: Applied}
}

// begin makes the execution graph of a plan. Its regions start in an epoch, its subtasks behind an attempt; with a checkpoint they
// go on from what adopted says.
func (e *jobEdit) begin(p *jobpb.Plan, adopted *commandpb.Adopted, epoch uint64, attempt uint32) Result {
	plan, err := outline.New(p)
	if err != nil {
		return refused(CodeMalformed, "job %s: %v", e.j.ID(), err)
	}
	e.j.plan = plan
	e.t.note(changePlan, p)
	restore := uint64(0)
	if adopted != nil {
		c, err := ledger.Adopt(e.j.checkpoints, adopted.Manifest, adopted.Objects)
		if r := e.took(c, err); r.Status != Applied {
			return r
		}
		restore = e.j.Newest().Id
	}
	e.createSubtasks(epoch, attempt, restore)
	e.j.sources = nil
	for i, o := range p.Graph.Operators {
		if len(o.Inputs) == 0 {
			e.setSource(newSource(e.j.ID(), plan, int32(i)).Resumed(epoch))
		}
	}
	for _, s := range adopted.GetSources() {
		at := e.j.Source(s.GetOperator())
		if at == nil {
			return refused(CodeMalformed, "job %s has no source %d", e.j.ID(), s.GetOperator())
		}
		n, err := at.Load(&jobpb.SourceState{
			Job: e.j.ID(), Operator: s.Operator, Region: at.Region(), RegionEpoch: epoch, Splits: s.Splits, Complete: s.Complete,
			Assignments: s.Assignments, Enumerator: s.Enumerator,
		})
		if err != nil {
			return refused(CodeMalformed, "%v", err)
		}
		e.setSource(n)
	}
	return applied(e.j.ID())
}

// Rescaling reports whether a change of parallelism is under way.
func (j *Job) Rescaling() bool { return j.head.Rescale != nil && !j.head.Rescale.Ended }

// Switching reports whether the checkpoint of a change of parallelism is completed: no other one begins. Once its output is visible the
// regions stop, and no attempt of the plan starts any more.
func (j *Job) Switching() (completed, stopped bool) {
	r := j.head.Rescale
	return j.Rescaling() && r.Checkpoint != 0, j.Rescaling() && r.Stopped
}

func (e *jobEdit) requestRescale(c *commandpb.RequestRescale, request string) Result {
	h := e.j.head
	if e.j.Rescaling() {
		return Result{Status: Stale, Code: CodeWrongStatus, Job: h.Id, Message: "another change of parallelism is under way"}
	}
	r := e.want(jobpb.CheckpointKind_CHECKPOINT_RESCALE, request)
	if r.Status == Applied {
		h.Rescale = &jobpb.Rescale{Parallelism: c.Parallelism, RequestId: request}
	}
	return r
}

// switchOver goes on with a change of parallelism as far as the facts let it: the checkpoint is completed, and then its output visible.
func (e *jobEdit) switchOver() {
	h := e.j.head
	r := h.Rescale
	if completed, stopped := e.j.Switching(); !completed || stopped || !ledger.Confirmed(e.j.checkpoints) || status.Ending(h.Status) ||
		e.in(jobpb.JobStatus_JOB_FINISHING) {
		return
	}
	h.Rescale = &jobpb.Rescale{Parallelism: r.Parallelism, RequestId: r.RequestId, Checkpoint: r.Checkpoint, Stopped: true}
	h.Message = fmt.Sprintf("goes on from checkpoint %d at parallelism %d", r.Checkpoint, r.Parallelism)
	e.become(jobpb.JobStatus_JOB_RESTARTING)
	in := make([]bool, e.regions.Len())
	for i, r := range e.regions.All() {
		in[i] = true
		e.putRegion(&jobpb.RegionState{Index: int32(i), Epoch: r.state.Epoch + 1, Status: jobpb.RegionStatus_REGION_RESTARTING, Restore: h.Rescale.Checkpoint})
	}
	e.resetSubtasks(in)
	e.event("job-rescaling", h.Message)
}

// endRescale notes what became of a change of parallelism; cause is nil if the next plan has taken over.
func (e *jobEdit) endRescale(cause *jobpb.Failure) {
	if r := e.j.head.Rescale; e.j.Rescaling() {
		e.j.head.Rescale = &jobpb.Rescale{Parallelism: r.Parallelism, RequestId: r.RequestId, Checkpoint: r.Checkpoint, Ended: true, Failure: cause}
		if cause != nil {
			e.event("rescale-failed", cause.Code+": "+firstLine(cause.Message))
		}
	}
}

// switched: the regions are stopped for the next plan.
func (e *jobEdit) switched() bool {
	_, stopped := e.j.Switching()
	return stopped && e.in(jobpb.JobStatus_JOB_RESTARTING)
}

func (e *jobEdit) rescale(c *commandpb.RescaleJob) Result {
	h := e.j.head
	switch r := h.Rescale; {
	case !e.switched():
		return e.stale("no change of parallelism is that far")
	case c.JobEpoch != h.Epoch:
		return e.stale("job epoch is %d", h.Epoch)
	case r.Checkpoint != e.j.Newest().GetId() || !ledger.Confirmed(e.j.checkpoints) || len(e.j.output) > 0:
		return e.stale("output of checkpoint %d is not confirmed", r.Checkpoint)
	case e.j.Active() > 0:
		return e.stale("%d attempts may still act", e.j.Active())
	}
	e.releaseIdle()
	epoch, attempt := uint64(0), uint32(0)
	for _, r := range e.regions.All() {
		epoch = max(epoch, r.state.Epoch)
	}
	for _, s := range e.subtasks.All() {
		attempt = max(attempt, s.Attempt)
	}
	h.Epoch++
	e.become(jobpb.JobStatus_JOB_WAITING)
	h.Spec, h.Message = proto.CloneOf(h.Spec), ""
	h.Spec.Parallelism = h.Rescale.Parallelism
	r := e.begin(c.Plan, c.Adopted, epoch+1, attempt)
	if r.Status == Applied {
		e.endRescale(nil)
		e.event("job-rescaled", fmt.Sprintf("parallelism %d: %d subtasks, %d slots", h.Spec.Parallelism, e.subtasks.Len(), e.slots.Len()))
	}
	return r
}

func (e *jobEdit) abandonRescale(c *commandpb.AbandonRescale) Result {
	switch {
	case !e.switched():
		return e.stale("no change of parallelism is that far")
	case c.JobEpoch != e.j.head.Epoch:
		return e.stale("job epoch is %d", e.j.head.Epoch)
	}
	e.endRescale(c.Cause)
	e.j.head.Message = ""
	return applied(e.j.ID())
}
