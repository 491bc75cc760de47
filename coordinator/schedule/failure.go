package schedule

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/coordinator/recovery"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Codes of failures that the scheduler finds.
const (
	CodeWorkerLost = "E110" // the worker of an attempt was lost
	CodeNoPlan     = "E111" // planning failed on several workers
	CodeTooMany    = "E112" // more splits than the coordinators can keep
	CodeDrained    = "E113" // the worker of an attempt is being drained
	CodeBadSplits  = "E114" // an enumerator reported splits that cannot be taken
	CodeNotVisible = "E115" // output could not be committed
	CodeVanished   = "E116" // an attempt ended and nobody said why
)

func timeOf(micros int64) time.Time { return time.UnixMicro(micros) }

// judge decides what follows from broken regions: a restart, or the end of the job. It reports whether it did.
func (l *Leader) judge(j *job, facts *state.Job, s *survey) bool {
	if len(s.broken) == 0 {
		j.settle = time.Time{}
		return false
	}
	cause := rootCause(s.causes)
	if cause.Kind == jobpb.FailureKind_FAILURE_LOSS && l.unexplained(s) {
		// A link breaks when its other end dies. The end's own story is on its way and decides whether the loss is one.
		if j.settle.IsZero() {
			j.settle = l.now.Add(l.cfg.Settle)
		}
		if l.now.Before(j.settle) {
			l.wakeAt(j, j.settle)
			return false
		}
	}
	now := max(l.now.UnixMicro(), l.v.TimeMicros())
	d := recovery.Decide(l.strategy(facts), facts.History(), recovery.Failed{Kind: cause.Kind, At: now, Job: j.id, Restarts: facts.Head().Restarts})
	cause = withTime(cause, now)
	if !d.Restart {
		return l.proposeJob(j, &commandpb.Command{Command: &commandpb.Command_FailJob{FailJob: &commandpb.FailJob{
			Job: j.id, JobEpoch: facts.Epoch(), Cause: explain(cause, d.Reason),
		}}}, &flight{})
	}
	at := int64(0)
	if d.Delay > 0 {
		at = now + d.Delay.Microseconds()
	}
	l.steerClear(j, s, cause)
	set := recovery.RestartSet(facts.Plan().Regions, slices.Sorted(maps.Keys(s.broken)))
	set = slices.DeleteFunc(set, func(r int32) bool { return slices.Contains(s.pending, r) })
	return l.proposeJob(j, &commandpb.Command{Command: &commandpb.Command_RestartRegions{RestartRegions: &commandpb.RestartRegions{
		Job: j.id, JobEpoch: facts.Epoch(), Regions: regionEpochs(facts, set), Cause: cause, RestartAtUs: at,
	}}}, &flight{done: func(state.Result) { j.settle = time.Time{} }})
}

// strategy is the job's restart strategy.
func (l *Leader) strategy(facts *state.Job) setting.Restart {
	return setting.Values(facts.Plan().GetSettings()).Restart(l.cfg.DefaultRestart)
}

// rootCause is the gravest failure, and among equals the first: what follows a failure is often only its echo.
func rootCause(causes []*jobpb.Failure) *jobpb.Failure {
	grave := func(f *jobpb.Failure) int {
		switch f.Kind {
		case jobpb.FailureKind_FAILURE_FATAL:
			return 0
		case jobpb.FailureKind_FAILURE_LOSS:
			return 2
		}
		return 1
	}
	return slices.MinFunc(causes, func(a, b *jobpb.Failure) int {
		return cmp.Or(cmp.Compare(grave(a), grave(b)), cmp.Compare(a.TimeUs, b.TimeUs))
	})
}

// unexplained reports whether all that is known is that links broke or attempts vanished: no worker is known to be lost.
func (l *Leader) unexplained(s *survey) bool {
	return !slices.ContainsFunc(s.causes, func(f *jobpb.Failure) bool { return f.Code == CodeWorkerLost || f.Code == CodeDrained })
}

func withTime(f *jobpb.Failure, now int64) *jobpb.Failure {
	if f.TimeUs != 0 {
		return f.Bounded()
	}
	n := proto.CloneOf(f)
	n.TimeUs = now
	return n.Bounded()
}

// explain adds why there is no restart.
func explain(f *jobpb.Failure, reason string) *jobpb.Failure {
	n := proto.CloneOf(f)
	if f.Kind != jobpb.FailureKind_FAILURE_FATAL {
		n.Message = strings.TrimRight(n.Message, "\n") + "\nnot restarted: " + reason
	}
	return n.Bounded()
}

