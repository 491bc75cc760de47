package schedule

import (
	"maps"
	"slices"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

type regionEpoch = taskpb.RegionEpoch

// deploy tells workers of the attempts that the facts have given them and that they do not know of. An attempt that was
// announced and does not run after a while is announced again: the message may have been lost.
func (l *Leader) deploy(j *job, facts *state.Job, s *survey) {
	j.issued = nil // the survey has found them
	if facts.Count(jobpb.SubtaskState_SUBTASK_SCHEDULED) == 0 {
		return
	}
	if j.deploys.due(l.now, l.cfg.Resend, mostPause) {
		l.addSilent(j, facts, s)
	}
	l.wakeAt(j, j.deploys.next)
	l.sendDeployments(j, facts, s.missing)
}

// deployIssued does so for attempts that were issued since the last look.
func (l *Leader) deployIssued(j *job, facts *state.Job) {
	if len(j.issued) == 0 {
		return
	}
	missing := map[string][]int32{}
	for _, pos := range j.issued {
		t := facts.At(int(pos))
		w := l.usable(t.Worker)
		if t.State != jobpb.SubtaskState_SUBTASK_SCHEDULED || w == nil || facts.Region(t.Region).Status == jobpb.RegionStatus_REGION_RESTARTING {
			continue
		}
		if !j.sent.knows(int(pos), t.Attempt, w.session.serial) {
			missing[t.Worker] = append(missing[t.Worker], pos)
		}
	}
	j.issued = nil
	l.wakeAt(j, j.deploys.next)
	l.sendDeployments(j, facts, missing)
}

func (l *Leader) sendDeployments(j *job, facts *state.Job, missing map[string][]int32) {
	var d *deployments
	for _, id := range slices.Sorted(maps.Keys(missing)) {
		w := l.usable(id)
		if w == nil {
			continue
		}
		positions := slices.DeleteFunc(missing[id], func(pos int32) bool { return !j.mayRun(facts, facts.At(int(pos))) })
		for _, group := range byProcess(facts, positions) {
			if d == nil {
				d = l.deployments(j, facts)
			}
			l.addPlace(j, id)
			l.sendDeployment(j, w, d, group)
		}
	}
}

// addSilent adds attempts that a worker was told of long ago and that have not reported since.
func (l *Leader) addSilent(j *job, facts *state.Job, s *survey) {
	for pos := range facts.Size() {
		t := facts.At(pos)
		if t.State != jobpb.SubtaskState_SUBTASK_SCHEDULED || facts.Region(t.Region).Status == jobpb.RegionStatus_REGION_RESTARTING {
			continue
		}
		w := l.usable(t.Worker)
		if w != nil && j.sent.knows(pos, t.Attempt, w.session.serial) && l.now.Sub(j.sent[pos].at) >= l.cfg.Resend {
			s.missing[t.Worker] = append(s.missing[t.Worker], int32(pos))
		}
	}
}

// byProcess groups positions by task process, in the order of process numbers.
func byProcess(facts *state.Job, positions []int32) [][]int32 {
	groups := map[uint64][]int32{}
	for _, p := range positions {
		n := facts.At(int(p)).Process
		groups[n] = append(groups[n], p)
	}
	var all [][]int32
	for _, n := range slices.Sorted(maps.Keys(groups)) {
		all = append(all, groups[n])
	}
	return all
}

// deployments is what the deployments of one job have in common.
type deployments struct {
	l         *Leader
	j         *job
	facts     *state.Job
	plan      *jobpb.Plan
	enumerate map[int32][]int32 // by chain: its sources whose splits are not all known
}

func (l *Leader) deployments(j *job, facts *state.Job) *deployments {
	d := &deployments{l: l, j: j, facts: facts, plan: facts.Plan(), enumerate: map[int32][]int32{}}
	for _, s := range facts.Sources() {
		if !s.Complete() {
			d.enumerate[s.Chain()] = append(d.enumerate[s.Chain()], s.Operator())
		}
	}
	return d
}

func (l *Leader) sendDeployment(j *job, w *worker, d *deployments, positions []int32) {
	m := &taskpb.Deployment{
		Job: j.id, JobEpoch: d.facts.Epoch(), Process: d.facts.At(int(positions[0])).Process, Plan: d.plan, Spec: d.facts.Head().Spec,
		ProcessMemory: setting.ProcessMemory(w.facts.Memory, w.facts.Slots, max(1, j.held[w.id])), Slots: j.held[w.id], Settings: d.plan.Settings,
	}
	for _, pos := range positions {
		t := d.facts.At(int(pos))
		s := &taskpb.SubtaskDeployment{Chain: t.Chain, Index: t.Index, Attempt: t.Attempt, Region: t.Region, RegionEpoch: d.facts.Region(t.Region).Epoch, Gated: j.shape.gated[t.Chain]}
		j.opening.look = j.opening.look || s.Gated
		if t.Index == 0 {
			s.Enumerate = d.enumerate[t.Chain]
		}
		m.Subtasks = append(m.Subtasks, s)
		j.sent.put(d.facts.Size(), int(pos), sent{attempt: t.Attempt, session: w.session.serial, at: l.now})
		if j.shape.mode == lazy {
			j.wakeConsumers(d.facts, t)
			l.mark(j)
		}
	}
	m.Locations = d.locations(positions)
	k := processKey{j.id, m.Process}
	if w.session.processes[k] == nil {
		w.session.processes[k] = &process{}
	}
	l.send(w, &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_Deploy{Deploy: &controlpb.Deploy{Deployment: m}}})
}

