package state

import (
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/coordinator/state/jobid"
	"github.com/sluiceio/sluice/coordinator/state/ledger"
	"github.com/sluiceio/sluice/coordinator/state/outline"
	"github.com/sluiceio/sluice/coordinator/state/vector"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// takeJob rebuilds the record of a job and everything that is derived from it.
func (l *loader) takeJob(p *jobpb.Job) error {
	v := &l.v
	n, ok := jobid.Number(p.Id)
	if !ok || n > v.nextJob || p.Spec == nil {
		return fmt.Errorf("job %.100q has no valid number or no spec", p.Id)
	}
	if _, double := v.jobs.Get(n); double {
		return fmt.Errorf("job number %d is there twice", n)
	}
	if _, double := v.changed.Get(p.Revision); double || p.Revision > v.index {
		return fmt.Errorf("job %s has the revision %d of another job or of the future", p.Id, p.Revision)
	}
	if _, known := jobpb.JobStatus_name[int32(p.Status)]; !known || p.Status == jobpb.JobStatus_JOB_UNSPECIFIED {
		return fmt.Errorf("job %s has status %d", p.Id, p.Status)
	}
	j := &Job{number: n, head: copyHead(p), failures: p.Failures, history: p.History, output: p.Committables, checkpoints: p.Checkpoints}
	if p.Checkpoints != nil {
		if err := checkLedger(p); err != nil {
			return fmt.Errorf("job %s: %w", p.Id, err)
		}
	}
	if err := j.takePlan(p); err != nil {
		return fmt.Errorf("job %s: %w", p.Id, err)
	}
	for i, s := range j.slots.All() {
		if !s.granted {
			if s.active > 0 {
				return fmt.Errorf("job %s: attempts run in slot %d, which is not granted", p.Id, i)
			}
			continue
		}
		k := place(s.worker, s.incarnation)
		used, _ := v.used.Get(k)
		v.used = v.used.Put(k, used+1)
	}
	v.jobs = v.jobs.Put(n, j)
	v.changed = v.changed.Put(p.Revision, n)
	return nil
}

// checkLedger: a record of checkpoints names regions of the plan only.
func checkLedger(p *jobpb.Job) error {
	if p.Plan == nil && p.Spec.Origin == nil {
		return errors.New("checkpoints without a plan")
	}
	for _, r := range p.Checkpoints.GetStarted().GetRegions() {
		if r == nil || r.Region < 0 || int(r.Region) >= len(p.Plan.GetRegions()) {
			return errors.New("a checkpoint under way of a region that the plan lacks")
		}
	}
	return ledger.Check(p.Checkpoints)
}

func (j *Job) takePlan(p *jobpb.Job) error {
	if p.Plan == nil {
		if len(p.Subtasks)+len(p.Regions)+len(p.Slots)+len(p.Committables) > 0 {
			return errors.New("an execution graph without a plan")
		}
		return nil
	}
	if err := p.Plan.Validate(); err != nil {
		return err
	}
	var err error
	if j.plan, err = outline.New(p.Plan); err != nil {
		return err
	}
	j.results = make([]Results, len(p.Plan.Edges))
	if len(p.Subtasks) != j.plan.Size() || len(p.Regions) != len(p.Plan.Regions) {
		return fmt.Errorf("%d subtasks and %d regions do not fit the plan", len(p.Subtasks), len(p.Regions))
	}
	regions := vector.Make[regionRecord](len(p.Regions)).Edit()
	for i, r := range p.Regions {
		if r == nil || r.Index != int32(i) {
			return fmt.Errorf("region %d is missing or out of order", i)
		}
		regions.Set(i, regionRecord{state: r})
	}
	slots := vector.Make[slot](j.plan.Slots()).Edit()
	for _, g := range p.Slots {
		if g == nil || g.Slot < 0 || int(g.Slot) >= slots.Len() || slots.At(int(g.Slot)).granted {
			return errors.New("a slot grant that does not fit the plan")
		}
		slots.Set(int(g.Slot), slot{worker: g.Worker, incarnation: g.Incarnation, granted: true})
	}
	j.subtasks = vector.Make[*jobpb.Subtask](len(p.Subtasks))
	if err := j.takeSubtasks(p, &regions, &slots); err != nil {
		return err
	}
	j.regions, j.slots = regions.Vec(), slots.Vec()
	return j.takeOutput()
}

func (j *Job) takeSubtasks(p *jobpb.Job, regions *vector.Edit[regionRecord], slots *vector.Edit[slot]) error {
	subtasks := j.subtasks.Edit()
	pos := 0
	for c, chain := range p.Plan.Chains {
		for i := range chain.Parallelism {
			s := p.Subtasks[pos]
			if s == nil || s.Chain != int32(c) || s.Index != i || s.Region != j.plan.Of(pos) || s.State < jobpb.SubtaskState_SUBTASK_CREATED || int(s.State) >= len(j.counts) {
				return fmt.Errorf("subtask %d does not fit the plan", pos)
			}
			if err := j.takePartitions(s); err != nil {
				return err
			}
			subtasks.Set(pos, s)
			j.counts[s.State]++
			j.count(s, +1)
			r := regions.At(int(s.Region))
			r.size++
			r.count(s.State, +1)
			regions.Set(int(s.Region), r)
			if active(s.State) {
				sl := slots.At(j.SlotOf(s.Chain, s.Index))
				sl.active++
				slots.Set(j.SlotOf(s.Chain, s.Index), sl)
			}
			pos++
		}
	}
	j.subtasks = subtasks.Vec()
	return nil
}

func (j *Job) takeOutput() error {
	for _, c := range j.output {
		if err := c.Validate(); err != nil {
			return err
		}
		if _, ok := j.plan.Writer(c.Sink, c.Subtask); !ok {
			return fmt.Errorf("output of %.100q[%d], which is not in the plan", c.Sink, c.Subtask)
		}
		j.outputBytes += outputSize(c)
	}
	return nil
}

// takePartitions checks the results of a subtask: those of a finished one are whole, no other has any.
func (j *Job) takePartitions(s *jobpb.Subtask) error {
	out := j.plan.Out(s.Chain)
	if s.State != jobpb.SubtaskState_SUBTASK_FINISHED {
		out = nil
	}
	if len(s.Partitions) != len(out) {
		return fmt.Errorf("subtask %d[%d] has %d results, not %d", s.Chain, s.Index, len(s.Partitions), len(out))
	}
	for i, p := range s.Partitions {
		if err := p.Validate(); err != nil {
			return fmt.Errorf("subtask %d[%d]: %w", s.Chain, s.Index, err)
		}
		if p.Edge != out[i] || p.Attempt != s.Attempt {
			return fmt.Errorf("subtask %d[%d]: a result for edge %d of attempt %d", s.Chain, s.Index, p.Edge, p.Attempt)
		}
	}
	return nil
}

// takeSource attaches the record of a source to its job, which comes before it.
func (l *loader) takeSource(p *jobpb.SourceState) error {
	j := l.v.Job(p.Job)
	if j == nil || j.plan == nil || p.Operator < 0 || int(p.Operator) >= len(j.Plan().Graph.Operators) || j.Source(p.Operator) != nil {
		return fmt.Errorf("source %d of job %.100q: no such job or operator, or it is there twice", p.Operator, p.Job)
	}
	s, err := newSource(p.Job, j.plan, p.Operator).Load(p)
	if err != nil {
		return err
	}
	next := *j
	next.sources = append(j.sources[:len(j.sources):len(j.sources)], s)
	l.v.jobs = l.v.jobs.Put(j.number, &next)
	return nil
}
