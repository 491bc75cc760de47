package schedule

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluiceio/sluice/coordinator/recovery"
	"github.com/sluiceio/sluice/coordinator/schedule/glance"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/coordinator/timer"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// commit is the work on prepared output as this leader follows it.
type commit struct {
	abort    bool
	since    time.Time // the attempts were gone, or a cancel was seen
	worker   string
	session  uint64
	process  uint64 // that was asked; 0: none
	pace     timer.Pace
	tries    int       // that the sink answered with "later"
	later    time.Time // not before
	done     bool      // the process has answered that all is well
	receipt  *receipt  // of that answer
	hopeless *jobpb.Failure
	asked    bool
	upTo     uint64 // newest id of what was asked to be committed; it stays until that is confirmed
}

// lost forgets the process that was asked.
func (c *commit) lost() { c.process, c.worker, c.pace = 0, "", timer.Pace{} }

// end brings a job from FINISHING, FAILING or CANCELLING to its terminal status.
func (l *Leader) end(j *job, facts *state.Job) {
	l.unwait(j)
	if !j.scan && facts.Active() > 0 {
		return
	}
	j.scan = false
	s := l.survey(j, facts)
	l.place(j, s.places)
	if glance.Ends(facts.Status()) {
		l.stopAttempts(j, facts, s)
		if len(s.stopping) > 0 || len(s.gone) > 0 {
			return
		}
	}
	l.checkpoints(j, facts) // processes wait to hear of the last one
	// Output of a completed checkpoint is never taken back: it becomes visible first, however the job ends.
	abort := glance.Ends(facts.Status()) && len(glance.Completed(facts)) == 0
	if j.commit.since.IsZero() || j.commit.abort != abort {
		receipt := j.commit.receipt
		j.commit = commit{abort: abort, since: l.now}
		l.resolve(receipt)
	}
	output := facts.Committables()
	if !abort && glance.Ends(facts.Status()) {
		output = glance.Completed(facts)
	}
	if l.commitOutput(j, facts, output) {
		l.proposeJob(j, &commandpb.Command{Command: &commandpb.Command_EndJob{EndJob: &commandpb.EndJob{
			Job: j.id, JobEpoch: facts.Epoch(), Note: l.note(j, facts),
		}}}, &flight{})
	}
}

// note says what becomes of output that was neither committed nor removed.
func (l *Leader) note(j *job, facts *state.Job) string {
	n := len(facts.Committables())
	if n == 0 {
		return ""
	}
	last := uint64(0)
	for _, c := range facts.Committables() {
		last = max(last, c.Checkpoint)
	}
	why := "no process of the job could be run in time"
	switch c := j.commit; {
	case c.hopeless != nil:
		why = c.hopeless.Code + ": " + c.hopeless.Message
	case c.tries > 0:
		why = "the sink was not ready until the deadline"
	case c.process != 0:
		why = "the process that was asked did not answer in time"
	}
	return fmt.Sprintf("uncommitted output up to id %d, %d parts, is retained where it was prepared: %s", last, n, why)
}

// commitCompleted makes the output of completed checkpoints visible while the job runs. One commit is under way at a time.
func (l *Leader) commitCompleted(j *job, facts *state.Job) {
	if j.cycle == nil || len(facts.Committables()) == 0 {
		return
	}
	if output := glance.Completed(facts); len(output) > 0 {
		l.commitOutput(j, facts, output)
	}
}

// commitOutput works on prepared output of a job; it reports true when nothing is left to do, or to hope for.
func (l *Leader) commitOutput(j *job, facts *state.Job, all []*jobpb.Committable) bool {
	c, output := &j.commit, len(all)
	deadline := c.since.Add(l.cfg.AbortTimeout)
	given := glance.Ends(facts.Status()) && facts.Status() != jobpb.JobStatus_JOB_STOPPING || facts.Head().Desired == jobpb.JobStatus_JOB_CANCELLED
	if glance.Going(facts.Status()) {
		given = false
	}
	switch {
	case c.hopeless != nil && glance.Ends(facts.Status()):
		return true
	case c.hopeless != nil:
		l.proposeJob(j, &commandpb.Command{Command: &commandpb.Command_FailJob{FailJob: &commandpb.FailJob{
			Job: j.id, JobEpoch: facts.Epoch(), Cause: recovery.Tell(c.hopeless, l.now.UnixMicro()),
		}}}, &flight{})
		return false
	case c.done && output > 0:
		l.confirm(j, facts)
		return false
	case c.done, output == 0 && !glance.Tidies(facts):
		return true
	case given && !l.now.Before(deadline):
		return true
	}
	if given {
		l.wakeAt(j, deadline)
	}
	if l.now.Before(c.later) {
		l.wakeAt(j, c.later)
		return false
	}
	w, number := l.committerOf(j, facts)
	switch {
	case w != nil:
		l.sendCommit(j, facts, w, number, all)
		return false
	case output == 0, glance.Going(facts.Status()):
		return true // leftovers are removed by a process that is there; none is started for them
	}
	l.newCommitter(j, facts)
	return false
}

