package schedule

import (
	"time"

	"github.com/sluiceio/sluice/coordinator/rollout"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/coordinator/supply"
	"github.com/sluiceio/sluice/coordinator/tally"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// track is how the leader follows a planned job, change by change. A new leader derives all of it from the facts at its
// first look. But one report of ten thousand must not cost a look at ten thousand subtasks.
type track struct {
	seen    *state.Job // the facts that are in here
	rollout *rollout.Plan
	where   *rollout.Directory
	counts  *tally.Tally
	supply  *supply.Supply
	opening opening
	issued  []int32              // positions of attempts that may have to be deployed
	stores  map[string]bool      // workers that may have stored results of the job
	resting map[int32]bool       // regions that wait out a back-off, or have
	lost    map[resultKey]string // stored results that cannot be read although the facts say so, and why

	released  int  // regions that had finished when results were released last
	closed    int  // edges that had been read to their end then
	releasing bool // look again for results to release
	visits    int  // subtasks that were looked at: what a test holds against the number of reports
}

// resultKey names what one attempt stored for an edge: attempts are never numbered twice.
type resultKey struct {
	edge, producer int32
	attempt        uint32
}

// follow brings what is tracked of a job up to its facts.
func (l *Leader) follow(j *job, facts *state.Job) {
	if facts.Plan() == nil || j.seen == facts {
		return
	}
	if j.seen == nil || j.seen.Plan() == nil {
		j.track = track{
			rollout: rollout.New(facts.Layout()), where: rollout.NewDirectory(facts), counts: tally.New(facts),
			supply: supply.New(facts.Layout()), stores: map[string]bool{}, lost: map[resultKey]string{}, resting: map[int32]bool{},
		}
	}
	changes := j.counts.Follow(facts)
	for _, r := range changes.Regions {
		j.supply.Region(r, facts.Region(r).Status)
		if facts.Region(r).RestartAtUs > 0 {
			j.resting[r] = true
		}
	}
	d := drops{}
	for _, c := range changes.Subtasks {
		l.followSubtask(j, facts, c, d)
	}
	j.scan = j.scan || changes.Woken && j.rollout.Mode == rollout.Lazy // consumers may have been held back
	if changes.Ended {
		l.lookSoon(j, facts)
	}
	j.opening.look = j.opening.look || changes.Loaded
	j.seen, j.want = facts, nil
	l.sendDrops(j, d)
}

// lookSoon has a job surveyed because a process may be needed no more: at once, but of a large job, whose attempts may be
// short, not all the time.
func (l *Leader) lookSoon(j *job, facts *state.Job) {
	const large, pause = 1000, time.Second
	if at := j.surveyed.Add(pause); facts.Size() > large && l.now.Before(at) {
		l.wakeAt(j, at)
	} else {
		j.scan = true
	}
}

func (l *Leader) followSubtask(j *job, facts *state.Job, c tally.Change, d drops) {
	t := facts.At(c.Position)
	j.where.Forget(c.Position, t.Chain)
	if t.State == jobpb.SubtaskState_SUBTASK_SCHEDULED && (c.Was == nil || c.Was.Attempt != t.Attempt) {
		j.issued = append(j.issued, int32(c.Position))
	}
	if j.rollout.Mode == rollout.Lazy && tally.Produces(t) && (c.Was == nil || !tally.Produces(c.Was)) {
		j.issued = append(j.issued, j.rollout.Near(facts, t)...)
	}
	out := facts.Layout().Out(t.Chain)
	if len(out) == 0 {
		return
	}
	if t.Worker != "" {
		j.stores[t.Worker] = true
	}
	if c.Was != nil {
		d[c.Was.Worker] = append(d[c.Was.Worker], supply.Superseded(facts, c.Was, t)...)
	}
	for _, e := range out {
		j.supply.Put(e, t.Index, l.holding(j, t, e))
	}
}
