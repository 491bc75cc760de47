package schedule

import (
	"maps"
	"slices"
	"time"

	"github.com/sluiceio/sluice/coordinator/adoption"
	"github.com/sluiceio/sluice/coordinator/checkpoint"
	"github.com/sluiceio/sluice/coordinator/rollout"
	"github.com/sluiceio/sluice/coordinator/schedule/glance"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/coordinator/timer"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// job is what this leader knows of a job that has not ended, besides the facts.
type job struct {
	id     string
	number uint64
	last   *state.Job // facts that were looked at last
	scan   bool       // compare every subtask with the world
	wake   time.Time  // of the timer that counts; zero: none

	track
	build   build
	sent    rollout.ToldList // by position: which attempts a worker knows of
	deploys timer.Pace
	stop    stopping
	places  map[string]bool    // workers on which it has something
	settle  time.Time          // failures are judged from then on; zero: nothing waits
	trouble map[string]trouble // by worker

	reports   []report // waiting to be folded into the facts
	single    bool     // one report at a time: a batch was refused
	sources   map[int32]*source
	commit    commit
	cycle     *checkpoint.Cycle // nil: the job takes no checkpoints
	shelf     checkpoint.Shelf
	adoption  *adoption.Adoption // nil: no plan waits for a checkpoint
	next      *jobpb.Plan        // that is to take over
	acts      []bool             // by region: an old attempt on a connected worker acted when the job was surveyed last
	want      *want              // nil: to be found out
	waits     bool               // in Leader.waiting
	since     time.Time
	surveyed  time.Time
	stuck     time.Time // it has wanted slots in vain since then
	heldAt    time.Time // when this leader proposed the last HoldJob
	committer uint64    // number of a committing process that is gone
}

// mostPause is the longest pause between repetitions of a message.
const mostPause = time.Minute

// touch looks at a job whose facts changed.
func (l *Leader) touch(facts *state.Job) {
	j := l.jobs[facts.ID()]
	if state.Terminal(facts.Status()) {
		l.terminal++
		l.forget()
		if j != nil {
			l.ended(j, "the job has ended")
		}
		l.tidy(facts)
		return
	}
	if j != nil && j.last != nil && j.last.Plan() != nil && j.last.Plan() != facts.Plan() {
		l.ended(j, "another plan has taken over")
		j = nil
	}
	if j == nil {
		j = &job{id: facts.ID(), number: facts.Number(), scan: true, sources: map[int32]*source{}}
		l.jobs[j.id] = j
	} else if j.last == nil || glance.Moved(j.last, facts) {
		j.scan = true
	}
	if j.last != nil && j.last.ScheduledAt() != facts.ScheduledAt() {
		j.deploys = timer.Pace{}
		j.deploys.Due(l.now, l.cfg.Resend, mostPause)
	}
	j.last = facts
	l.mark(j)
}

// ended lets go of a job that reached its terminal status, or of the plan that it had.
func (l *Leader) ended(j *job, why string) {
	l.resolveAll(j.reports...)
	for _, s := range j.sources { // any order: receipts are only counted
		for _, d := range s.found {
			l.resolve(d.receipt)
		}
	}
	l.resolve(j.commit.receipt)
	l.abandonBuild(j)
	l.releaseProcesses(j, nil, why)
	l.dropAll(j)
	for id := range j.places { // any order: entries of a map
		delete(l.on[id], j.id)
	}
	l.unwait(j)
	delete(l.unplanned, j.id)
	l.lanes.Forget(jobLane + j.id)
	l.lanes.Forget(reportLane + j.id)
	l.lanes.Forget(releaseLane + j.id)
	l.lanes.Forget(checkpointLane + j.id)
	l.lanes.Forget(objectLane + j.id)
	for operator := range j.sources { // any order: entries of a map
		l.lanes.Forget(splitKey(j, operator))
	}
	delete(l.jobs, j.id)
	delete(l.dirty, j.id)
}

// releaseProcesses ends the task processes of a job that are not needed.
func (l *Leader) releaseProcesses(j *job, needed map[uint64]bool, reason string) {
	for _, id := range slices.Sorted(maps.Keys(j.places)) {
		w := l.usable(id)
		if w == nil {
			continue
		}
		for _, k := range w.session.of(j.id) {
			if !needed[k.number] {
				l.release(w, k, reason)
			}
		}
	}
}

// addPlace notes that the job has something on a worker.
func (l *Leader) addPlace(j *job, id string) {
	if j.places == nil {
		j.places = map[string]bool{}
	}
	j.places[id] = true
	if l.on[id] == nil {
		l.on[id] = map[string]*job{}
	}
	l.on[id][j.id] = j
}

// place notes on which workers the job has something, so that whatever happens to one of them finds it.
func (l *Leader) place(j *job, workers map[string]bool) {
	for id := range j.places { // any order: entries of a map
		if !workers[id] {
			delete(l.on[id], j.id)
		}
	}
	for id := range workers { // any order: entries of a map
		if l.on[id] == nil {
			l.on[id] = map[string]*job{}
		}
		l.on[id][j.id] = j
	}
	j.places = workers
}

// reconcile asks what is missing between the facts and the world, for one job.
func (l *Leader) reconcile(j *job) {
	facts := l.v.Job(j.id)
	if facts == nil || state.Terminal(facts.Status()) {
		return // ended; observe lets go of it
	}
	j.last = facts
	l.follow(j, facts)
	l.flushReports(j, facts)
	switch facts.Status() {
	case jobpb.JobStatus_JOB_CREATED, jobpb.JobStatus_JOB_PLANNING:
		l.plan(j, facts)
	case jobpb.JobStatus_JOB_WAITING, jobpb.JobStatus_JOB_RUNNING, jobpb.JobStatus_JOB_RESTARTING:
		l.run(j, facts)
	case jobpb.JobStatus_JOB_FINISHING, jobpb.JobStatus_JOB_FAILING, jobpb.JobStatus_JOB_CANCELLING, jobpb.JobStatus_JOB_STOPPING:
		l.end(j, facts)
	}
}

// run keeps a job going that is neither planned nor ending.
func (l *Leader) run(j *job, facts *state.Job) {
	if j.scan {
		j.scan = false
		if l.inspect(j, facts) {
			return
		}
	} else {
		l.deployIssued(j, facts)
	}
	if l.rescale(j, facts) {
		return
	}
	l.queue(j, facts)
	l.openGates(j, facts)
	l.checkpoints(j, facts)
	l.commitCompleted(j, facts)
	l.releaseResults(j, facts)
	for _, src := range facts.Sources() {
		l.splits(j, facts, src)
	}
}

// inspect compares every subtask with the world. It reports whether a restart or the end of the job follows.
func (l *Leader) inspect(j *job, facts *state.Job) bool {
	s := l.survey(j, facts)
	if j.cycle != nil {
		j.cycle.Look()
	}
	j.acts, j.want, j.opening.look, j.surveyed = s.acting, nil, true, l.now
	l.place(j, s.places)
	l.stopAttempts(j, facts, s)
	if l.judge(j, facts, s) {
		return true
	}
	l.returnSlots(j, facts)
	l.deploy(j, facts, s)
	l.releaseProcesses(j, s.needed, "no attempt needs it any more")
	return false
}

// proposeJob puts a command on the lane of a job's status; it reports false if one is under way.
func (l *Leader) proposeJob(j *job, c *commandpb.Command, f *flight) bool {
	key := jobLane + j.id
	if l.busy(key) {
		// What was to be done is found again when the lane opens.
		j.scan = true
		return false
	}
	f.Job = j.id
	then := f.Done
	f.Done = func(r state.Result) {
		j.scan = j.scan || !f.Calm || r.Status != state.Applied
		if then != nil {
			then(r)
		}
	}
	l.propose(key, c, f)
	return true
}

// forget drops the oldest terminal jobs beyond the number that is kept. Before that they are counted anew: what became of an
// earlier ForgetJobs may be unknown.
func (l *Leader) forget() {
	if l.terminal <= l.cfg.KeepJobs || l.busy(forgetLane) {
		return
	}
	ids := glance.Ended(l.v)
	if l.terminal = len(ids); l.terminal <= l.cfg.KeepJobs {
		return
	}
	ids = ids[:min(l.terminal-l.cfg.KeepJobs, 100)] // at a time
	l.propose(forgetLane, &commandpb.Command{Command: &commandpb.Command_ForgetJobs{ForgetJobs: &commandpb.ForgetJobs{Jobs: ids}}}, &flight{
		Done: func(r state.Result) {
			if r.Status == state.Applied { // else their objects are being removed
				l.forget()
			}
		},
	})
}
