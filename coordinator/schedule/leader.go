package schedule

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/sluiceio/sluice/coordinator/lane"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/coordinator/timer"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/controlpb"
)

// Leader is the scheduler of one term.
//
// It remembers only soft state: what a new leader finds out by asking again. For each job and each worker that an event
// concerns, reconcile compares the facts with what is known of the world and does what is missing. The obvious design,
// a reaction per event, was rejected: every message that is lost, repeated or overtaken then needs its own case, and
// what a dead leader had begun is known to nobody.
//
// Two things keep that cheap. A job is compared subtask by subtask only when something structural happened to it
// (job.scan), not at every report. And at most one proposal of a kind is under way for a job (lanes): what arrives
// meanwhile is folded into the next one, so a storm of ten thousand reports needs some dozens of log entries.
type Leader struct {
	cfg Config

	begun   bool
	start   time.Time
	seen    uint64      // facts up to this index were looked at
	workers *state.View // whose workers were looked at

	soft      map[string]*worker // by id
	jobs      map[string]*job    // not terminal, by id
	over      map[string]*job    // terminal, and with objects
	dirty     map[string]*job    // to be reconciled in this Step
	on        map[string]map[string]*job
	lanes     *lane.Lanes // proposals under way
	timers    timer.Queue[timerKind]
	told      time.Time // the last WakeAt
	unacked   map[string]*worker
	waiting   []*job // for slots, in order
	unplanned map[string]*job
	allot     bool // free slots or waiting jobs may have changed
	serial    uint64
	terminal  int // jobs in the facts that are terminal, or more

	// of the Step at work
	v   *state.View
	now time.Time
	out []Action
}

// New starts a term.
func New(c Config) *Leader {
	return &Leader{
		cfg: c, soft: map[string]*worker{}, jobs: map[string]*job{}, dirty: map[string]*job{}, over: map[string]*job{}, on: map[string]map[string]*job{},
		lanes: lane.New(), unacked: map[string]*worker{}, unplanned: map[string]*job{},
	}
}

// Step folds one event and answers with what has to be done now. v holds the facts, and never fewer than in the Step
// before.
func (l *Leader) Step(v *state.View, e Event, now time.Time) []Action {
	l.v, l.now, l.out = v, now, nil
	if !l.begun {
		l.begun, l.start = true, now
		l.timers.Set(now.Add(l.cfg.LossTimeout), timerFlight, "") // whoever has not come by then is not waited for
		l.observe()                                               // whatever the first event is: without the jobs everything that a worker has would be nobody's
	}
	l.fold(e)
	l.land()
	l.observe()
	l.fire()
	l.reconcileAll()
	l.allocate()
	l.acknowledge()
	l.arm()
	return l.out
}

func (l *Leader) fold(e Event) {
	switch e := e.(type) {
	case Attached:
		l.attached(e.Register)
	case Detached:
		l.detached(e.Worker, e.Incarnation)
	case Heartbeat:
		if w := l.sessionOf(e.Worker, e.Incarnation); w != nil {
			w.heard = l.now
		}
	case Reported:
		if w := l.sessionOf(e.Worker, e.Incarnation); w != nil {
			w.heard = l.now
			l.reported(w, e.Report)
		}
	case Built:
		if w := l.sessionOf(e.Worker, e.Incarnation); w != nil {
			w.heard = l.now
			l.built(w, e.Result)
		}
	case Draining:
		if w := l.sessionOf(e.Worker, e.Incarnation); w != nil {
			w.drain = e.Deadline
			l.drain(w)
		}
	case Missing:
		if w := l.sessionOf(e.Worker, e.Incarnation); w != nil {
			w.heard = l.now
			l.missed(w, e.Results)
		}
	case Published:
		l.published(e)
	case Fetched:
		l.fetched(e)
	case Objects:
		l.objectsOf(e.Worker, e.Report)
	case ProposalDone:
		l.done(e)
	case Tick:
		l.told = time.Time{} // the driver's timer is used up, also if it went off too early
	case Applied:
		// observe finds what changed.
	}
}

// observe looks at what changed in the facts since the last Step.
func (l *Leader) observe() {
	if l.v.Index() == l.seen && l.workers != nil {
		return
	}
	for j := range l.v.JobsAfter(l.seen) {
		l.touch(j)
	}
	if !l.v.SameWorkers(l.workers) {
		l.observeWorkers()
	}
	l.seen, l.workers, l.allot = l.v.Index(), l.v, true
}

// settled reports whether workers have had the time to find this leader. Before that, a missing one means nothing.
func (l *Leader) settled() bool { return !l.now.Before(l.start.Add(l.cfg.LossTimeout)) }

// timerKind says what a timer is for; its id names the worker, the job or the proposal.
type timerKind uint8

