package clustertest

import (
	"fmt"
	"slices"

	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

func (w *Worker) beat(n uint64) *controlpb.WorkerMessage {
	h := &controlpb.Heartbeat{Sequence: n}
	for _, p := range w.procs {
		for _, t := range p.tasks {
			t.asked = false
		}
		sample := &taskpb.Sample{ResidentBytes: 1 << 20}
		for _, t := range p.tasks {
			sample.Counters = append(sample.Counters, &taskpb.Counters{
				Chain: t.d.Chain, Index: t.d.Index, Attempt: t.d.Attempt, RecordsIn: int64(10 * (t.d.Index + 1)),
			})
		}
		h.Samples = append(h.Samples, &controlpb.ProcessSample{Job: p.key.job, Process: p.key.number, Sample: sample})
	}
	return &controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_Heartbeat{Heartbeat: h}}
}

func (w *Worker) register() *controlpb.Register {
	r := &controlpb.Register{
		Worker: w.ID, Incarnation: w.incarnation, Address: w.ID + ":1", DataAddress: w.ID + ":2", Slots: w.opts.Slots, Memory: 1 << 30,
		Version: "test", ProtocolMin: taskpb.ProtocolMin, ProtocolMax: taskpb.ProtocolMax, Os: w.opts.OS, Arch: w.opts.Arch, TermSeen: w.term,
	}
	r.Partitions = w.c.disks.inventory(w.ID)
	for _, p := range w.procs {
		inv := &controlpb.ProcessInventory{Job: p.key.job, JobEpoch: p.epoch, Process: p.key.number}
		for _, t := range p.tasks {
			if active(t.state) || w.unacknowledged(p, t) {
				inv.Subtasks = append(inv.Subtasks, t.update())
			}
		}
		r.Processes = append(r.Processes, inv)
	}
	return r
}

func active(s jobpb.SubtaskState) bool {
	return s == jobpb.SubtaskState_SUBTASK_SCHEDULED || s == jobpb.SubtaskState_SUBTASK_RUNNING || s == jobpb.SubtaskState_SUBTASK_FINISHING
}

func (w *Worker) unacknowledged(p *proc, t *attempt) bool {
	return slices.ContainsFunc(w.outbox, func(r *controlpb.Report) bool {
		u := r.GetSubtask()
		return u != nil && r.Job == p.key.job && u.Chain == t.d.Chain && u.Index == t.d.Index && u.Attempt == t.d.Attempt
	})
}

func (t *attempt) update() *taskpb.SubtaskUpdate {
	return &taskpb.SubtaskUpdate{
		Chain: t.d.Chain, Index: t.d.Index, Attempt: t.d.Attempt, Region: t.d.Region, RegionEpoch: t.d.RegionEpoch, State: t.state,
		Produced: t.produced, Loaded: t.loaded,
	}
}

func (w *Worker) report(key procKey, epoch uint64, r *controlpb.Report) {
	w.sequence++
	r.Sequence, r.Job, r.JobEpoch, r.Process = w.sequence, key.job, epoch, key.number
	w.outbox = append(w.outbox, r)
}

func (w *Worker) become(p *proc, t *attempt, s jobpb.SubtaskState) {
	t.state = s
	u := t.update()
	if s == jobpb.SubtaskState_SUBTASK_FINISHED {
		u.Partitions = w.store(p, t)
		for _, o := range p.plan.Chains[t.d.Chain].Operators {
			if op := p.plan.Graph.Operators[o]; op.Kind == "sink" {
				u.Committables = append(u.Committables, &jobpb.Committable{Sink: op.Id, Subtask: t.d.Index, Data: fmt.Appendf(nil, "%s[%d]", op.Id, t.d.Index)})
			}
		}
		w.mu.Lock()
		w.mu.reads[p.key.job] = append(w.mu.reads[p.key.job], t.splits...)
		w.mu.Unlock()
	}
	w.report(p.key, p.epoch, &controlpb.Report{Fact: &controlpb.Report_Subtask{Subtask: u}})
}

