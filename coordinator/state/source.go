package state

import (
	"fmt"
	"strings"

	"github.com/sluiceio/sluice/coordinator/state/vector"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Source is what is known of one source of a job: the splits that its enumerator found and which subtask reads which.
// An immutable record, kept apart from the job. Splits are given away in the order in which they were found, so those
// that have an owner are always the first ones.
//
// The splits of a bounded source are given away when all are known, and for good: an attempt that runs again reads those
// of the one before it. So what it stored can be made again. An endless source gives them away as they come, and takes
// all back when its region restarts.
type Source struct {
	job         string
	operator    int32
	bounded     bool
	chain       int32
	region      int32
	regionEpoch uint64
	complete    bool
	enumerator  []byte // its state behind the last split; empty: it has none
	bytes       int    // of all splits
	splits      vector.Vec[*jobpb.Split]
	owners      vector.Vec[*jobpb.SplitAssignment] // of the first owners.Len() splits
	of          vector.Vec[[]int32]                // by subtask: its splits, in order
}

// Operator is the index of the source in the graph, Chain that of its chain in the plan.
func (s *Source) Operator() int32 { return s.operator }

// Chain is the chain that reads the source.
func (s *Source) Chain() int32 { return s.chain }

// Bounded reports whether the source ends.
func (s *Source) Bounded() bool { return s.bounded }

// Region is the region of the subtask 0 of that chain, where the enumerator runs.
func (s *Source) Region() int32 { return s.region }

// RegionEpoch is the epoch of that region: what an enumerator of another one found is void.
func (s *Source) RegionEpoch() uint64 { return s.regionEpoch }

// Complete reports whether the enumerator reached its end.
func (s *Source) Complete() bool { return s.complete }

// Enumerator is the state of the enumerator behind the last split; empty: it said none.
func (s *Source) Enumerator() []byte { return s.enumerator }

// Len is the number of splits found so far.
func (s *Source) Len() int { return s.splits.Len() }

// Bytes is the size of all splits together, as it is bounded by MaxSourceBytes.
func (s *Source) Bytes() int { return s.bytes }

// Split is the split with index i.
func (s *Source) Split(i int) *jobpb.Split { return s.splits.At(i) }

// Assigned is the number of splits that have an owner: the first ones.
func (s *Source) Assigned() int { return s.owners.Len() }

// Of are the splits of a subtask, in the order of assignment.
func (s *Source) Of(subtask int32) []int32 {
	if subtask < 0 || int(subtask) >= s.of.Len() {
		return nil
	}
	return s.of.At(int(subtask))
}

// Readers is the parallelism of the source.
func (s *Source) Readers() int { return s.of.Len() }

// Proto is the source in one message.
func (s *Source) Proto() *jobpb.SourceState {
	p := s.head()
	p.Enumerator = s.enumerator
	for _, x := range s.splits.All() {
		p.Splits = append(p.Splits, x)
	}
	for _, a := range s.owners.All() {
		p.Assignments = append(p.Assignments, a)
	}
	return p
}

func (s *Source) head() *jobpb.SourceState {
	return &jobpb.SourceState{Job: s.job, Operator: s.operator, Region: s.region, RegionEpoch: s.regionEpoch, Complete: s.complete}
}

func newSource(job string, p *planned, operator int32) *Source {
	chain := chainOf(p.Plan(), operator)
	return &Source{
		job: job, operator: operator, bounded: p.Plan().Graph.Operators[operator].Bounded, chain: chain,
		region: p.Of(int(p.First(chain))), regionEpoch: 1, of: vector.Make[[]int32](int(p.Plan().Chains[chain].Parallelism)),
	}
}

// restarted is the source in a new epoch of its enumerator's region. The splits of an unfinished enumeration are
// forgotten: the next enumerator starts from nothing and need not find things in the same order. Of a bounded source none
// of them has been read, and assignments stay; of an endless one they end.
func (s *Source) restarted(epoch uint64) *Source {
	n := *s
	n.regionEpoch = epoch
	if !n.bounded {
		n.owners = vector.Vec[*jobpb.SplitAssignment]{}
		n.of = vector.Make[[]int32](s.of.Len())
	}
	if !n.complete {
		n.splits, n.bytes, n.enumerator = vector.Vec[*jobpb.Split]{}, 0, nil
	}
	return &n
}

// resumed is the source in a new epoch of a region that starts from a checkpoint: everything is kept, since readers know their
// positions and the enumerator goes on behind the last split.
func (s *Source) resumed(epoch uint64) *Source {
	n := *s
	n.regionEpoch = epoch
	return &n
}

func (e *jobEdit) addSplits(c *commandpb.AddSplits) Result {
	s, r := e.openSource(c.JobEpoch, c.Operator)
	if s != nil {
		r = e.enumerates(s, c.RegionEpoch)
	}
	if r.Status != Applied {
		return r
	}
	if s.complete || int(c.Offset) != s.splits.Len() {
		return e.stale("source %d has %d splits already, complete: %t", c.Operator, s.splits.Len(), s.complete)
	}
	n := *s
	edit := n.splits.Edit()
	for _, x := range c.Splits {
		edit.Push(x)
		n.bytes += len(x.Data) + len(x.Id)
		e.t.note(changeSplit, x)
	}
	n.splits, n.complete = edit.Vec(), c.End
	if len(c.Enumerator) > 0 {
		n.enumerator = c.Enumerator
	}
	if n.splits.Len() > MaxSplits || n.bytes > MaxSourceBytes {
		return Result{Status: Refused, Code: CodeFull, Job: e.j.ID(), Message: fmt.Sprintf("source %d: %d splits with %d bytes; at most %d with %d MiB can be kept",
			c.Operator, n.splits.Len(), n.bytes, MaxSplits, MaxSourceBytes>>20)}
	}
	e.setSource(&n)
	return applied(e.j.ID())
}

func (e *jobEdit) assignSplits(c *commandpb.AssignSplits) Result {
	s, r := e.openSource(c.JobEpoch, c.Operator)
	if s != nil && !s.bounded {
		r = e.enumerates(s, c.RegionEpoch)
	}
	switch {
	case r.Status != Applied:
		return r
	case s.bounded && !s.complete:
		return e.stale("source %d: not all splits are known", c.Operator)
	}
	n, dropped := *s, 0
	owners, of := n.owners.Edit(), n.of.Edit()
	for _, a := range c.Assignments {
		t := e.j.Subtask(s.chain, a.Subtask)
		if t == nil || t.Attempt != a.Attempt || !e.counts(t) || int(a.Split) != owners.Len() || int(a.Split) >= s.splits.Len() {
			dropped++
			continue
		}
		owners.Push(a)
		mine := of.At(int(a.Subtask))
		of.Set(int(a.Subtask), append(mine[:len(mine):len(mine)], a.Split))
		e.t.note(changeAssignment, a)
	}
	if dropped == len(c.Assignments) {
		return e.stale("none of the %d splits is free, or the attempts are over", dropped)
	}
	n.owners, n.of = owners.Vec(), of.Vec()
	e.setSource(&n)
	res := applied(e.j.ID())
	res.Dropped = dropped
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
	r := e.regions.At(int(s.region)).state
	if r.Epoch != epoch || r.Status != jobpb.RegionStatus_REGION_SCHEDULED && r.Status != jobpb.RegionStatus_REGION_RUNNING {
		return e.stale("region %d is %s in epoch %d", s.region, strings.TrimPrefix(r.Status.String(), "REGION_"), r.Epoch)
	}
	return Result{Status: Applied}
}

// counts reports whether the attempt of a subtask may act, and what it does is not void.
func (e *jobEdit) counts(s *jobpb.Subtask) bool {
	return active(s.State) && s.State != jobpb.SubtaskState_SUBTASK_FINISHING && e.regions.At(int(s.Region)).state.Status != jobpb.RegionStatus_REGION_RESTARTING
}
