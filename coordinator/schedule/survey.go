package schedule

import (
	"cmp"
	"slices"
	"time"

	"github.com/sluiceio/sluice/coordinator/schedule/glance"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// survey is one pass over the subtasks of a job: the facts beside what is known of the world.
type survey struct {
	places  map[string]bool    // workers with an attempt that may act, or with a process of the job
	needed  map[uint64]bool    // processes that may be needed again
	missing map[string][]int32 // by worker: positions of attempts that its session does not know of
	// stopping are attempts on live workers that may act and must not: their region restarts, or the job ends.
	stopping map[string]bool // by worker
	acting   []bool          // by region: an old attempt on a connected worker may still act
	broken   map[int32]bool  // regions with an attempt that failed, was lost, or has to leave
	causes   []*jobpb.Failure
	gone     []*taskpb.SubtaskUpdate // attempts that nobody will report about any more
}

// survey compares every subtask with the world.
func (l *Leader) survey(j *job, facts *state.Job) *survey {
	s := &survey{
		places: map[string]bool{}, needed: map[uint64]bool{}, missing: map[string][]int32{}, stopping: map[string]bool{},
		acting: make([]bool, len(facts.Plan().GetRegions())), broken: map[int32]bool{},
	}
	for _, f := range facts.Failures() {
		l.lose(j, facts, f)
	}
	ending := glance.Ends(facts.Status())
	lost := map[string]bool{}
	for pos := range facts.Size() {
		t := facts.At(pos)
		j.visits++
		region := facts.Region(t.Region)
		halted := ending || region.Status == jobpb.RegionStatus_REGION_RESTARTING
		switch t.State {
		case jobpb.SubtaskState_SUBTASK_SCHEDULED, jobpb.SubtaskState_SUBTASK_RUNNING, jobpb.SubtaskState_SUBTASK_FINISHING:
			l.surveyAttempt(j, s, pos, t, region, halted, lost)
		case jobpb.SubtaskState_SUBTASK_FINISHED:
			// It may commit, or still hand over what it made to others of its region.
			if region.Status != jobpb.RegionStatus_REGION_FINISHED || j.rollout.Writes(t.Chain) {
				s.needed[t.Process] = true
			}
			s.places[t.Worker] = true
			if !ending {
				l.surveyResults(j, facts, s, t)
			}
		case jobpb.SubtaskState_SUBTASK_FAILED, jobpb.SubtaskState_SUBTASK_CANCELLED:
			if !halted && region.Status != jobpb.RegionStatus_REGION_CREATED {
				s.broken[t.Region] = true
				s.causes = append(s.causes, glance.FailureOf(facts, t))
			}
			s.places[t.Worker] = true
		}
	}
	for i := range facts.Slots() {
		if id, _, ok := facts.Grant(i); ok {
			s.places[id] = true
		}
	}
	for id := range j.places { // a process may outlive its attempts
		if w := l.usable(id); w != nil && len(w.session.of(j.id)) > 0 {
			s.places[id] = true
		}
	}
	if c := facts.Head().Committer; c != nil {
		s.needed[c.Process] = true
		s.places[c.Worker] = true
	}
	return s
}

// surveyAttempt looks at an attempt that may act.
func (l *Leader) surveyAttempt(j *job, s *survey, pos int, t *jobpb.Subtask, region *jobpb.RegionState, halted bool, lost map[string]bool) {
	s.places[t.Worker] = true
	if !l.v.Alive(t.Worker, t.Incarnation) {
		if halted {
			s.gone = append(s.gone, glance.UpdateOf(t, region, jobpb.SubtaskState_SUBTASK_CANCELLED, nil))
		} else {
			s.broken[t.Region] = true
			if !lost[t.Worker] {
				lost[t.Worker] = true
				s.causes = append(s.causes, glance.LossOf(t, CodeWorkerLost, "worker "+t.Worker+" was lost"))
			}
		}
		return
	}
	s.needed[t.Process] = true
	w := l.usable(t.Worker)
	knows := w != nil && j.sent.Knows(pos, t.Attempt, w.session.serial)
	switch {
	case halted:
		if w != nil && !knows {
			// It never arrived, or its end was acknowledged: nobody will report it.
			s.gone = append(s.gone, glance.UpdateOf(t, region, jobpb.SubtaskState_SUBTASK_CANCELLED, nil))
			return
		}
		s.stopping[t.Worker] = true
		// Whoever has no session is not waited for: it is on its way here, or lost, and the fences hold meanwhile.
		s.acting[t.Region] = s.acting[t.Region] || w != nil
	case w == nil:
		// The worker is alive and on its way here, or will be declared lost.
	case !knows && t.State != jobpb.SubtaskState_SUBTASK_SCHEDULED:
		f := glance.LossOf(t, CodeVanished, "worker "+t.Worker+" no longer knows the attempt")
		s.gone = append(s.gone, glance.UpdateOf(t, region, jobpb.SubtaskState_SUBTASK_FAILED, f))
	case !knows:
		s.missing[t.Worker] = append(s.missing[t.Worker], int32(pos))
	}
	if f := l.v.Worker(t.Worker); !halted && f.Draining && f.DrainDeadlineUs > 0 {
		if at := time.UnixMicro(f.DrainDeadlineUs); l.now.Before(at) {
			l.wakeAt(j, at)
		} else {
			s.broken[t.Region] = true
			s.causes = append(s.causes, glance.LossOf(t, CodeDrained, "worker "+t.Worker+" is being drained"))
		}
	}
}

// of are the processes of a job in a session, in order.
func (s *session) of(job string) []processKey {
	var ks []processKey
	for k := range s.processes {
		if k.job == job {
			ks = append(ks, k)
		}
	}
	slices.SortFunc(ks, func(a, b processKey) int { return cmp.Compare(a.number, b.number) })
	return ks
}
