package schedule

import (
	"maps"
	"slices"
	"time"

	"github.com/sluiceio/sluice/coordinator/recovery"
	"github.com/sluiceio/sluice/coordinator/schedule/glance"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/coordinator/tally"
	"github.com/sluiceio/sluice/coordinator/timer"
	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Codes of failures that the scheduler finds.
const (
	CodeWorkerLost = "E110"              // the worker of an attempt was lost
	CodeTooMany    = "E112"              // more splits than the coordinators can keep
	CodeDrained    = "E113"              // the worker of an attempt is being drained
	CodeBadSplits  = "E114"              // an enumerator reported splits that cannot be taken
	CodeNotVisible = "E115"              // output could not be committed
	CodeVanished   = glance.CodeVanished // an attempt ended and nobody said why
	CodeResultLost = "E131"              // a stored result that is still wanted cannot be read
)

// judge decides what follows from broken regions: a restart, or the end of the job. It reports whether it did.
func (l *Leader) judge(j *job, facts *state.Job, s *survey) bool {
	if len(s.broken) == 0 {
		j.settle = time.Time{}
		return false
	}
	cause := recovery.Root(s.causes)
	kind := recovery.KindOf(cause)
	if kind == jobpb.FailureKind_FAILURE_LOSS && l.unexplained(s) {
		// A link breaks when its other end dies. The end's own story is on its way and decides whether the loss is one. And a
		// disk that fails is noticed by several readers at once: what all of them lost makes one restart.
		if j.settle.IsZero() {
			j.settle = l.now.Add(l.cfg.Settle)
		}
		if l.now.Before(j.settle) {
			l.wakeAt(j, j.settle)
			return false
		}
	}
	if l.busy(releaseLane + j.id) {
		j.scan = true // what is being released decides who runs again; the lane's end marks the job
		return true
	}
	now := max(l.now.UnixMicro(), l.v.TimeMicros())
	d := recovery.Decide(l.strategy(facts), facts.History(), recovery.Failed{Kind: kind, At: now, Job: j.id, Restarts: facts.Head().Restarts})
	cause = recovery.Tell(cause, now)
	if !d.Restart {
		return l.proposeJob(j, &commandpb.Command{Command: &commandpb.Command_FailJob{FailJob: &commandpb.FailJob{
			Job: j.id, JobEpoch: facts.Epoch(), Cause: recovery.Explain(cause, d.Reason),
		}}}, &flight{})
	}
	at := int64(0)
	if d.Delay > 0 {
		at = now + d.Delay.Microseconds()
	}
	l.steerClear(j, s, cause)
	set := recovery.RestartSet(facts, slices.Sorted(maps.Keys(s.broken)), func(t *jobpb.Subtask, p *jobpb.Partition) bool { return l.missing(j, t, p) != "" })
	if len(set.Regions) == 0 {
		return false // all of it waits for its next attempts already
	}
	return l.proposeJob(j, &commandpb.Command{Command: &commandpb.Command_RestartRegions{RestartRegions: &commandpb.RestartRegions{
		Job: j.id, JobEpoch: facts.Epoch(), Regions: glance.Epochs(facts, set.Regions), Cause: cause, RestartAtUs: at, Lost: set.Lost, Reordered: set.Reordered,
	}}}, &flight{Done: func(state.Result) { j.settle = time.Time{} }})
}

// strategy is the job's restart strategy.
func (l *Leader) strategy(facts *state.Job) setting.Restart {
	return setting.Values(facts.Plan().GetSettings()).Restart(l.cfg.DefaultRestart)
}

// unexplained reports whether all that is known is that links broke or attempts vanished: no worker is known to be lost.
func (l *Leader) unexplained(s *survey) bool {
	return !slices.ContainsFunc(s.causes, func(f *jobpb.Failure) bool { return f.Code == CodeWorkerLost || f.Code == CodeDrained })
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
	if cause.Kind != jobpb.FailureKind_FAILURE_LOSS || len(cause.Lost) > 0 || !l.unexplained(s) || cause.Worker == "" {
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
	pace  timer.Pace
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
	of := stopCause{epoch: h.Epoch, restarts: h.Restarts + h.Losses, ending: glance.Ends(h.Status)}
	if st := &j.stop; st.since.IsZero() || st.of != of {
		*st = stopping{of: of, since: l.now, told: map[string]uint64{}, ended: map[string]uint64{}}
	}
	st := &j.stop
	again := st.pace.Due(l.now, l.cfg.Resend, mostPause)
	overdue := !l.now.Before(st.since.Add(l.cfg.StopTimeout))
	for _, id := range slices.Sorted(maps.Keys(s.stopping)) {
		w := l.usable(id)
		if w == nil {
			continue
		}
		if again || st.told[id] != w.session.serial {
			st.told[id] = w.session.serial
			l.send(w, glance.CancelMessage(facts, glance.Halted(facts)))
		}
		if overdue && st.ended[id] != w.session.serial {
			st.ended[id] = w.session.serial
			l.releaseActing(j, facts, w)
		}
	}
	l.wakeAt(j, st.pace.Next())
	if !overdue {
		l.wakeAt(j, st.since.Add(l.cfg.StopTimeout))
	} else if at := st.since.Add(2 * l.cfg.StopTimeout); l.now.Before(at) {
		l.wakeAt(j, at)
	}
}

// releaseActing ends the processes on a worker in which attempts act that should have stopped. A goroutine cannot be
// killed, a process can.
func (l *Leader) releaseActing(j *job, facts *state.Job, w *worker) {
	for t := range facts.Subtasks() {
		halted := glance.Ends(facts.Status()) || facts.Region(t.Region).Status == jobpb.RegionStatus_REGION_RESTARTING
		if halted && tally.Acts(t.State) && t.Worker == w.id {
			l.release(w, processKey{j.id, t.Process}, "its attempts did not stop in time")
		}
	}
}

// stopped reports whether nothing of a region can act any more, or has had more than enough time to end. Correctness
// does not hang on it: the fences make an old attempt harmless.
func (l *Leader) stopped(j *job, region int32) bool {
	if int(region) >= len(j.acts) || !j.acts[region] {
		return true
	}
	return !j.stop.since.IsZero() && !l.now.Before(j.stop.since.Add(2*l.cfg.StopTimeout))
}
