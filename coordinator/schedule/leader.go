package schedule

import (
	"cmp"
	"slices"
	"strings"
	"time"

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
	dirty     map[string]*job    // to be reconciled in this Step
	on        map[string]map[string]*job
	flights   map[string]*flight // proposals under way, by key
	vain      map[string]int     // by key: proposals in a row that led to nothing
	landed    []string           // keys of flights whose result is known and whose facts are not visible yet
	timers    timer.Queue[timerKind]
	told      time.Time // the last WakeAt
	unacked   map[string]*worker
	taken     map[string]int // slots by worker that flights would take
	waiting   []*job         // for slots, in order
	unplanned map[string]*job
	allot     bool // free slots or waiting jobs may have changed
	serial    uint64
	terminal  int // jobs in the facts that are terminal

	// of the Step at work
	v   *state.View
	now time.Time
	out []Action
}

// New starts a term.
func New(c Config) *Leader {
	return &Leader{
		cfg: c, soft: map[string]*worker{}, jobs: map[string]*job{}, dirty: map[string]*job{}, on: map[string]map[string]*job{},
		flights: map[string]*flight{}, unacked: map[string]*worker{}, unplanned: map[string]*job{}, taken: map[string]int{}, vain: map[string]int{},
	}
}

// Step folds one event and answers with what has to be done now. v holds the facts, and never fewer than in the Step
// before.
func (l *Leader) Step(v *state.View, e Event, now time.Time) []Action {
	l.v, l.now, l.out = v, now, nil
	if !l.begun {
		l.begun, l.start = true, now
		l.timers.Set(now.Add(l.cfg.LossTimeout), timerFlight, "") // whoever has not come by then is not waited for
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

// flight is one proposal under way.
type flight struct {
	job    string
	done   func(state.Result) // the command has applied, or never will
	failed func()             // what becomes of it is unknown
	result state.Result
	landed bool
	cool   bool           // failed; the lane opens again after a pause
	calm   bool           // if it applies, what changed in the job's records says all
	takes  map[string]int // slots by worker that it takes if it applies
}

// busy reports whether a lane has a proposal under way.
func (l *Leader) busy(key string) bool { return l.flights[key] != nil }

// propose puts a command on a lane, which must be free.
func (l *Leader) propose(key string, c *commandpb.Command, f *flight) {
	c.Version, c.TimeUs, c.Proposer = state.Version, l.now.UnixMicro(), l.cfg.Leader
	l.flights[key] = f
	for w, n := range f.takes {
		l.taken[w] += n
	}
	l.out = append(l.out, Propose{Key: key, Command: c})
}

// done notes the answer to a proposal. It takes effect when the facts contain the command.
func (l *Leader) done(e ProposalDone) {
	f := l.flights[e.Key]
	if f == nil || f.landed || f.cool {
		return
	}
	if e.Err != nil {
		// It may have been lost or may still come. Commands carry preconditions, so doing it again is harmless, but not in a
		// busy loop.
		l.giveBack(f)
		if f.failed != nil {
			f.failed()
		}
		l.vain[e.Key]++
		l.cool(e.Key, f)
		return
	}
	f.landed, f.result = true, e.Result
	l.landed = append(l.landed, e.Key)
}

// cool keeps a lane closed for a moment, and longer each time in a row.
func (l *Leader) cool(key string, f *flight) {
	const first, most = 100 * time.Millisecond, 10 * time.Second
	f.cool = true
	l.timers.Set(l.now.Add(min(first<<min(l.vain[key], 10), most)), timerFlight, key)
}

// giveBack forgets the slots that a flight would have taken: the facts know by now whether it did.
func (l *Leader) giveBack(f *flight) {
	for w, n := range f.takes {
		if l.taken[w] -= n; l.taken[w] == 0 {
			delete(l.taken, w)
		}
	}
	f.takes = nil
}

// land completes the proposals whose facts are visible.
func (l *Leader) land() {
	if len(l.landed) == 0 {
		return
	}
	keys := l.landed
	l.landed = nil
	for _, k := range keys {
		f := l.flights[k]
		if f.result.Index > l.v.Index() {
			l.landed = append(l.landed, k)
			continue
		}
		delete(l.flights, k)
		l.giveBack(f)
		if f.done != nil {
			f.done(f.result)
		}
		if f.result.Status != state.Applied && (strings.HasPrefix(k, jobLane) || strings.HasPrefix(k, splitLane) || strings.HasPrefix(k, releaseLane)) {
			// The facts had moved on under the decision. The next one is made from newer facts; if it leads to nothing again, a
			// pause keeps that from becoming a busy loop.
			if l.vain[k]++; l.vain[k] > 1 {
				l.flights[k] = f
				l.cool(k, f)
				continue
			}
		} else {
			delete(l.vain, k)
		}
		l.open(k, f)
	}
}

// open lets whoever waited for a lane go on.
func (l *Leader) open(key string, f *flight) {
	l.allot = true
	if j := l.jobs[f.job]; j != nil {
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
	forgetLane  = "forget"
)

// retry opens a lane again after a failure.
func (l *Leader) retry(key string) {
	f := l.flights[key]
	if f == nil || !f.cool {
		return
	}
	delete(l.flights, key)
	if j := l.jobs[f.job]; j != nil {
		j.scan = true
	}
	l.open(key, f)
}
