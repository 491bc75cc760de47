package state

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sluiceio/sluice/coordinator/region"
	"github.com/sluiceio/sluice/coordinator/state/results"
	"github.com/sluiceio/sluice/coordinator/state/vector"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// CodeBadResults is the code of a failure of an attempt that finished with other stored results than the plan says.
const CodeBadResults = "E130"

// Results counts what the producers of a BLOCKING edge have stored.
type Results = results.Results

func (j *Job) count(s *jobpb.Subtask, delta int) {
	for _, p := range s.Partitions {
		j.results[p.Edge].Count(p, delta)
	}
}

// Results of an edge, zero if it is PIPELINED or the plan has none such. STORED is what the facts say: whether the worker
// is there, and has it, is for whoever asks to know.
func (j *Job) Results(edge int32) Results {
	if edge < 0 || int(edge) >= len(j.results) {
		return Results{}
	}
	return j.results[edge]
}

// Partition is what the newest attempt of a producer stored for an edge; nil if it has not finished, or there is no such
// edge or producer.
func (j *Job) Partition(edge, producer int32) *jobpb.Partition {
	if j.plan == nil || !j.plan.Blocking(edge) {
		return nil
	}
	return partitionOf(j.Subtask(j.Plan().Edges[edge].FromChain, producer), edge)
}

func partitionOf(s *jobpb.Subtask, edge int32) *jobpb.Partition {
	for _, p := range s.GetPartitions() {
		if p.Edge == edge {
			return p
		}
	}
	return nil
}

// Needs tells which results may still be read. It costs one pass over the subtasks.
func (j *Job) Needs() *region.Needs { return needs(j.plan.Layout, j.regions) }

func needs(l *region.Layout, regions vector.Vec[regionRecord]) *region.Needs {
	return region.Need(l, func(i int32) bool {
		r := regions.At(int(i))
		return r.finished == r.size
	})
}

// takePartitions checks the stored results with which an attempt finished: one for each BLOCKING edge that leaves its
// chain, made by itself. Anything else is a fault of the worker or of the job's runtime that would show up much later, as
// wrong output; so it fails the job at once.
func (e *jobEdit) takePartitions(u *taskpb.SubtaskUpdate) ([]*jobpb.Partition, *jobpb.Failure) {
	out := e.j.plan.Out(u.Chain)
	bad := func(format string, args ...any) ([]*jobpb.Partition, *jobpb.Failure) {
		return nil, &jobpb.Failure{Kind: jobpb.FailureKind_FAILURE_FATAL, Code: CodeBadResults, Message: fmt.Sprintf("stored results of subtask %d[%d]: ", u.Chain, u.Index) + fmt.Sprintf(format, args...)}
	}
	if len(u.Partitions) != len(out) {
		return bad("%d, the plan has %d BLOCKING edges behind it", len(u.Partitions), len(out))
	}
	ps := slices.Clone(u.Partitions)
	slices.SortFunc(ps, func(a, b *jobpb.Partition) int { return cmp.Compare(a.GetEdge(), b.GetEdge()) })
	for i, p := range ps {
		if err := p.Validate(); err != nil {
			return bad("%v", err)
		}
		switch {
		case p.Edge != out[i]:
			return bad("one for edge %d, not for edge %d", p.Edge, out[i])
		case p.State != jobpb.PartitionState_PARTITION_STORED:
			return bad("the one for edge %d is %s", p.Edge, p.State)
		case p.Attempt != u.Attempt || p.RegionEpoch != u.RegionEpoch:
			return bad("the one for edge %d is of attempt %d in epoch %d, not of attempt %d in epoch %d", p.Edge, p.Attempt, p.RegionEpoch, u.Attempt, u.RegionEpoch)
		}
	}
	return ps, nil
}

// producer is the position of the subtask that a reference names.
func (e *jobEdit) producer(ref *jobpb.PartitionRef) (int, bool) {
	if e.j.plan == nil || !e.j.plan.Blocking(ref.GetEdge()) {
		return 0, false
	}
	return e.j.Position(e.j.Plan().Edges[ref.GetEdge()].FromChain, ref.GetProducer())
}

