package schedule

import (
	"time"

	"github.com/sluiceio/sluice/coordinator/adoption"
	"github.com/sluiceio/sluice/coordinator/checkpoint"
	"github.com/sluiceio/sluice/coordinator/draft"
	"github.com/sluiceio/sluice/coordinator/recovery"
	"github.com/sluiceio/sluice/coordinator/schedule/glance"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/coordinator/state/ledger"
	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/snapshot"
)

// bring takes the newest checkpoint of a job to a plan, which makes it go on in an epoch of the job. It reports whether that is done.
func (l *Leader) bring(j *job, facts *state.Job, p *jobpb.Plan, epoch uint64) bool {
	if !j.adoption.Of(facts, p) {
		j.adoption = adoption.New(facts, p, epoch, l.cfg.Fits)
	}
	d := facts.Newest()
	a, id := j.adoption, checkpoint.ID(d.Id)
	switch a.Step(l.now) {
	case adoption.Finish:
		return true
	case adoption.Read:
		from := checkpoint.Placed(facts, d)
		l.out = append(l.out, Fetch{Job: j.id, Checkpoint: id, Object: from, Stores: glance.Addresses(l.v, from)})
	case adoption.Write:
		l.out = append(l.out, Publish{
			Job: j.id, Checkpoint: id, Name: snapshot.Manifest(j.id, epoch, d.Id, l.cfg.Term), Data: a.Data(),
			Targets: glance.Targets(l.v, "", d.Id, l.reaches), Copies: checkpoint.Configure(setting.Values(p.Settings)).Copies,
		})
	}
	l.wakeAt(j, a.Again())
	return false
}

// begins brings the checkpoint that a job begins with to its plan. It reports whether the answer of the build can be proposed.
func (l *Leader) begins(j *job, facts *state.Job, b *build) bool {
	p, o := b.answer.GetPlanJob(), facts.Head().Spec.Origin
	if p == nil || o == nil || p.Adopted != nil {
		return true
	}
	switch wait, f := draft.Visible(l.v.Job(o.Job), o.Checkpoint, l.now); {
	case f != nil:
		b.answer = draft.Reject(facts, f)
		return true
	case wait != "":
		l.hold(j, facts, wait)
		l.wakeAt(j, l.now.Add(100*time.Millisecond))
		return false
	}
	if !l.bring(j, facts, p.Plan, facts.Epoch()) {
		return false
	}
	adopted, f := j.adoption.Result()
	if p.Adopted = adopted; f != nil {
		b.answer = draft.Reject(facts, recovery.Tell(f, l.now.UnixMicro()))
	}
	return true
}

// rescale lets the next plan of a job take over. It reports whether the plan before has nothing to do any more.
func (l *Leader) rescale(j *job, facts *state.Job) bool {
	if _, stopped := facts.Switching(); !stopped {
		return false
	}
	var f *jobpb.Failure
	if j.next == nil {
		j.next, f = draft.Rescaled(l.v, facts, int(facts.Head().Rescale.Parallelism), l.now)
	}
	if f == nil && (!ledger.Confirmed(facts.Checkpoints()) || !l.bring(j, facts, j.next, facts.Epoch()+1)) {
		return true
	}
	var adopted *commandpb.Adopted
	if f == nil {
		adopted, f = j.adoption.Result()
	}
	if f != nil || facts.Active() == 0 { // else the last attempts of the plan before are on their way out
		l.proposeJob(j, draft.TakeOver(facts, j.next, adopted, f), &flight{})
	}
	return true
}