// committerOf finds a live process of the job: the one that was asked before, one that ran the job, or one that was
// deployed for this.
func (l *Leader) committerOf(j *job, facts *state.Job) (*worker, uint64) {
	c := &j.commit
	if w := l.usable(c.worker); w != nil && c.process != 0 && w.session.serial == c.session && w.session.runs(processKey{j.id, c.process}) {
		return w, c.process
	}
	for _, id := range slices.Sorted(maps.Keys(j.places)) {
		w := l.usable(id)
		if w == nil {
			continue
		}
		for _, k := range w.session.of(j.id) {
			if w.session.runs(k) {
				return w, k.number
			}
		}
	}
	if k := facts.Head().Committer; k != nil && k.Process != j.committer {
		if w := l.usable(k.Worker); w != nil && w.session.incarnation == k.Incarnation {
			l.deployCommitter(j, facts, w, k.Process)
			return w, k.Process
		}
	}
	return nil, 0
}

// runs reports whether a process is there and not asked to end.
func (s *session) runs(k processKey) bool {
	p := s.processes[k]
	return p != nil && !p.released
}

// newCommitter has a process issued that commits. It takes no slot.
func (l *Leader) newCommitter(j *job, facts *state.Job) {
	if k := facts.Head().Committer; k != nil && k.Process != j.committer && l.v.Alive(k.Worker, k.Incarnation) {
		l.addPlace(j, k.Worker) // its session is on the way, or it will be declared lost
		return
	}
	w := l.builder(j, "")
	if w == nil {
		if l.gathered() {
			l.hold(j, facts, "no live worker can commit the output: "+glance.Lack(l.v, facts))
		}
		l.wakeAt(j, l.now.Add(l.cfg.LossTimeout))
		return
	}
	l.proposeJob(j, &commandpb.Command{Command: &commandpb.Command_DeployCommitter{DeployCommitter: &commandpb.DeployCommitter{
		Job: j.id, JobEpoch: facts.Epoch(), Worker: w.id, Incarnation: w.session.incarnation, Replaces: facts.Head().Committer.GetProcess(),
	}}}, &flight{})
}

// sendCommit asks a process to commit or remove everything that is prepared; again until it answers.
func (l *Leader) sendCommit(j *job, facts *state.Job, w *worker, number uint64, output []*jobpb.Committable) {
	c := &j.commit
	if c.process != number || c.session != w.session.serial {
		c.worker, c.session, c.process, c.pace = w.id, w.session.serial, number, timer.Pace{}
	}
	if c.pace.Due(l.now, 2*l.cfg.Resend, mostPause) {
		m := &taskpb.Commit{Job: j.id, JobEpoch: facts.Epoch(), Process: number, Abort: c.abort}
		for _, x := range output { // what comes while one is under way waits for the next one
			if !c.asked || x.Checkpoint <= c.upTo {
				m.Committables = append(m.Committables, x)
				m.Checkpoint = max(m.Checkpoint, x.Checkpoint)
			}
		}
		c.asked, c.upTo = true, m.Checkpoint
		l.send(w, &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_Commit{Commit: m}})
	}
	l.wakeAt(j, c.pace.Next())
}

// committed takes the answer of a committing process.
func (l *Leader) committed(w *worker, j *job, facts *state.Job, r *taskpb.CommitResult, rc *receipt) {
	c := &j.commit
	if r == nil || c.process == 0 || c.process != r.Process || c.worker != w.id || r.JobEpoch != facts.Epoch() || c.done || r.Checkpoint != c.upTo {
		l.resolve(rc) // an answer to an earlier leader: the question is asked again
		return
	}
	j.scan = true
	switch {
	case r.Failure == nil && !r.Retry:
		c.done, c.receipt = true, rc
		if len(facts.Committables()) == 0 {
			c.receipt = nil
			l.resolve(rc)
		}
		return
	case r.Retry || r.Failure.Kind == jobpb.FailureKind_FAILURE_LOSS:
		const first, most = time.Second, 30 * time.Second
		c.later = l.now.Add(min(first<<min(c.tries, 5), most))
		c.tries++
		c.pace = timer.Pace{}
		if r.Failure != nil {
			l.hold(j, facts, "the output is not committed yet: "+r.Failure.Bounded().Message)
		}
	default:
		f := r.Failure.Bounded()
		if f.Code == "" {
			f = &jobpb.Failure{Code: CodeNotVisible, Kind: f.Kind, Message: f.Message}
		}
		c.hopeless = f
	}
	l.resolve(rc)
}

// confirm brings into the facts that the output is visible, or gone.
func (l *Leader) confirm(j *job, facts *state.Job) {
	last, rc := j.commit.upTo, j.commit.receipt
	l.proposeJob(j, &commandpb.Command{Command: &commandpb.Command_ConfirmCommits{ConfirmCommits: &commandpb.ConfirmCommits{
		Job: j.id, JobEpoch: facts.Epoch(), Checkpoint: last,
	}}}, &flight{Done: func(state.Result) {
		if j.commit.receipt == rc {
			j.commit.receipt = nil
		}
		if j.commit.upTo == last && glance.Going(facts.Status()) {
			j.commit = commit{} // for the next checkpoint
		}
		l.resolve(rc)
	}})
}