// moveTo brings a stored result into another state. It reports false if the reference is stale or the transition illegal.
func (e *jobEdit) moveTo(ref *jobpb.PartitionRef, to jobpb.PartitionState) bool {
	pos, ok := e.producer(ref)
	if !ok {
		return false
	}
	s := e.subtasks.At(pos)
	p := partitionOf(s, ref.Edge)
	if p == nil || p.Attempt != ref.Attempt || !slices.Contains(nextPartition[p.State], to) {
		return false
	}
	n := copySubtask(s)
	n.Partitions = slices.Clone(s.Partitions)
	n.Partitions[slices.Index(s.Partitions, p)] = inState(p, to)
	e.replace(pos, n)
	return true
}

func inState(p *jobpb.Partition, s jobpb.PartitionState) *jobpb.Partition {
	return &jobpb.Partition{Edge: p.Edge, State: s, Bytes: p.Bytes, Records: p.Records, Digest: p.Digest, RegionEpoch: p.RegionEpoch, Attempt: p.Attempt}
}

// releaseAll releases what a subtask stored.
func (e *jobEdit) releaseAll(pos int, s *jobpb.Subtask) {
	n := copySubtask(s)
	n.Partitions = make([]*jobpb.Partition, len(s.Partitions))
	for i, p := range s.Partitions {
		n.Partitions[i] = inState(p, jobpb.PartitionState_PARTITION_RELEASED)
	}
	e.replace(pos, n)
}

// lose marks results as LOST; what is said of those of other attempts is void.
func (e *jobEdit) lose(refs []*jobpb.PartitionRef) {
	for _, ref := range refs {
		if e.moveTo(ref, jobpb.PartitionState_PARTITION_LOST) {
			e.lost = append(e.lost, ref)
		}
	}
}

// readBy are those of the results that a chain reads.
func (e *jobEdit) readBy(chain int32, refs []*jobpb.PartitionRef) (read []*jobpb.PartitionRef) {
	for _, ref := range refs {
		if e.j.plan.Blocking(ref.GetEdge()) && e.j.Plan().Edges[ref.GetEdge()].ToChain == chain {
			read = append(read, ref)
		}
	}
	return read
}

// maxLostTold is how many results the history of failures names of one.
const maxLostTold = 16

// tellLost notes what this command has marked as LOST.
func (e *jobEdit) tellLost() {
	if n := len(e.lost); n > 0 {
		e.t.event(&jobpb.Event{Kind: "partitions-lost", Job: e.j.ID(), Epoch: e.j.head.Epoch, Subtasks: int32(n), Message: e.j.plan.ResultNames(e.lost)})
	}
}

// releasePartitions plans a deletion. What a region may still read stays, and so does what another attempt made meanwhile.
func (e *jobEdit) releasePartitions(c *commandpb.ReleasePartitions) Result {
	h := e.j.head
	if !e.in(jobpb.JobStatus_JOB_WAITING, jobpb.JobStatus_JOB_RUNNING, jobpb.JobStatus_JOB_RESTARTING, jobpb.JobStatus_JOB_FINISHING) {
		return e.wrongStatus()
	}
	if c.JobEpoch != h.Epoch {
		return e.stale("job epoch is %d", h.Epoch)
	}
	var need *region.Needs
	var released []*jobpb.PartitionRef
	for _, ref := range c.Partitions {
		if _, ok := e.producer(ref); !ok {
			continue
		}
		if need == nil {
			need = needs(e.j.plan.Layout, e.regions.Vec())
		}
		if !need.Partition(ref.Edge, ref.Producer) && e.moveTo(ref, jobpb.PartitionState_PARTITION_RELEASED) {
			released = append(released, ref)
		}
	}
	if len(released) == 0 {
		return e.stale("all %d results are needed, released or of other attempts", len(c.Partitions))
	}
	e.t.event(&jobpb.Event{Kind: "partitions-released", Job: h.Id, Epoch: h.Epoch, Subtasks: int32(len(released)), Message: e.j.plan.ResultNames(released)})
	r := applied(h.Id)
	r.Dropped = len(c.Partitions) - len(released)
	return r
}
