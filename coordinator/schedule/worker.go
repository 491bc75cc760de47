package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/coordinator/rollout"
	"github.com/sluiceio/sluice/coordinator/schedule/glance"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/coordinator/tally"
	"github.com/sluiceio/sluice/internal/invariant"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// worker is what this leader knows of a worker besides the facts.
type worker struct {
	id      string
	facts   *commandpb.Worker // that were looked at last
	session *session          // nil: none
	heard   time.Time         // last sign of life, or the beginning of the term
	armed   bool              // a timer will look after it
	drain   time.Time         // it asked to be drained until then
	load    int               // builds given to it by this leader
}

// session is one stream of a worker.
type session struct {
	serial      uint64 // never used twice in a term
	incarnation uint64
	register    *controlpb.Register
	welcomed    bool // registered in the facts: from now on it may be used
	draining    bool // what the welcome said
	processes   map[processKey]*process
	receipts    []*receipt // reports that are not acknowledged, in order
	last        uint64     // newest sequence that came
	acked       uint64
}

type processKey struct {
	job    string
	number uint64
}

// process is a task process that runs on a worker as far as this leader knows.
type process struct {
	released bool
	reason   string
	at       time.Time // of the newest release
}

// receipt is a report on its way into the facts.
type receipt struct {
	w        *worker
	s        *session
	sequence uint64
	open     int // parts that are not resolved
}

// sessionOf finds the worker, if this incarnation has a session.
func (l *Leader) sessionOf(id string, incarnation uint64) *worker {
	w := l.soft[id]
	if w == nil || w.session == nil || w.session.incarnation != incarnation {
		return nil
	}
	return w
}

func (l *Leader) worker(id string) *worker {
	w := l.soft[id]
	if w == nil {
		w = &worker{id: id, heard: l.now}
		l.soft[id] = w
	}
	return w
}

func (l *Leader) attached(r *controlpb.Register) {
	w := l.worker(r.Worker)
	known := uint64(0)
	if f := l.v.Worker(r.Worker); f != nil {
		known = f.Incarnation
	}
	if w.session != nil {
		known = max(known, w.session.incarnation)
	}
	if r.Incarnation < known {
		l.out = append(l.out, Drop{Worker: r.Worker, Incarnation: r.Incarnation, Reason: fmt.Sprintf("incarnation %d of this worker is known; %d is older", known, r.Incarnation)})
		return
	}
	if w.session == nil || w.session.incarnation != r.Incarnation {
		w.drain = time.Time{}
	}
	l.serial++
	w.session = &session{serial: l.serial, incarnation: r.Incarnation, register: r, processes: map[processKey]*process{}}
	w.heard = l.now
	l.armWorker(w, w.heard.Add(l.cfg.LossTimeout))
	l.compare(w.id, r.Objects)
	l.register(w)
}

func (l *Leader) detached(id string, incarnation uint64) {
	if w := l.sessionOf(id, incarnation); w != nil {
		w.session = nil
		w.heard = l.now
		l.touchOn(id)
	}
}

// register brings a worker's own account of itself into the facts, and welcomes it once it is there.
func (l *Leader) register(w *worker) {
	r := w.session.register
	want := &commandpb.Worker{
		Id: r.Worker, Incarnation: r.Incarnation, Address: r.Address, DataAddress: r.DataAddress, Slots: r.Slots, Memory: r.Memory,
		Version: r.Version, ProtocolMin: r.ProtocolMin, ProtocolMax: r.ProtocolMax, Os: r.Os, Arch: r.Arch, Host: r.Host, Zone: r.Zone,
		Health: commandpb.WorkerHealth_WORKER_ALIVE,
	}
	if f := l.v.Worker(w.id); f != nil {
		as := proto.CloneOf(f)
		as.Draining, as.DrainDeadlineUs, as.DrainOnce, as.SinceUs = false, 0, false, 0
		if proto.Equal(as, want) {
			l.welcome(w)
			return
		}
	}
	key := workerLane + w.id
	if l.busy(key) {
		return
	}
	serial := w.session.serial
	l.propose(key, &commandpb.Command{Command: &commandpb.Command_RegisterWorker{RegisterWorker: &commandpb.RegisterWorker{Worker: want}}}, &flight{
		Done: func(r state.Result) {
			if w.session == nil || w.session.serial != serial {
				return
			}
			if r.Status == state.Refused {
				l.drop(w, r.Message)
				return
			}
			l.register(w)
		},
	})
}

// nudge does for a worker what waited for its lane.
func (l *Leader) nudge(w *worker) {
	if w.session == nil {
		return
	}
	l.register(w)
	if w.session.welcomed {
		l.drain(w)
	}
}