// speak lets every attempt go as far as it can and sends what the leader has not got in this session.
func (w *Worker) speak(s stream) error {
	w.mu.Lock()
	hold := w.mu.hold
	w.mu.Unlock()
	for _, p := range w.procs {
		for _, t := range p.tasks {
			if err := w.advance(s, p, t, hold); err != nil {
				return err
			}
		}
	}
	for ; w.sent < len(w.outbox); w.sent++ {
		if err := s.Send(&controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_Report{Report: w.outbox[w.sent]}}); err != nil {
			return err
		}
	}
	for _, b := range w.builds {
		if err := s.Send(&controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_BuildResult{BuildResult: b}}); err != nil {
			return err
		}
	}
	w.builds = nil
	return nil
}

func (w *Worker) advance(s stream, p *proc, t *attempt, hold int32) error {
	if t.state == jobpb.SubtaskState_SUBTASK_SCHEDULED {
		w.become(p, t, jobpb.SubtaskState_SUBTASK_RUNNING)
	}
	if t.state != jobpb.SubtaskState_SUBTASK_RUNNING {
		return nil
	}
	if ready, lost := w.readStored(p, t); len(lost) > 0 {
		w.lose(p, t, lost)
		return nil
	} else if !ready {
		return nil
	}
	w.progress(p, t)
	if !t.found {
		t.found = true
		for _, op := range t.d.Enumerate {
			d := &taskpb.SplitsDiscovered{Operator: op, Region: t.d.Region, RegionEpoch: t.d.RegionEpoch, End: p.plan.Graph.Operators[op].Bounded}
			for i := range 4 * p.plan.Chains[t.d.Chain].Parallelism {
				d.Splits = append(d.Splits, &jobpb.Split{Id: fmt.Sprint("s", i)})
			}
			w.report(p.key, p.epoch, &controlpb.Report{Fact: &controlpb.Report_Splits{Splits: d}})
		}
	}
	head := p.plan.Chains[t.d.Chain].Operators[0]
	if len(p.plan.Graph.Operators[head].Inputs) == 0 && !t.end {
		if t.asked {
			return nil
		}
		t.asked = true
		return s.Send(&controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_Report{Report: &controlpb.Report{
			Job: p.key.job, JobEpoch: p.epoch, Process: p.key.number,
			Fact: &controlpb.Report_SplitRequest{SplitRequest: &taskpb.SplitRequest{
				Operator: head, Chain: t.d.Chain, Index: t.d.Index, Attempt: t.d.Attempt, Region: t.d.Region, RegionEpoch: t.d.RegionEpoch,
				Have: int32(len(t.splits)),
			}},
		}}})
	}
	if t.d.Chain < hold {
		w.become(p, t, jobpb.SubtaskState_SUBTASK_FINISHED)
	}
	return nil
}

func (w *Worker) obey(m *controlpb.CoordinatorMessage) {
	switch v := m.Message.(type) {
	case *controlpb.CoordinatorMessage_Ack:
		for len(w.outbox) > 0 && w.outbox[0].Sequence <= v.Ack.Sequence {
			w.outbox = w.outbox[1:]
			w.sent = max(w.sent-1, 0)
		}
	case *controlpb.CoordinatorMessage_Build:
		w.builds = append(w.builds, w.build(v.Build))
	case *controlpb.CoordinatorMessage_Deploy:
		w.deploy(v.Deploy.Deployment)
	case *controlpb.CoordinatorMessage_Cancel:
		w.cancel(v.Cancel)
	case *controlpb.CoordinatorMessage_Commit:
		w.commit(v.Commit)
	case *controlpb.CoordinatorMessage_Release:
		w.release(v.Release)
	case *controlpb.CoordinatorMessage_AssignSplits:
		w.assign(v.AssignSplits)
	case *controlpb.CoordinatorMessage_OpenGate:
		w.openGate(v.OpenGate)
	case *controlpb.CoordinatorMessage_DropPartitions:
		w.dropPartitions(v.DropPartitions)
	}
}

// build answers with a job that reads splits, exchanges by key and writes.
func (w *Worker) build(b *controlpb.RequestBuild) *controlpb.BuildResult {
	result := &controlpb.BuildResult{Job: b.Job, Build: b.Build, Protocol: w.opts.Protocol, Failure: w.opts.BuildFails}
	switch {
	case result.Failure != nil:
	case w.opts.Graph != nil:
		result.Built = &taskpb.Built{Graph: w.opts.Graph}
	default:
		result.Built = &taskpb.Built{Output: "built\n", Graph: &jobpb.Graph{Name: b.Spec.Name, Operators: []*jobpb.Operator{
			{Id: "in", Kind: "source", Bounded: true, Parallelism: w.opts.Parallelism},
			{Id: "out", Kind: "sink", Bounded: true, Parallelism: w.opts.Parallelism, Guarantee: jobpb.Guarantee_GUARANTEE_EXACTLY_ONCE,
				Inputs: []*jobpb.Input{{Operator: 0, Partitioner: jobpb.Partitioner_PARTITIONER_HASH, Exchange: w.opts.Exchange}}},
		}}}
	}
	return result
}

