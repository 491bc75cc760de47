package state

import (
	"fmt"
	"strings"

	"github.com/sluiceio/sluice/coordinator/state/ledger"
	"github.com/sluiceio/sluice/coordinator/state/status"
	"github.com/sluiceio/sluice/coordinator/state/vector"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

func (e *jobEdit) startPlanning(c *commandpb.StartPlanning) Result {
	h := e.j.head
	if !e.in(jobpb.JobStatus_JOB_CREATED, jobpb.JobStatus_JOB_PLANNING) {
		return e.wrongStatus()
	}
	if c.Attempt != h.PlanAttempt+1 {
		return e.stale("attempt %d to plan follows %d", c.Attempt, h.PlanAttempt)
	}
	if w := e.t.Worker(c.Worker); w == nil || !e.t.Alive(c.Worker, w.Incarnation) {
		return e.stale("worker %s is not alive", c.Worker)
	}
	e.become(jobpb.JobStatus_JOB_PLANNING)
	h.PlanAttempt, h.Planner, h.Message = c.Attempt, c.Worker, ""
	e.event("job-planning", fmt.Sprintf("attempt %d on worker %s", c.Attempt, c.Worker))
	return applied(h.Id)
}

func (e *jobEdit) planJob(c *commandpb.PlanJob) Result {
	h := e.j.head
	if !e.in(jobpb.JobStatus_JOB_PLANNING) {
		return e.wrongStatus()
	}
	if c.Attempt != h.PlanAttempt {
		return e.stale("attempt %d to plan is over, %d runs", c.Attempt, h.PlanAttempt)
	}
	if (c.Adopted != nil) != (h.Spec.Origin != nil) {
		return refused(CodeMalformed, "job %s begins with a checkpoint, and its plan does not, or the other way round", h.Id)
	}
	e.become(jobpb.JobStatus_JOB_WAITING)
	h.Planner, h.Message = "", ""
	if r := e.begin(c.Plan, c.Adopted, 1, 0); r.Status != Applied {
		return r
	}
	for _, r := range c.Plan.Regions {
		if r.Checkpointed && e.j.checkpoints == nil {
			e.setCheckpoints(ledger.New())
		}
	}
	e.event("job-planned", fmt.Sprintf("%d subtasks in %d regions, %d slots", e.subtasks.Len(), len(c.Plan.Regions), e.slots.Len()))
	return applied(h.Id)
}

// createSubtasks makes the execution graph: every subtask without an attempt, every region waiting for its first one.
func (e *jobEdit) createSubtasks(epoch uint64, attempt uint32, restore uint64) {
	p := e.j.plan
	subtasks := vector.Make[*jobpb.Subtask](p.Size()).Edit()
	regions := vector.Make[regionRecord](len(p.Plan().Regions)).Edit()
	for i, r := range p.Plan().Regions {
		s := &jobpb.RegionState{Index: int32(i), Epoch: epoch, Status: jobpb.RegionStatus_REGION_CREATED}
		if r.Checkpointed {
			s.Restore = restore
		}
		regions.Set(i, regionRecord{state: s})
	}
	for c, chain := range p.Plan().Chains {
		for i := range chain.Parallelism {
			pos := int(p.First(int32(c)) + i)
			r := p.Of(pos)
			subtasks.Set(pos, &jobpb.Subtask{Chain: int32(c), Index: i, Attempt: attempt, Region: r, State: jobpb.SubtaskState_SUBTASK_CREATED})
			rec := regions.At(int(r))
			rec.size++
			regions.Set(int(r), rec)
		}
	}
	e.subtasks, e.regions = subtasks, regions
	e.j.counts = [len(e.j.counts)]int32{jobpb.SubtaskState_SUBTASK_CREATED: int32(p.Size())}
	e.j.results = make([]Results, len(p.Plan().Edges))
	e.slots = vector.Make[slot](p.Slots()).Edit()
}

// rejectPlan ends a job that never ran anything, so there is nothing to wait for.
func (e *jobEdit) rejectPlan(c *commandpb.RejectPlan) Result {
	h := e.j.head
	if !e.in(jobpb.JobStatus_JOB_PLANNING) {
		return e.wrongStatus()
	}
	if c.Attempt != h.PlanAttempt {
		return e.stale("attempt %d to plan is over, %d runs", c.Attempt, h.PlanAttempt)
	}
	e.become(jobpb.JobStatus_JOB_FAILED)
	h.Failure, h.EndedUs, h.Planner, h.Message = c.Failure, e.t.now, "", ""
	e.addFailure(c.Failure)
	e.event("job-failed", c.Failure.Code+": "+firstLine(c.Failure.Message))
	return applied(h.Id)
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// hold records what a job waits for. It may give back the slots in which nothing runs; a restarting job then waits like any
// other.
func (e *jobEdit) hold(c *commandpb.HoldJob) Result {
	h := e.j.head
	if Terminal(h.Status) {
		return e.wrongStatus()
	}
	if c.JobEpoch != h.Epoch {
		return e.stale("job epoch is %d", h.Epoch)
	}
	release := c.Release && e.in(jobpb.JobStatus_JOB_RESTARTING, jobpb.JobStatus_JOB_RUNNING)
	if h.Message == c.Message && !release {
		return e.stale("the job waits for this already")
	}
	if release {
		if e.in(jobpb.JobStatus_JOB_RESTARTING) {
			e.become(jobpb.JobStatus_JOB_WAITING)
		}
		e.releaseIdle()
	}
	if h.Message == "" && c.Message != "" {
		e.event("job-waiting", c.Message)
	}
	h.Message = c.Message
	return applied(h.Id)
}

// fail gives a job up: its attempts are stopped, then EndJob.
func (e *jobEdit) fail(c *commandpb.FailJob) Result {
	h := e.j.head
	if Terminal(h.Status) || status.Ending(h.Status) {
		return e.wrongStatus()
	}
	if c.JobEpoch != h.Epoch {
		return e.stale("job epoch is %d", h.Epoch)
	}
	e.become(jobpb.JobStatus_JOB_FAILING)
	h.Failure = c.Cause
	e.addFailure(c.Cause)
	e.giveUp(c.Cause)
	e.isolate()
	e.event("job-failing", c.Cause.Code+": "+firstLine(c.Cause.Message))
	return applied(h.Id)
}

// cancel ends a job because somebody asked for it. A job whose input is processed to the end only has its output to
// commit: half of that may be visible already, so the commit goes on, and the cancel makes it give up at a deadline
// instead of never.
func (e *jobEdit) cancel() Result {
	h := e.j.head
	switch {
	case Terminal(h.Status), status.Ending(h.Status):
		r := e.wrongStatus()
		r.Code = CodeWrongStatus
		return r
	case h.Desired == jobpb.JobStatus_JOB_CANCELLED:
		return e.stale("the cancel is known")
	}
	h.Desired = jobpb.JobStatus_JOB_CANCELLED
	if e.in(jobpb.JobStatus_JOB_FINISHING) {
		h.Message = "cancel asked for while the output is being committed"
		e.event("job-cancel-requested", h.Message)
		return applied(h.Id)
	}
	e.become(jobpb.JobStatus_JOB_CANCELLING)
	h.Epoch++
	e.giveUp(&jobpb.Failure{Kind: jobpb.FailureKind_FAILURE_USER, Code: CodeInterrupted, Message: "the job is cancelled", TimeUs: e.t.now})
	e.isolate()
	e.event("job-cancelling", "")
	return applied(h.Id)
}

// deployCommitter issues a process that only commits, because no process of the job is left.
func (e *jobEdit) deployCommitter(c *commandpb.DeployCommitter) Result {
	h := e.j.head
	if !(e.in(jobpb.JobStatus_JOB_FINISHING) || status.Ending(h.Status)) {
		return e.wrongStatus()
	}
	if c.JobEpoch != h.Epoch || c.Replaces != h.Committer.GetProcess() {
		return e.stale("job epoch is %d, committer is process %d", h.Epoch, h.Committer.GetProcess())
	}
	if len(e.j.output) == 0 {
		return e.stale("there is no output to commit")
	}
	if !e.t.Alive(c.Worker, c.Incarnation) {
		return e.stale("worker %s is not alive in incarnation %d", c.Worker, c.Incarnation)
	}
	e.t.nextProcess++
	h.Committer = &jobpb.Committer{Worker: c.Worker, Incarnation: c.Incarnation, Process: e.t.nextProcess}
	e.event("committer-deployed", "worker "+c.Worker)
	return applied(h.Id)
}

// confirm forgets output that is visible, or was removed after a failure.
func (e *jobEdit) confirm(c *commandpb.ConfirmCommits) Result {
	h, runs := e.j.head, e.takes(c.JobEpoch).Status == Applied
	if !runs && !(e.in(jobpb.JobStatus_JOB_FINISHING) || status.Ending(h.Status)) {
		return e.wrongStatus()
	}
	if c.JobEpoch != h.Epoch {
		return e.stale("job epoch is %d", h.Epoch)
	}
	ends := status.Ending(h.Status)
	n := e.dropOutput(func(x *jobpb.Committable) bool {
		switch {
		case x.Checkpoint > c.Checkpoint:
			return false
		case e.j.checkpoints == nil, e.in(jobpb.JobStatus_JOB_FINISHING):
			return true
		case e.j.OfCheckpoint(x):
			return !c.Removed
		}
		return c.Removed && ends
	})
	before := e.j.checkpoints
	if before != nil && !c.Removed {
		if next, err := ledger.Confirm(before, c.Checkpoint); err == nil {
			e.setCheckpoints(next)
		}
		e.autoConfirm()
		e.switchOver()
	}
	if n == 0 && e.j.checkpoints == before {
		return e.stale("no output waits for checkpoint %d", c.Checkpoint)
	}
	switch {
	case runs:
		// With every checkpoint: the job's history of checkpoints tells more.
	case ends && (c.Removed || e.j.checkpoints == nil):
		e.event("output-removed", fmt.Sprintf("%d parts", n))
	default:
		e.event("output-committed", fmt.Sprintf("%d parts", n))
	}
	return applied(h.Id)
}

// giveUp ends the checkpoint under way and every wish for one, together with the job.
func (e *jobEdit) giveUp(cause *jobpb.Failure) {
	if s := e.j.checkpoints.GetStarted(); s != nil {
		e.abort(s.Id, cause)
	}
	e.endRescale(cause)
}

// end makes the job terminal, once nothing of it can act any more.
func (e *jobEdit) end(c *commandpb.EndJob) Result {
	h := e.j.head
	if c.JobEpoch != h.Epoch {
		return e.stale("job epoch is %d", h.Epoch)
	}
	if len(e.j.output) > 0 && c.Note == "" {
		return e.stale("%d parts of prepared output are not confirmed", len(e.j.output))
	}
	if !ledger.Confirmed(e.j.checkpoints) && c.Note == "" {
		return e.stale("output of checkpoint %d is not confirmed", e.j.Newest().GetId())
	}
	switch h.Status {
	case jobpb.JobStatus_JOB_FINISHING:
		if len(e.j.output) > 0 && h.Desired != jobpb.JobStatus_JOB_CANCELLED {
			return e.stale("only a cancel gives up output of a job that has finished")
		}
		if len(e.j.output) > 0 {
			e.become(jobpb.JobStatus_JOB_CANCELLED)
		} else {
			e.become(jobpb.JobStatus_JOB_FINISHED)
		}
	case jobpb.JobStatus_JOB_FAILING:
		e.become(jobpb.JobStatus_JOB_FAILED)
	case jobpb.JobStatus_JOB_CANCELLING:
		e.become(jobpb.JobStatus_JOB_CANCELLED)
	case jobpb.JobStatus_JOB_STOPPING:
		e.become(jobpb.JobStatus_JOB_STOPPED)
	default:
		return e.wrongStatus()
	}
	for _, s := range e.subtasks.All() {
		if active(s.State) && e.t.Alive(s.Worker, s.Incarnation) {
			return e.stale("attempt %d of subtask %d[%d] can still act on worker %s", s.Attempt, s.Chain, s.Index, s.Worker)
		}
	}
	e.close(c.Note)
	return applied(h.Id)
}

// close drops everything that only a living job needs.
func (e *jobEdit) close(note string) {
	h := e.j.head
	e.endRescale(&jobpb.Failure{Code: CodeWrongStatus, Message: "the job has ended", TimeUs: e.t.now})
	for pos, s := range e.subtasks.All() {
		switch {
		case active(s.State) || s.State == jobpb.SubtaskState_SUBTASK_CREATED:
			n := copySubtask(s)
			n.State, n.EndedUs = jobpb.SubtaskState_SUBTASK_CANCELLED, e.t.now
			e.replace(pos, n)
		case len(s.Partitions) > 0:
			e.releaseAll(pos, s) // they are dropped with the job
		}
	}
	for i, r := range e.regions.All() {
		if s := r.state.Status; s != jobpb.RegionStatus_REGION_FINISHED && s != jobpb.RegionStatus_REGION_STOPPED {
			e.setRegion(i, jobpb.RegionStatus_REGION_STOPPED, r.state.Epoch)
		}
	}
	e.releaseIdle()
	if c := e.j.checkpoints; c != nil && h.Status == jobpb.JobStatus_JOB_FINISHED { // of others the newest is what one may go on from
		e.setCheckpoints(ledger.Release(c))
	}
	e.dropOutput(func(*jobpb.Committable) bool { return true })
	e.j.sources = nil
	h.Committer, h.RestartAtUs, h.Message, h.EndedUs = nil, 0, note, e.t.now
	message := note
	if h.Status == jobpb.JobStatus_JOB_FAILED && h.Failure != nil {
		message = h.Failure.Code + ": " + firstLine(h.Failure.Message)
	}
	e.event("job-"+strings.ToLower(StatusName(h.Status)), message)
}
