package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluiceio/sluice/coordinator/draft"
	"github.com/sluiceio/sluice/coordinator/placement"
	"github.com/sluiceio/sluice/coordinator/recovery"
	"github.com/sluiceio/sluice/coordinator/schedule/glance"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/coordinator/timer"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// maxBuilds is how often planning is tried when workers are lost or do not answer.
const maxBuilds = 3

// build is the planning of a job as this leader follows it.
type build struct {
	attempt  uint32
	worker   string // that was asked; empty: none, or its answer is here
	session  uint64 // of that worker
	asked    timer.Pace
	deadline time.Time
	answer   *commandpb.Command // PlanJob or RejectPlan
	why      string             // the last attempt led to nothing
}

// plan brings a job from CREATED to WAITING.
func (l *Leader) plan(j *job, facts *state.Job) {
	h := facts.Head()
	if h.Status == jobpb.JobStatus_JOB_CREATED {
		l.startPlanning(j, facts, "")
		return
	}
	b := &j.build
	if b.attempt != h.PlanAttempt {
		*b = build{attempt: h.PlanAttempt, deadline: l.now.Add(l.cfg.PlanTimeout), why: b.why}
	}
	if b.answer != nil {
		if l.begins(j, facts, b) {
			l.proposeJob(j, b.answer, &flight{})
		}
		return
	}
	w := l.usable(h.Planner)
	f := l.v.Worker(h.Planner)
	switch {
	case f == nil || f.Health != commandpb.WorkerHealth_WORKER_ALIVE:
		b.why = fmt.Sprintf("worker %s was lost while it planned", h.Planner)
	case !l.now.Before(b.deadline):
		b.why = fmt.Sprintf("worker %s did not answer within %s", h.Planner, l.cfg.PlanTimeout)
	case w == nil:
		l.place(j, map[string]bool{h.Planner: true})
		l.wakeAt(j, b.deadline)
		return
	default:
		l.place(j, map[string]bool{h.Planner: true})
		l.askBuild(j, facts, w)
		return
	}
	l.abandonBuild(j)
	l.startPlanning(j, facts, h.Planner)
}

// askBuild has the worker run the user's build function. The number makes a repeated question harmless.
func (l *Leader) askBuild(j *job, facts *state.Job, w *worker) {
	b := &j.build
	if b.session != w.session.serial {
		b.worker, b.session, b.asked = w.id, w.session.serial, timer.Pace{}
	}
	if b.asked.Due(l.now, l.cfg.BuildLimit, l.cfg.BuildLimit) {
		l.send(w, &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_Build{Build: &controlpb.RequestBuild{
			Job: j.id, Build: uint64(b.attempt), Spec: facts.Head().Spec, TimeLimitUs: l.cfg.BuildLimit.Microseconds(),
		}}})
	}
	l.wakeAt(j, b.deadline)
	l.wakeAt(j, b.asked.Next())
}

// abandonBuild has a worker end a build that nobody waits for any more.
func (l *Leader) abandonBuild(j *job) {
	b := &j.build
	w := l.usable(b.worker)
	if w != nil && w.session.serial == b.session {
		l.send(w, &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_AbandonBuild{AbandonBuild: &controlpb.AbandonBuild{
			Job: j.id, Build: uint64(b.attempt),
		}}})
	}
	b.worker = ""
}

// startPlanning gives the build to a worker, another one than before if there is a choice.
func (l *Leader) startPlanning(j *job, facts *state.Job, before string) {
	h := facts.Head()
	if h.PlanAttempt >= maxBuilds {
		l.proposeJob(j, draft.Reject(facts, &jobpb.Failure{
			Code: draft.CodeNoPlan, Kind: jobpb.FailureKind_FAILURE_FATAL, TimeUs: l.now.UnixMicro(),
			Message: fmt.Sprintf("the job could not be planned in %d attempts: %s", maxBuilds, j.build.why),
		}), &flight{})
		return
	}
	w := l.builder(j, before)
	if w == nil {
		l.unplanned[j.id] = j
		if l.gathered() {
			l.hold(j, facts, "no live worker can run the build function: "+glance.Lack(l.v, facts))
		}
		l.wakeAt(j, l.now.Add(l.cfg.LossTimeout))
		return
	}
	if l.proposeJob(j, &commandpb.Command{Command: &commandpb.Command_StartPlanning{StartPlanning: &commandpb.StartPlanning{
		Job: j.id, Attempt: h.PlanAttempt + 1, Worker: w.id,
	}}}, &flight{}) {
		w.load++
		delete(l.unplanned, j.id)
	}
}

// builder is the worker that has had the fewest builds. Building takes no slot.
func (l *Leader) builder(j *job, before string) *worker {
	cs, _ := l.candidates(j)
	if len(cs) > 1 {
		cs = slices.DeleteFunc(cs, func(c placement.Worker) bool { return c.ID == before })
	}
	if len(cs) == 0 {
		return nil
	}
	return l.soft[slices.MinFunc(cs, func(a, b placement.Worker) int {
		return cmp.Or(cmp.Compare(l.soft[a.ID].load, l.soft[b.ID].load), strings.Compare(a.ID, b.ID))
	}).ID]
}

// built takes the answer of a build function.
func (l *Leader) built(w *worker, r *controlpb.BuildResult) {
	j := l.jobs[r.Job]
	facts := l.v.Job(r.Job)
	if j == nil || facts == nil || facts.Status() != jobpb.JobStatus_JOB_PLANNING || facts.Head().Planner != w.id || uint64(facts.Head().PlanAttempt) != r.Build {
		return
	}
	b := &j.build
	if b.attempt != facts.Head().PlanAttempt {
		*b = build{attempt: facts.Head().PlanAttempt, deadline: l.now.Add(l.cfg.PlanTimeout), why: b.why}
	}
	if b.answer != nil {
		return
	}
	b.worker = ""
	l.mark(j)
	switch {
	case r.Failure != nil && r.Failure.Kind == jobpb.FailureKind_FAILURE_LOSS:
		b.why = r.Failure.Code + ": " + r.Failure.Message
		b.deadline = l.now // another worker may do better
	case r.Failure != nil:
		b.answer = draft.Reject(facts, recovery.Tell(r.Failure, l.now.UnixMicro()))
	case r.Built == nil || len(r.Built.Errors) > 0:
		b.answer = draft.Reject(facts, draft.Diagnosed(r.Built.GetErrors(), l.now))
	default:
		b.answer = draft.Plan(facts, r.Built.Graph, draft.Options(l.v, facts.Head().Spec, l.cfg.DefaultParallelism), l.now)
	}
}