const (
	timerWorker timerKind = iota
	timerJob
	timerFlight
)

func (l *Leader) fire() {
	for {
		t, ok := l.timers.Due(l.now)
		if !ok {
			return
		}
		switch t.Kind {
		case timerWorker:
			l.checkWorker(t.ID)
		case timerJob:
			if j := l.jobs[t.ID]; j != nil && j.wake.Equal(t.At) {
				j.wake = time.Time{}
				j.scan = true
				l.mark(j)
			} else if facts := l.v.Job(t.ID); facts != nil && l.over[t.ID] != nil && l.over[t.ID].wake.Equal(t.At) {
				l.over[t.ID].wake = time.Time{}
				l.tidy(facts)
			}
		case timerFlight:
			l.retry(t.ID)
		}
	}
}

// arm asks for a Tick at the next timer.
func (l *Leader) arm() {
	if at, ok := l.timers.Next(); ok && !at.Equal(l.told) {
		l.told = at
		l.out = append(l.out, WakeAt{At: at})
	}
}

func (l *Leader) mark(j *job) { l.dirty[j.id] = j }

// wakeAt has the job reconciled at a time, if nothing does so earlier.
func (l *Leader) wakeAt(j *job, at time.Time) {
	if j.wake.IsZero() || at.Before(j.wake) {
		j.wake = at
		l.timers.Set(at, timerJob, j.id)
	}
}

func (l *Leader) reconcileAll() {
	for len(l.dirty) > 0 {
		jobs := make([]*job, 0, len(l.dirty))
		for _, j := range l.dirty {
			jobs = append(jobs, j)
		}
		clear(l.dirty)
		slices.SortFunc(jobs, func(a, b *job) int { return cmp.Compare(a.number, b.number) })
		for _, j := range jobs {
			l.reconcile(j)
		}
	}
}

func (l *Leader) send(w *worker, m *controlpb.CoordinatorMessage) {
	m.Term = l.cfg.Term
	l.out = append(l.out, Send{Worker: w.id, Incarnation: w.session.incarnation, Message: m})
}

// busy reports whether a lane has a proposal under way.
func (l *Leader) busy(key string) bool { return l.lanes.Busy(key) }

// propose puts a command on a lane, which must be free.
func (l *Leader) propose(key string, c *commandpb.Command, f *flight) {
	c.Version, c.TimeUs, c.Proposer = state.Version, l.now.UnixMicro(), l.cfg.Leader
	l.lanes.Begin(key, f)
	l.out = append(l.out, Propose{Key: key, Command: c})
}

type flight = lane.Flight

// done notes the answer to a proposal. It takes effect when the facts contain the command.
func (l *Leader) done(e ProposalDone) {
	if pause := l.lanes.Answer(e.Key, e.Result, e.Err); pause > 0 {
		l.timers.Set(l.now.Add(pause), timerFlight, e.Key)
	}
}

// land completes the proposals whose facts are visible.
func (l *Leader) land() {
	for _, k := range l.lanes.Visible(l.v.Index()) {
		f := l.lanes.Land(k)
		decided := strings.HasPrefix(k, jobLane) || strings.HasPrefix(k, splitLane) || strings.HasPrefix(k, releaseLane) ||
			strings.HasPrefix(k, checkpointLane)
		if decided && f.Result().Status != state.Applied {
			if pause := l.lanes.Vain(k, f); pause > 0 {
				l.timers.Set(l.now.Add(pause), timerFlight, k)
				continue
			}
		} else {
			l.lanes.Forget(k)
		}
		l.open(k, f)
	}
}

// open lets whoever waited for a lane go on.
func (l *Leader) open(key string, f *flight) {
	l.allot = true
	if j := l.jobs[f.Job]; j != nil {
		l.mark(j)
	}
	if id, ok := strings.CutPrefix(key, workerLane); ok && l.soft[id] != nil {
		l.nudge(l.soft[id])
	}
}

// Lanes: at most one proposal is under way on each.
const (
	workerLane  = "worker/"  // + worker
	jobLane     = "job/"     // + job: everything that moves its status
	reportLane  = "report/"  // + job
	splitLane   = "split/"   // + job + "/" + operator
	releaseLane = "release/" // + job: stored results that nobody needs
	// + job: steps of its checkpoints
	checkpointLane = "checkpoint/"
	objectLane     = "objects/" // + job: objects of checkpoints that nobody needs
	forgetLane     = "forget"
)

// retry opens a lane again after a failure.
func (l *Leader) retry(key string) {
	f := l.lanes.Open(key)
	if f == nil {
		return
	}
	if j := l.jobs[f.Job]; j != nil {
		j.scan = true
	}
	l.open(key, f)
}
