package schedule

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/sluiceio/sluice/coordinator/schedule/glance"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/coordinator/supply"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// holding is what this leader knows of what a subtask stored for an edge.
func (l *Leader) holding(j *job, t *jobpb.Subtask, edge int32) supply.Holding {
	if t.State != jobpb.SubtaskState_SUBTASK_FINISHED {
		return supply.Holding{}
	}
	p := supply.Of(t, edge)
	switch {
	case p.GetState() != jobpb.PartitionState_PARTITION_STORED || l.missing(j, t, p) != "":
		return supply.Holding{Condition: supply.Lost, Worker: t.Worker}
	case l.usable(t.Worker) == nil:
		return supply.Holding{Condition: supply.Away, Worker: t.Worker, Bytes: p.Bytes}
	}
	return supply.Holding{Condition: supply.Stored, Worker: t.Worker, Bytes: p.Bytes}
}

// missing says why a result that the facts call STORED cannot be read; empty: it can. A worker that has no session is not
// a reason before it is declared lost: it may be on its way to this leader. The place of a result is a worker, not an
// incarnation of it.
func (l *Leader) missing(j *job, t *jobpb.Subtask, p *jobpb.Partition) string {
	if why := j.lost[resultKey{p.Edge, t.Index, p.Attempt}]; why != "" {
		return why
	}
	f := l.v.Worker(t.Worker)
	switch {
	case f == nil || f.Health != commandpb.WorkerHealth_WORKER_ALIVE:
		return "worker " + t.Worker + " was lost"
	case f.Draining && f.DrainDeadlineUs > 0 && !l.now.Before(time.UnixMicro(f.DrainDeadlineUs)):
		return "worker " + t.Worker + " has been drained"
	}
	return ""
}

// lose takes what an attempt says of results that it could not read, also if the attempt is over: what is gone is gone.
func (l *Leader) lose(j *job, facts *state.Job, f *jobpb.Failure) {
	for _, ref := range f.GetLost() {
		if !facts.Layout().Blocking(ref.Edge) {
			continue
		}
		t := facts.Subtask(facts.Plan().Edges[ref.Edge].FromChain, ref.Producer)
		if p := supply.Of(t, ref.Edge); p == nil || p.Attempt != ref.Attempt {
			continue // there is another one by now
		}
		l.loseResult(j, t, ref.Edge, ref.Attempt, "a reader could not read it")
	}
}

func (l *Leader) loseResult(j *job, t *jobpb.Subtask, edge int32, attempt uint32, why string) {
	k := resultKey{edge, t.Index, attempt}
	if j.lost[k] == "" {
		j.lost[k] = why
		j.supply.Put(edge, t.Index, l.holding(j, t, edge))
		j.scan = true
	}
}

// surveyResults looks at what a finished subtask stored. Its region counts as failed if a result cannot be read that a
// consumer wants which has not finished; what nobody wants may be gone.
func (l *Leader) surveyResults(j *job, facts *state.Job, s *survey, t *jobpb.Subtask) {
	for _, e := range facts.Layout().Out(t.Chain) {
		h := l.holding(j, t, e)
		j.supply.Put(e, t.Index, h)
		if h.Condition != supply.Lost || !supply.Wanted(facts, j.counts, e, t.Index) {
			continue
		}
		s.broken[t.Region] = true
		why := "it was released"
		if p := supply.Of(t, e); p.GetState() == jobpb.PartitionState_PARTITION_STORED {
			why = l.missing(j, t, p)
		} else if p.GetState() == jobpb.PartitionState_PARTITION_LOST {
			why = "a reader could not read it"
		}
		f := glance.LossOf(t, CodeResultLost, "the stored result of "+facts.Plan().Chains[t.Chain].Name+" cannot be read: "+why)
		if p := supply.Of(t, e); p != nil {
			f.Lost = []*jobpb.PartitionRef{{Edge: e, Producer: t.Index, Attempt: p.Attempt}}
		}
		if w := l.v.Worker(t.Worker); w == nil || w.Health != commandpb.WorkerHealth_WORKER_ALIVE {
			f.Code = CodeWorkerLost // that explains everything which broke with it
		}
		s.causes = append(s.causes, f)
	}
	if w := l.v.Worker(t.Worker); len(t.Partitions) > 0 && w.GetDraining() && w.DrainDeadlineUs > l.now.UnixMicro() {
		l.wakeAt(j, time.UnixMicro(w.DrainDeadlineUs))
	}
}

