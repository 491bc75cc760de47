package state

import (
	"errors"
	"strings"

	"github.com/sluiceio/sluice/coordinator/state/outline"
	"github.com/sluiceio/sluice/coordinator/state/splits"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Source is what is known of one source of a job: an immutable record, kept apart from the job.
type Source = splits.Source

// Bounds of one source.
const (
	MaxSourceBytes = splits.MaxBytes
	MaxSplits      = splits.Max
)

func newSource(job string, p *outline.Outline, operator int32) *Source {
	chain := p.ChainOf(operator)
	return splits.New(job, splits.Place{
		Operator: operator, Chain: chain, Region: p.Of(int(p.First(chain))), Bounded: p.Plan().Graph.Operators[operator].Bounded,
		Readers: p.Plan().Chains[chain].Parallelism,
	})
}

func (e *jobEdit) addSplits(c *commandpb.AddSplits) Result {
	s, r := e.openSource(c.JobEpoch, c.Operator)
	if s != nil {
		r = e.enumerates(s, c.RegionEpoch)
	}
	if r.Status != Applied {
		return r
	}
	if s.Complete() || int(c.Offset) != s.Len() {
		return e.stale("source %d has %d splits already, complete: %t", c.Operator, s.Len(), s.Complete())
	}
	n, err := s.Found(c.Splits, c.Enumerator, c.End, func(x *jobpb.Split) { e.t.note(changeSplit, x) })
	if errors.Is(err, splits.ErrFull) {
		return Result{Status: Refused, Code: CodeFull, Job: e.j.ID(), Message: err.Error()}
	}
	e.setSource(n)
	return applied(e.j.ID())
}

func (e *jobEdit) assignSplits(c *commandpb.AssignSplits) Result {
	s, r := e.openSource(c.JobEpoch, c.Operator)
	if s != nil && !s.Bounded() {
		r = e.enumerates(s, c.RegionEpoch)
	}
	switch {
	case r.Status != Applied:
		return r
	case s.Bounded() && !s.Complete():
		return e.stale("source %d: not all splits are known", c.Operator)
	}
	n, given := s.Give(c.Assignments, func(a *jobpb.SplitAssignment) bool {
		t := e.j.Subtask(s.Chain(), a.Subtask)
		ok := t != nil && t.Attempt == a.Attempt && e.counts(t)
		if ok {
			e.t.note(changeAssignment, a)
		}
		return ok
	})
	if given == 0 {
		return e.stale("none of the %d splits is free, or the attempts are over", len(c.Assignments))
	}
	e.setSource(n)
	res := applied(e.j.ID())
	res.Dropped = len(c.Assignments) - given
	return res
}

// openSource is the source, or why there is none at work.
func (e *jobEdit) openSource(epoch uint64, operator int32) (*Source, Result) {
	if !e.in(jobpb.JobStatus_JOB_WAITING, jobpb.JobStatus_JOB_RUNNING, jobpb.JobStatus_JOB_RESTARTING) {
		return nil, e.wrongStatus()
	}
	if epoch != e.j.head.Epoch {
		return nil, e.stale("job epoch is %d", e.j.head.Epoch)
	}
	s := e.j.Source(operator)
	if s == nil {
		return nil, refused(CodeMalformed, "job %s has no source %d", e.j.ID(), operator)
	}
	return s, Result{Status: Applied}
}

// enumerates checks that the enumerator's region runs in the given epoch.
func (e *jobEdit) enumerates(s *Source, epoch uint64) Result {
	r := e.regions.At(int(s.Region())).state
	if r.Epoch != epoch || r.Status != jobpb.RegionStatus_REGION_SCHEDULED && r.Status != jobpb.RegionStatus_REGION_RUNNING {
		return e.stale("region %d is %s in epoch %d", s.Region(), strings.TrimPrefix(r.Status.String(), "REGION_"), r.Epoch)
	}
	return Result{Status: Applied}
}

// counts reports whether the attempt of a subtask may act, and what it does is not void.
func (e *jobEdit) counts(s *jobpb.Subtask) bool {
	return active(s.State) && s.State != jobpb.SubtaskState_SUBTASK_FINISHING && e.regions.At(int(s.Region)).state.Status != jobpb.RegionStatus_REGION_RESTARTING
}
