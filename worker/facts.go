package worker

import (
	"cmp"
	"slices"

	"github.com/sluiceio/sluice/internal/pipe"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/shuffle/stored"
)

// phase of a task process.
type phase uint8

const (
	phaseStarting phase = iota // its binary is fetched or started; no Hello yet
	phaseRunning               // it has introduced itself
	phaseEnding                // it was asked to end, or has closed its link
	phaseEnded                 // the process is no more; its end may not be acknowledged yet
)

func (p phase) String() string {
	return [...]string{"starting", "running", "ending", "ended"}[p]
}

// subtaskKey names a subtask within a job.
type subtaskKey struct{ chain, index int32 }

// attempt is the last that is known of one.
type attempt struct {
	update *taskpb.SubtaskUpdate // immutable
	// report is the number of the report that carries an end; 0 while the attempt has not ended.
	report uint64
}

// commitNote is the outcome of a commit, and the report that carries it.
type commitNote struct {
	result *taskpb.CommitResult
	report uint64
}

// facts is what a leader wants to know of a process. It lives inside the process's lock.
type facts struct {
	phase       phase
	jobEpoch    uint64
	regionEpoch uint64 // highest that was deployed
	slots       int32
	attempts    map[subtaskKey]attempt
	commits     []commitNote
	conns       *pipe.Sender // set while running
	sample      *taskpb.Sample
	exitReport  uint64 // number of the report of the process's end
	chains      []*jobpb.Chain
	edges       []*jobpb.Edge
}

// deployed notes a deployment before it is passed on. A stale one is refused: older than what the process has.
func (f *facts) deployed(d *taskpb.Deployment) bool {
	if d.JobEpoch < f.jobEpoch {
		return false
	}
	f.jobEpoch = d.JobEpoch
	f.slots = d.Slots
	f.chains, f.edges = d.Plan.Chains, d.Plan.Edges
	for _, s := range d.Subtasks {
		f.regionEpoch = max(f.regionEpoch, s.RegionEpoch)
		key := subtaskKey{s.Chain, s.Index}
		if known, ok := f.attempts[key]; ok && known.update.Attempt >= s.Attempt {
			continue
		}
		f.attempts[key] = attempt{update: &taskpb.SubtaskUpdate{
			Chain: s.Chain, Index: s.Index, Attempt: s.Attempt, Region: s.Region, RegionEpoch: s.RegionEpoch,
			State: jobpb.SubtaskState_SUBTASK_SCHEDULED,
		}}
	}
	return true
}

// updated notes what the process says of an attempt. report is the number under which it is sent on.
func (f *facts) updated(u *taskpb.SubtaskUpdate, report uint64) {
	key := subtaskKey{u.Chain, u.Index}
	if known, ok := f.attempts[key]; ok && known.update.Attempt > u.Attempt {
		return
	}
	a := attempt{update: u}
	if ended(u.State) {
		a.report = report
	}
	f.attempts[key] = a
}

// unfinished names the stored results of the attempts that have not finished: when the process is no more, whatever
// there is of them is of no use to anybody.
func (f *facts) unfinished(job string) []stored.Name {
	var names []stored.Name
	for key, a := range f.attempts {
		if a.update.State == jobpb.SubtaskState_SUBTASK_FINISHED {
			continue
		}
		for _, e := range f.edges {
			if e.FromChain == key.chain && e.Exchange == jobpb.ExchangeKind_EXCHANGE_BLOCKING {
				names = append(names, stored.Name{
					Job: job, JobEpoch: f.jobEpoch, Region: a.update.Region, RegionEpoch: a.update.RegionEpoch,
					Edge: e.Index, Producer: key.index, Attempt: a.update.Attempt,
				})
			}
		}
	}
	return names
}

func ended(s jobpb.SubtaskState) bool {
	switch s {
	case jobpb.SubtaskState_SUBTASK_FINISHED, jobpb.SubtaskState_SUBTASK_FAILED, jobpb.SubtaskState_SUBTASK_CANCELLED:
		return true
	}
	return false
}

// acknowledged forgets what the leader has committed.
func (f *facts) acknowledged(sequence uint64) {
	for key, a := range f.attempts {
		if a.report > 0 && a.report <= sequence {
			delete(f.attempts, key)
		}
	}
	f.commits = slices.DeleteFunc(f.commits, func(c commitNote) bool { return c.report <= sequence })
}

// inventory in a stable order.
func (f *facts) inventory(key processKey) *controlpb.ProcessInventory {
	inv := &controlpb.ProcessInventory{Job: key.job, JobEpoch: f.jobEpoch, Process: key.number}
	for _, a := range f.attempts {
		inv.Subtasks = append(inv.Subtasks, a.update)
	}
	slices.SortFunc(inv.Subtasks, func(a, b *taskpb.SubtaskUpdate) int {
		return cmp.Or(cmp.Compare(a.Chain, b.Chain), cmp.Compare(a.Index, b.Index))
	})
	for _, c := range f.commits {
		inv.CommitResults = append(inv.CommitResults, c.result)
	}
	return inv
}

// route answers a data connection: not yet while the process, or the deployment that the dialler knows of, is on its
// way; gone when the process is, or when the dialler belongs to an older epoch of the job.
func (f *facts) route(p pipe.Preface) (pipe.Answer, *pipe.Sender) {
	switch {
	case f.phase >= phaseEnding || p.JobEpoch < f.jobEpoch:
		return pipe.Gone, nil
	case f.phase == phaseStarting || p.JobEpoch > f.jobEpoch || p.RegionEpoch > f.regionEpoch:
		return pipe.NotYet, nil
	}
	return pipe.Accepted, f.conns
}