// trouble is a worker at which links of a job broke.
type trouble struct {
	last  time.Time
	again bool // it was not the first time
}

// troubleMemory is how long trouble is remembered.
const troubleMemory = time.Minute

// steerClear notes the worker at which a link broke. If that happens twice within a minute, the next attempts are put
// elsewhere: with a cut between two workers, moving one end helps and trying the same again does not.
func (l *Leader) steerClear(j *job, s *survey, cause *jobpb.Failure) {
	if cause.Kind != jobpb.FailureKind_FAILURE_LOSS || !l.unexplained(s) || cause.Worker == "" {
		return
	}
	if j.trouble == nil {
		j.trouble = map[string]trouble{}
	}
	before, known := j.trouble[cause.Worker]
	j.trouble[cause.Worker] = trouble{last: l.now, again: known && l.now.Sub(before.last) <= troubleMemory}
}

// avoids reports whether the job's attempts should rather be put elsewhere.
func (j *job) avoids(worker string, now time.Time) bool {
	t := j.trouble[worker]
	return t.again && now.Sub(t.last) <= troubleMemory
}

// stopping is how far the leader is with the end of attempts.
type stopping struct {
	of    stopCause
	since time.Time
	pace  pacing
	told  map[string]uint64 // by worker: session that has the newest cancel
	ended map[string]uint64 // by worker: session whose processes were released
}

// stopCause tells one stop of a job's attempts from the next.
type stopCause struct {
	epoch    uint64
	restarts int32
	ending   bool
}

// stopAttempts cancels what must not act any more, and releases the processes of what does not end.
func (l *Leader) stopAttempts(j *job, facts *state.Job, s *survey) {
	l.reportGone(j, s.gone)
	if len(s.stopping) == 0 {
		return
	}
	h := facts.Head()
	of := stopCause{epoch: h.Epoch, restarts: h.Restarts + h.Losses, ending: ends(h.Status)}
	if st := &j.stop; st.since.IsZero() || st.of != of {
		*st = stopping{of: of, since: l.now, told: map[string]uint64{}, ended: map[string]uint64{}}
	}
	st := &j.stop
	again := st.pace.due(l.now, l.cfg.Resend, mostPause)
	overdue := !l.now.Before(st.since.Add(l.cfg.StopTimeout))
	for _, id := range slices.Sorted(maps.Keys(s.stopping)) {
		w := l.usable(id)
		if w == nil {
			continue
		}
		if again || st.told[id] != w.session.serial {
			st.told[id] = w.session.serial
			l.send(w, cancelMessage(facts, haltedRegions(facts)))
		}
		if overdue && st.ended[id] != w.session.serial {
			st.ended[id] = w.session.serial
			l.releaseActing(j, facts, w)
		}
	}
	l.wakeAt(j, st.pace.next)
	if !overdue {
		l.wakeAt(j, st.since.Add(l.cfg.StopTimeout))
	} else if at := st.since.Add(2 * l.cfg.StopTimeout); l.now.Before(at) {
		l.wakeAt(j, at)
	}
}

// haltedRegions are the regions of a Cancel with the epochs that must end; none: all of the job.
func haltedRegions(facts *state.Job) (rs []*regionEpoch) {
	if ends(facts.Status()) {
		return nil
	}
	for r := range facts.Regions() {
		if r.Status == jobpb.RegionStatus_REGION_RESTARTING {
			rs = append(rs, &regionEpoch{Region: r.Index, Epoch: r.Epoch - 1})
		}
	}
	return rs
}

// releaseActing ends the processes on a worker in which attempts act that should have stopped. A goroutine cannot be
// killed, a process can.
func (l *Leader) releaseActing(j *job, facts *state.Job, w *worker) {
	for t := range facts.Subtasks() {
		halted := ends(facts.Status()) || facts.Region(t.Region).Status == jobpb.RegionStatus_REGION_RESTARTING
		if halted && acts(t.State) && t.Worker == w.id {
			l.release(w, processKey{j.id, t.Process}, "its attempts did not stop in time")
		}
	}
}

// stopped reports whether nothing of a region can act any more, or has had more than enough time to end. Correctness
// does not hang on it: the fences make an old attempt harmless.
func (l *Leader) stopped(j *job, s *survey, region int32) bool {
	if !s.acting[region] {
		return true
	}
	return !j.stop.since.IsZero() && !l.now.Before(j.stop.since.Add(2*l.cfg.StopTimeout))
}
