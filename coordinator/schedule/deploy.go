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
	if facts.Count(jobpb.SubtaskState_SUBTASK_SCHEDULED) == 0 {
		return
	}
	if j.deploys.due(l.now, l.cfg.Resend, mostPause) {
		l.addSilent(j, facts, s)
	}
	l.wakeAt(j, j.deploys.next)
	if len(s.missing) == 0 {
		return
	}
	d := l.deployments(facts)
	for _, id := range slices.Sorted(maps.Keys(s.missing)) {
		w := l.usable(id)
		if w == nil {
			continue
		}
		for _, group := range byProcess(facts, s.missing[id]) {
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
	facts     *state.Job
	plan      *jobpb.Plan
	first     []int              // by chain: position of subtask 0
	held      map[string]int32   // slots by worker
	addresses map[string]string  // data port by worker
	enumerate map[int32][]int32  // by chain: its sources whose splits are not all known
	places    []*taskpb.Location // by position; made once and shared by all messages
}

func (l *Leader) deployments(facts *state.Job) *deployments {
	d := &deployments{facts: facts, plan: facts.Plan(), held: map[string]int32{}, addresses: map[string]string{}, enumerate: map[int32][]int32{}, places: make([]*taskpb.Location, facts.Size())}
	n := 0
	for _, c := range d.plan.Chains {
		d.first = append(d.first, n)
		n += int(c.Parallelism)
	}
	for i := range facts.Slots() {
		if w, _, ok := facts.Grant(i); ok {
			d.held[w]++
		}
	}
	for f := range l.v.Workers() {
		d.addresses[f.Id] = f.DataAddress
	}
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
		ProcessMemory: setting.ProcessMemory(w.facts.Memory, w.facts.Slots, max(1, d.held[w.id])), Slots: d.held[w.id], Settings: d.plan.Settings,
	}
	for _, pos := range positions {
		t := d.facts.At(int(pos))
		s := &taskpb.SubtaskDeployment{Chain: t.Chain, Index: t.Index, Attempt: t.Attempt, Region: t.Region, RegionEpoch: d.facts.Region(t.Region).Epoch}
		if t.Index == 0 {
			s.Enumerate = d.enumerate[t.Chain]
		}
		m.Subtasks = append(m.Subtasks, s)
		j.sent.put(d.facts.Size(), int(pos), sent{attempt: t.Attempt, session: w.session.serial, at: l.now})
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
		if !is {
			continue
		}
		ls = append(ls, d.location(pos))
	}
	return ls
}

func (d *deployments) location(pos int) *taskpb.Location {
	if d.places[pos] == nil {
		t := d.facts.At(pos)
		d.places[pos] = &taskpb.Location{
			Chain: t.Chain, Index: t.Index, Attempt: t.Attempt, RegionEpoch: d.facts.Region(t.Region).Epoch, Worker: t.Worker,
			DataAddress: d.addresses[t.Worker], Process: t.Process,
		}
	}
	return d.places[pos]
}

func (d *deployments) mark(near []bool, chain, first, count int32) {
	for i := first; i < first+count; i++ {
		near[d.first[chain]+int(i)] = true
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