// locations are the places of every subtask with which these exchange records.
func (d *deployments) locations(positions []int32) []*taskpb.Location {
	near := make([]bool, d.facts.Size())
	whole := map[[2]int32]bool{} // edge and direction whose other side is marked as a whole
	for _, pos := range positions {
		t := d.facts.At(int(pos))
		for _, e := range d.plan.Edges {
			producers, consumers := d.plan.Chains[e.FromChain].Parallelism, d.plan.Chains[e.ToChain].Parallelism
			if e.FromChain == t.Chain && !whole[[2]int32{e.Index, 0}] {
				lo, n := graph.Consumers(e.Partitioner, producers, consumers, t.Index)
				whole[[2]int32{e.Index, 0}] = n == consumers
				d.mark(near, e.ToChain, lo, n)
			}
			if e.ToChain == t.Chain && !whole[[2]int32{e.Index, 1}] {
				lo, n := graph.Producers(e.Partitioner, producers, consumers, t.Index)
				whole[[2]int32{e.Index, 1}] = n == producers
				d.mark(near, e.FromChain, lo, n)
			}
		}
	}
	var ls []*taskpb.Location
	for pos, is := range near {
		if is {
			ls = append(ls, d.location(pos))
		}
	}
	return ls
}

func (d *deployments) mark(near []bool, chain, first, count int32) {
	from := d.facts.Layout().First(chain) + first
	for i := range count {
		near[from+i] = true
	}
}

// location is made once for all messages, until something about the subtask or its worker changes. What a finished
// producer stored is named by the attempt and the epoch that wrote it.
func (d *deployments) location(pos int) *taskpb.Location {
	if d.j.spots[pos] == nil {
		t := d.facts.At(pos)
		p := &taskpb.Location{
			Chain: t.Chain, Index: t.Index, Attempt: t.Attempt, RegionEpoch: d.facts.Region(t.Region).Epoch, Worker: t.Worker,
			DataAddress: d.l.v.Worker(t.Worker).GetDataAddress(), Process: t.Process, Region: t.Region,
		}
		for _, x := range t.Partitions {
			if x.State == jobpb.PartitionState_PARTITION_STORED {
				p.Partitions = append(p.Partitions, x)
			}
		}
		d.j.spots[pos] = p
	}
	return d.j.spots[pos]
}

// mayRun reports whether an attempt should be deployed now. A lazy job holds back the consumer of a PIPELINED edge until
// one of its producers has produced something. It also has to wait until all of its producers may run, since it would
// give up dialling them after a while. A region with a gate never waits: its sources produce only when all is loaded.
func (j *job) mayRun(facts *state.Job, t *jobpb.Subtask) bool {
	if j.shape.mode != lazy || len(j.shape.in[t.Chain]) == 0 || j.gates != nil && j.gates[t.Region].loads > 0 {
		return true
	}
	woken, fed := false, false
	for _, e := range j.shape.in[t.Chain] {
		from := facts.Layout().Producers(e.Index, t.Index)
		fed = fed || from.Count > 0
		if !facts.Layout().Near(e.Index) {
			woken = woken || from.Count > 0 && j.producing[e.FromChain] > 0
			if from.Count > 0 && !j.chainRuns(e.FromChain) {
				return false
			}
			continue
		}
		for i := range from.Count {
			p := facts.At(int(from.First + i))
			woken = woken || producing(p)
			if !j.mayRun(facts, p) {
				return false
			}
		}
	}
	return woken || !fed
}

// chainRuns reports whether subtasks of a chain may run whose consumers read from all of them.
func (j *job) chainRuns(chain int32) bool {
	in := j.shape.in[chain]
	woken := len(in) == 0
	for _, e := range in {
		woken = woken || j.producing[e.FromChain] > 0
		if !j.chainRuns(e.FromChain) {
			return false
		}
	}
	return woken
}

// wakeConsumers has the consumers looked at that a lazy job may have held back for a subtask.
func (j *job) wakeConsumers(facts *state.Job, t *jobpb.Subtask) {
	for _, e := range j.shape.out[t.Chain] {
		if !facts.Layout().Near(e.Index) {
			continue // the first of all to produce has the whole job looked at
		}
		to := facts.Layout().Consumers(e.Index, t.Index)
		for i := range to.Count {
			j.issued = append(j.issued, to.First+i)
		}
	}
}

// deployCommitter starts a process without subtasks.
func (l *Leader) deployCommitter(j *job, facts *state.Job, w *worker, number uint64) {
	k := processKey{j.id, number}
	if w.session.processes[k] != nil {
		return
	}
	w.session.processes[k] = &process{}
	l.addPlace(j, w.id)
	l.send(w, &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_Deploy{Deploy: &controlpb.Deploy{Deployment: &taskpb.Deployment{
		Job: j.id, JobEpoch: facts.Epoch(), Process: number, Plan: facts.Plan(), Spec: facts.Head().Spec,
		ProcessMemory: setting.ProcessMemory(w.facts.Memory, w.facts.Slots, 1), Slots: 1, Settings: facts.Plan().Settings,
	}}}})
}