func (l *Leader) drop(w *worker, reason string) {
	l.out = append(l.out, Drop{Worker: w.id, Incarnation: w.session.incarnation, Reason: reason})
	w.session = nil
	w.heard = l.now
	l.touchOn(w.id)
}

// welcome lets a registered worker work: it is told the timings, and what runs on it is compared with the facts.
func (l *Leader) welcome(w *worker) {
	s := w.session
	draining := l.v.Worker(w.id).Draining
	if s.welcomed && s.draining == draining {
		return
	}
	first := !s.welcomed
	s.welcomed, s.draining = true, draining
	l.send(w, &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_Welcome{Welcome: &controlpb.Welcome{
		Cluster: l.v.Cluster(), Leader: l.cfg.Leader, HeartbeatUs: l.cfg.Heartbeat.Microseconds(),
		LostAfterUs: l.cfg.LossTimeout.Microseconds(), Drain: draining,
	}}})
	if !first {
		return
	}
	l.allot = true
	if len(s.receipts) > 0 {
		l.unacked[w.id] = w
	}
	l.adopt(w)
	l.touchOn(w.id)
	for _, j := range l.unplanned { // any order: they are sorted when they are reconciled
		l.mark(j)
	}
	l.drain(w)
}

// adopt compares the inventory of a new session with the facts. What fits is kept as it is; the rest is stopped.
func (l *Leader) adopt(w *worker) {
	for _, p := range w.session.register.Processes {
		w.session.processes[processKey{p.Job, p.Process}] = &process{}
		j := l.jobs[p.Job]
		if j == nil || invariant.Without("adoption") {
			l.release(w, processKey{p.Job, p.Process}, "the job is not known or has ended")
			continue
		}
		l.addPlace(j, w.id)
		l.takeInventory(w, j, p)
		j.scan = true
		l.mark(j)
	}
	l.takeResults(w)
}

func (l *Leader) takeInventory(w *worker, j *job, p *controlpb.ProcessInventory) {
	facts := l.v.Job(j.id)
	old := map[int32]uint64{}
	for _, u := range p.Subtasks {
		pos, ok := facts.Position(u.Chain, u.Index)
		if !ok {
			continue
		}
		s := facts.At(pos)
		if s.Attempt == u.Attempt && s.Worker == w.id && s.Process == p.Process && (tally.Acts(s.State) || !tally.Acts(u.State)) {
			j.sent.Put(facts.Size(), pos, rollout.Told{Attempt: u.Attempt, Session: w.session.serial, At: l.now})
		} else if u.Region == s.Region {
			old[u.Region] = max(old[u.Region], min(u.RegionEpoch, facts.Region(u.Region).Epoch))
		}
	}
	var regions []*taskpb.RegionEpoch
	for r, epoch := range old { // any order: sorted below
		// An attempt that the facts have forgotten, or given up with its worker, is of an older epoch.
		if epoch < facts.Region(r).Epoch {
			regions = append(regions, &taskpb.RegionEpoch{Region: r, Epoch: epoch})
		}
	}
	if len(regions) > 0 {
		slices.SortFunc(regions, func(a, b *taskpb.RegionEpoch) int { return int(a.Region - b.Region) })
		l.send(w, glance.CancelMessage(facts, regions))
	}
}

// release ends a task process, once.
func (l *Leader) release(w *worker, k processKey, reason string) {
	p := w.session.processes[k]
	if p == nil || p.released {
		return
	}
	p.released, p.reason = true, reason
	l.sendRelease(w, k, p)
}

func (l *Leader) sendRelease(w *worker, k processKey, p *process) {
	p.at = l.now
	l.send(w, &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_Release{Release: &controlpb.Release{
		Job: k.job, Process: k.number, Reason: p.reason,
	}}})
}

// releaseAgain repeats releases that had no effect.
func (l *Leader) releaseAgain(w *worker) {
	var late []processKey
	for k, p := range w.session.processes {
		if p.released && l.now.Sub(p.at) >= l.cfg.StopTimeout {
			late = append(late, k)
		}
	}
	slices.SortFunc(late, func(a, b processKey) int { return cmp.Compare(a.number, b.number) })
	for _, k := range late {
		l.sendRelease(w, k, w.session.processes[k])
	}
}

// armWorker has a worker looked after at a time. One timer per worker is enough: it moves on with each heartbeat.
func (l *Leader) armWorker(w *worker, at time.Time) {
	if w.armed {
		return
	}
	w.armed = true
	l.timers.Set(at, timerWorker, w.id)
}