// releaseResults plans the deletion of results that nobody needs. To look for them is a pass over the job, so that is not done
// for each of many small regions that finish, but when everything was read that an edge carries.
func (l *Leader) releaseResults(j *job, facts *state.Job) {
	grown, closed := j.counts.Finishes()-j.released, j.supply.Closed()
	switch many := len(facts.Plan().Regions) / 64; {
	case j.supply.Count(supply.Stored)+j.supply.Count(supply.Lost)+j.supply.Count(supply.Away) == 0:
		return
	case !j.releasing && grown == 0, !j.releasing && closed == j.closed && grown < many && facts.Active() > 0:
		return
	}
	key := releaseLane + j.id
	if l.busy(key) || l.busy(jobLane+j.id) {
		return // the lane's end looks here again
	}
	j.released, j.closed, j.releasing = j.counts.Finishes(), closed, false
	needs := facts.Needs()
	var refs []*jobpb.PartitionRef
	for pos := range facts.Size() {
		t := facts.At(pos)
		j.visits++
		for _, p := range t.Partitions {
			if p.State != jobpb.PartitionState_PARTITION_RELEASED && !needs.Partition(p.Edge, t.Index) && len(refs) < maxReleases {
				refs = append(refs, &jobpb.PartitionRef{Edge: p.Edge, Producer: t.Index, Attempt: p.Attempt})
			}
		}
	}
	if len(refs) == 0 {
		return
	}
	j.releasing = true // whatever becomes of this, look again
	l.propose(key, &commandpb.Command{Command: &commandpb.Command_ReleasePartitions{ReleasePartitions: &commandpb.ReleasePartitions{
		Job: j.id, JobEpoch: facts.Epoch(), Partitions: refs,
	}}}, &flight{Job: j.id})
}

// maxReleases bounds one ReleasePartitions.
const maxReleases = 10_000

// drops are results that no fact needs, by worker.
type drops map[string][]*taskpb.PartitionName

// maxDrops bounds one message.
const maxDrops = 1000

// sendDrops has workers delete what nobody needs. One that is not there says what it has when it returns.
func (l *Leader) sendDrops(j *job, d drops) {
	for _, id := range slices.Sorted(maps.Keys(d)) {
		if w := l.usable(id); w != nil {
			for names := range slices.Chunk(d[id], maxDrops) {
				l.sendDrop(w, &taskpb.DropPartitions{Job: j.id, Partitions: names})
			}
		}
	}
}

func (l *Leader) sendDrop(w *worker, m *taskpb.DropPartitions) {
	l.send(w, &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_DropPartitions{DropPartitions: m}})
}

// dropAll has everything deleted that a job stored and that has ended.
func (l *Leader) dropAll(j *job) {
	for _, id := range slices.Sorted(maps.Keys(j.stores)) {
		if w := l.usable(id); w != nil {
			l.sendDrop(w, &taskpb.DropPartitions{Job: j.id, All: true})
		}
	}
}

// takeResults compares the stored results in the inventory of a new session with the facts: what no fact needs is dropped,
// what the facts call STORED and is not there is lost.
func (l *Leader) takeResults(w *worker) {
	has := map[string]map[resultKey]bool{}
	for _, inv := range w.session.register.Partitions {
		j, facts := l.jobs[inv.Job], l.v.Job(inv.Job)
		if j == nil || facts == nil || facts.Plan() == nil {
			l.sendDrop(w, &taskpb.DropPartitions{Job: inv.Job, All: true})
			continue
		}
		l.follow(j, facts)
		j.stores[w.id] = true
		if has[j.id] == nil {
			has[j.id] = map[resultKey]bool{}
		}
		d := drops{}
		for _, n := range inv.Partitions {
			if supply.Counts(facts, w.id, n) {
				has[j.id][resultKey{n.Edge, n.Producer, n.Attempt}] = true
			} else {
				d[w.id] = append(d[w.id], n)
			}
		}
		l.sendDrops(j, d)
	}
	jobs := slices.SortedFunc(maps.Values(l.on[w.id]), func(a, b *job) int { return cmp.Compare(a.number, b.number) })
	for _, j := range jobs {
		if facts := l.v.Job(j.id); facts != nil && facts.Plan() != nil {
			l.missResults(j, facts, w, has[j.id])
		}
	}
}

// missed takes what a worker says of results that it had: beside those that a reader has found to be lost, others may be, of
// which nobody would hear before they are wanted.
func (l *Leader) missed(w *worker, inv *controlpb.PartitionInventory) {
	j, facts := l.jobs[inv.Job], l.v.Job(inv.Job)
	if j == nil || facts == nil || facts.Plan() == nil {
		return
	}
	l.follow(j, facts)
	for _, n := range inv.Partitions {
		if supply.Counts(facts, w.id, n) {
			t := facts.Subtask(facts.Plan().Edges[n.Edge].FromChain, n.Producer)
			l.loseResult(j, t, n.Edge, n.Attempt, "worker "+w.id+" does not have it")
		}
	}
	l.mark(j)
}

// missResults finds what the facts call STORED on a worker and the worker does not have.
func (l *Leader) missResults(j *job, facts *state.Job, w *worker, has map[resultKey]bool) {
	l.follow(j, facts)
	if !j.stores[w.id] {
		return
	}
	for t := range facts.Subtasks() {
		if t.Worker != w.id {
			continue
		}
		for _, p := range t.Partitions {
			if p.State == jobpb.PartitionState_PARTITION_STORED && !has[resultKey{p.Edge, t.Index, p.Attempt}] {
				l.loseResult(j, t, p.Edge, p.Attempt, "worker "+w.id+" does not have it")
			}
		}
	}
}