func (w *Worker) deploy(d *taskpb.Deployment) {
	key := procKey{d.Job, d.Process}
	p := w.procs[key]
	if p == nil {
		p = &proc{key: key, plan: d.Plan, locations: make(map[[2]int32]*taskpb.Location)}
		w.procs[key] = p
	}
	if d.JobEpoch < p.epoch {
		return
	}
	p.epoch = d.JobEpoch
	for _, l := range d.Locations {
		if old := p.locations[[2]int32{l.Chain, l.Index}]; old == nil || old.Attempt <= l.Attempt {
			p.locations[[2]int32{l.Chain, l.Index}] = l
		}
	}
	for _, sd := range d.Subtasks {
		known := slices.ContainsFunc(p.tasks, func(t *attempt) bool {
			return t.d.Chain == sd.Chain && t.d.Index == sd.Index && t.d.Attempt >= sd.Attempt
		})
		if !known {
			p.tasks = append(p.tasks, &attempt{d: sd, state: jobpb.SubtaskState_SUBTASK_SCHEDULED})
		}
	}
}

func (w *Worker) cancel(c *taskpb.Cancel) {
	for _, p := range w.procs {
		if p.key.job != c.Job || c.JobEpoch < p.epoch {
			continue
		}
		for _, t := range p.tasks {
			meant := len(c.Regions) == 0 || slices.ContainsFunc(c.Regions, func(r *taskpb.RegionEpoch) bool {
				return r.Region == t.d.Region && t.d.RegionEpoch <= r.Epoch
			})
			if meant && active(t.state) {
				w.become(p, t, jobpb.SubtaskState_SUBTASK_CANCELLED)
			}
		}
	}
}

func (w *Worker) commit(c *taskpb.Commit) {
	key := procKey{c.Job, c.Process}
	if w.procs[key] == nil {
		w.absent(key)
		return
	}
	w.mu.Lock()
	for _, x := range c.Committables {
		if !c.Abort && !slices.Contains(w.mu.outputs[c.Job], string(x.Data)) {
			w.mu.outputs[c.Job] = append(w.mu.outputs[c.Job], string(x.Data))
		}
	}
	w.mu.Unlock()
	w.report(key, c.JobEpoch, &controlpb.Report{Fact: &controlpb.Report_Commit{Commit: &taskpb.CommitResult{
		Job: c.Job, JobEpoch: c.JobEpoch, Process: c.Process, Checkpoint: c.Checkpoint,
	}}})
}

func (w *Worker) release(r *controlpb.Release) {
	key := procKey{r.Job, r.Process}
	p := w.procs[key]
	if p == nil {
		w.absent(key)
		return
	}
	delete(w.procs, key)
	w.report(key, p.epoch, &controlpb.Report{Fact: &controlpb.Report_Exit{Exit: &controlpb.ProcessExit{Reason: "released: " + r.Reason}}})
}

func (w *Worker) absent(key procKey) {
	w.report(key, 0, &controlpb.Report{Fact: &controlpb.Report_Exit{Exit: &controlpb.ProcessExit{
		Code: -1, Reason: "no such process", Kind: jobpb.FailureKind_FAILURE_LOSS,
	}}})
}

func (w *Worker) assign(m *taskpb.AssignSplits) {
	p := w.procs[procKey{m.Job, m.Process}]
	if p == nil {
		return
	}
	for _, t := range p.tasks {
		if t.d.Chain != m.Chain || t.d.Index != m.Index || t.d.Attempt != m.Attempt || int(m.Offset) > len(t.splits) {
			continue
		}
		for i, x := range m.Splits {
			if int(m.Offset)+i == len(t.splits) {
				t.splits = append(t.splits, x.Id)
			}
		}
		// Nothing to read for now: it asks again with the next heartbeat.
		t.end, t.asked = t.end || m.End, len(m.Splits) == 0 && !m.End
	}
}
