package schedule

import (
	"maps"
	"slices"

	"github.com/sluiceio/sluice/coordinator/rollout"
	"github.com/sluiceio/sluice/coordinator/schedule/glance"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

type regionEpoch = taskpb.RegionEpoch

// deploy tells workers of the attempts that the facts have given them and that they do not know of. An attempt that was
// announced and does not run after a while is announced again: the message may have been lost.
func (l *Leader) deploy(j *job, facts *state.Job, s *survey) {
	j.issued = nil // the survey has found them
	if facts.Count(jobpb.SubtaskState_SUBTASK_SCHEDULED) == 0 {
		return
	}
	if j.deploys.Due(l.now, l.cfg.Resend, mostPause) {
		l.addSilent(j, facts, s)
	}
	l.wakeAt(j, j.deploys.Next())
	l.sendDeployments(j, facts, s.missing)
}

// deployIssued does so for attempts that were issued since the last look.
func (l *Leader) deployIssued(j *job, facts *state.Job) {
	if len(j.issued) == 0 {
		return
	}
	missing := map[string][]int32{}
	slices.Sort(j.issued)
	for _, pos := range slices.Compact(j.issued) { // several producers may have woken one consumer, or one over several edges
		t := facts.At(int(pos))
		w := l.usable(t.Worker)
		if t.State != jobpb.SubtaskState_SUBTASK_SCHEDULED || w == nil || facts.Region(t.Region).Status == jobpb.RegionStatus_REGION_RESTARTING {
			continue
		}
		if !j.sent.Knows(int(pos), t.Attempt, w.session.serial) {
			missing[t.Worker] = append(missing[t.Worker], pos)
		}
	}
	j.issued = nil
	l.wakeAt(j, j.deploys.Next())
	l.sendDeployments(j, facts, missing)
}

func (l *Leader) sendDeployments(j *job, facts *state.Job, missing map[string][]int32) {
	var sources map[int32][]int32
	for _, id := range slices.Sorted(maps.Keys(missing)) {
		w := l.usable(id)
		if w == nil {
			continue
		}
		positions := slices.DeleteFunc(missing[id], func(pos int32) bool { return !j.rollout.MayRun(facts, j.counts, facts.At(int(pos))) })
		for _, group := range glance.ByProcess(facts, positions) {
			if sources == nil {
				sources = glance.Enumerated(facts)
			}
			l.sendDeployment(j, facts, w, group, sources)
		}
	}
}

// addSilent adds attempts that a worker was told of long ago and that have not reported since.
func (l *Leader) addSilent(j *job, facts *state.Job, s *survey) {
	for pos := range facts.Size() {
		t := facts.At(pos)
		if t.State != jobpb.SubtaskState_SUBTASK_SCHEDULED || facts.Region(t.Region).Status == jobpb.RegionStatus_REGION_RESTARTING {
			continue
		}
		w := l.usable(t.Worker)
		if w != nil && j.sent.Knows(pos, t.Attempt, w.session.serial) && l.now.Sub(j.sent[pos].At) >= l.cfg.Resend {
			s.missing[t.Worker] = append(s.missing[t.Worker], int32(pos))
		}
	}
}

func (l *Leader) sendDeployment(j *job, facts *state.Job, w *worker, positions []int32, sources map[int32][]int32) {
	held, p := j.counts.Held(w.id), facts.Plan()
	m := &taskpb.Deployment{
		Job: j.id, JobEpoch: facts.Epoch(), Process: facts.At(int(positions[0])).Process, Plan: p, Spec: facts.Head().Spec,
		ProcessMemory: setting.ProcessMemory(w.facts.Memory, w.facts.Slots, max(1, held)), Slots: held, Settings: p.Settings,
	}
	m.Restore = glance.Restore(l.v, facts, facts.Region(facts.At(int(positions[0])).Region).Restore)
	for _, pos := range positions {
		t := facts.At(int(pos))
		r := facts.Region(t.Region)
		s := &taskpb.SubtaskDeployment{
			Chain: t.Chain, Index: t.Index, Attempt: t.Attempt, Region: t.Region, RegionEpoch: r.Epoch, Gated: j.rollout.Gated(t.Chain),
			Checkpointed: p.Regions[t.Region].Checkpointed && facts.Checkpointed(), Restore: r.Restore,
		}
		j.opening.look = j.opening.look || s.Gated
		if t.Index == 0 {
			s.Enumerate = sources[t.Chain]
			s.Enumerators = glance.GoneOn(facts, s.Enumerate)
		}
		m.Subtasks = append(m.Subtasks, s)
		j.sent.Put(facts.Size(), int(pos), rollout.Told{Attempt: t.Attempt, Session: w.session.serial, At: l.now})
	}
	m.Locations = j.where.Locations(facts, positions, func(id string) string { return l.v.Worker(id).GetDataAddress() })
	k := processKey{j.id, m.Process}
	if w.session.processes[k] == nil {
		w.session.processes[k] = &process{}
	}
	l.addPlace(j, w.id)
	l.send(w, &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_Deploy{Deploy: &controlpb.Deploy{Deployment: m}}})
}

// deployCommitter starts a process without subtasks.
func (l *Leader) deployCommitter(j *job, facts *state.Job, w *worker, number uint64) {
	k := processKey{j.id, number}
	if w.session.processes[k] != nil {
		return
	}
	w.session.processes[k] = &process{}
	l.addPlace(j, w.id)
	l.send(w, &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_Deploy{Deploy: &controlpb.Deploy{Deployment: &taskpb.Deployment{
		Job: j.id, JobEpoch: facts.Epoch(), Process: number, Plan: facts.Plan(), Spec: facts.Head().Spec,
		ProcessMemory: setting.ProcessMemory(w.facts.Memory, w.facts.Slots, 1), Slots: 1, Settings: facts.Plan().Settings,
	}}}})
}