// checkWorker declares a worker lost that has been silent for too long.
func (l *Leader) checkWorker(id string) {
	w := l.soft[id]
	if w == nil {
		return
	}
	w.armed = false
	f := l.v.Worker(id)
	l.nudge(w)
	if deadline := w.heard.Add(l.cfg.LossTimeout); l.now.Before(deadline) {
		if w.session != nil && w.session.welcomed {
			l.releaseAgain(w)
		}
		l.armWorker(w, deadline)
		return
	}
	reason := fmt.Sprintf("no session for %s", l.cfg.LossTimeout)
	if w.session != nil {
		reason = fmt.Sprintf("no heartbeat for %s", l.cfg.LossTimeout)
		l.drop(w, reason)
	}
	if f == nil || f.Health != commandpb.WorkerHealth_WORKER_ALIVE {
		return
	}
	if key := workerLane + id; !l.busy(key) {
		l.propose(key, &commandpb.Command{Command: &commandpb.Command_LoseWorker{LoseWorker: &commandpb.LoseWorker{
			Worker: id, Incarnation: f.Incarnation, Reason: reason,
		}}}, &flight{})
	}
	l.armWorker(w, l.now.Add(l.cfg.LossTimeout))
}

// observeWorkers looks at workers whose facts changed.
func (l *Leader) observeWorkers() {
	for _, j := range l.unplanned { // any order: they are sorted when they are reconciled
		l.mark(j)
	}
	for f := range l.v.Workers() {
		w := l.worker(f.Id)
		if w.facts == f {
			continue
		}
		if w.facts.GetDataAddress() != f.DataAddress {
			l.forgetPlaces(f.Id)
		}
		w.facts = f
		if f.Health == commandpb.WorkerHealth_WORKER_ALIVE {
			l.armWorker(w, w.heard.Add(l.cfg.LossTimeout))
		}
		if w.session != nil && w.session.incarnation < f.Incarnation {
			l.drop(w, "a higher incarnation of this worker has registered")
		}
		l.nudge(w) // it may have been declared lost while it was on its way back
		l.touchOn(f.Id)
	}
	for id, w := range l.soft {
		if l.v.Worker(id) == nil && w.session == nil {
			delete(l.soft, id)
		}
	}
}

// forgetPlaces has jobs tell anew where things are: a worker listens somewhere else.
func (l *Leader) forgetPlaces(id string) {
	for _, j := range l.on[id] { // any order: each for itself
		if j.where != nil {
			j.where.ForgetAll()
		}
	}
}

// drain brings a worker's wish to leave into the facts.
func (l *Leader) drain(w *worker) {
	f := l.v.Worker(w.id)
	if w.drain.IsZero() || w.session == nil || !w.session.welcomed || f.Draining && f.DrainDeadlineUs == w.drain.UnixMicro() {
		return
	}
	key := workerLane + w.id
	if l.busy(key) {
		return
	}
	l.propose(key, &commandpb.Command{Command: &commandpb.Command_SetDrain{SetDrain: &commandpb.SetDrain{
		Worker: w.id, Drain: true, DeadlineUs: w.drain.UnixMicro(), Incarnation: w.session.incarnation,
	}}}, &flight{})
}

// touchOn has the jobs compared with the world that have something on a worker.
func (l *Leader) touchOn(id string) {
	for _, j := range l.on[id] { // any order: they are sorted when they are reconciled
		j.scan = true
		l.mark(j)
	}
}

// usable reports whether attempts can be put on a worker now.
func (l *Leader) usable(id string) *worker {
	w := l.soft[id]
	if w == nil || w.session == nil || !w.session.welcomed || !l.v.Alive(id, w.session.incarnation) {
		return nil
	}
	return w
}

func (l *Leader) reaches(store string) bool { return l.keeper(store) != nil }

// gathered reports whether every live worker has found this leader, or has had the time to.
func (l *Leader) gathered() bool {
	if l.settled() {
		return true
	}
	for f := range l.v.Workers() {
		if f.Health == commandpb.WorkerHealth_WORKER_ALIVE && l.usable(f.Id) == nil {
			return false
		}
	}
	return true
}

// resolve notes that a part of a report is in the facts, or void for ever.
func (l *Leader) resolve(r *receipt) {
	if r == nil {
		return
	}
	if r.open--; r.open == 0 && r.w.session == r.s {
		l.unacked[r.w.id] = r.w
	}
}

// acknowledge tells workers which reports they may forget.
func (l *Leader) acknowledge() {
	if len(l.unacked) == 0 {
		return
	}
	ids := make([]string, 0, len(l.unacked))
	for id := range l.unacked {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, strings.Compare)
	for _, id := range ids {
		w := l.unacked[id]
		s := w.session
		if s == nil || !s.welcomed {
			continue // the welcome comes first; it looks here again
		}
		n := 0
		for n < len(s.receipts) && s.receipts[n].open == 0 {
			s.acked = s.receipts[n].sequence
			n++
		}
		s.receipts = s.receipts[n:]
		l.send(w, &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_Ack{Ack: &controlpb.Ack{Sequence: s.acked}}})
	}
	clear(l.unacked)
}
