package state

import (
	"iter"

	"github.com/sluiceio/sluice/coordinator/region"
	"github.com/sluiceio/sluice/coordinator/state/outline"
	"github.com/sluiceio/sluice/coordinator/state/vector"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Job is what is known of one job: an immutable record. The plan, the subtasks and the output that waits for its commit
// are kept apart from the small facts (Head), so that a report about one subtask copies neither.
type Job struct {
	number      uint64           // N of NAME-N
	head        *jobpb.Job       // without plan, regions, subtasks, failures, committables, history and slots
	plan        *outline.Outline // nil until planned
	subtasks    vector.Vec[*jobpb.Subtask]
	regions     vector.Vec[regionRecord]
	slots       vector.Vec[slot]
	failures    []*jobpb.Failure // newest last
	history     []*jobpb.Restart // newest last
	output      []*jobpb.Committable
	outputBytes int
	sources     []*Source // by operator
	checkpoints *jobpb.Checkpoints
	results     []Results // by edge
	scheduled   uint64    // index of the last ScheduleRegions; not kept in snapshots
	counts      [jobpb.SubtaskState_SUBTASK_FINISHING + 1]int32
}

type regionRecord struct {
	state *jobpb.RegionState
	// subtasks in all, and how many have come so far
	size, running, finished int32
}

// slot is room for one subtask of each chain of a slot group.
type slot struct {
	worker      string
	incarnation uint64
	active      int32 // attempts in it that may act
	granted     bool  // counts against the worker's slots
}

// ID is the job id, NAME-N.
func (j *Job) ID() string { return j.head.Id }

// Number is N of the id: it grows by one with every job and orders them.
func (j *Job) Number() uint64 { return j.number }

// Status is the job's status.
func (j *Job) Status() jobpb.JobStatus { return j.head.Status }

// Epoch is the job epoch.
func (j *Job) Epoch() uint64 { return j.head.Epoch }

// Head is the job without plan, regions, subtasks, failures, committables, history, slots and checkpoints.
func (j *Job) Head() *jobpb.Job { return j.head }

// Plan is nil until the job was planned.
func (j *Job) Plan() *jobpb.Plan {
	if j.plan == nil {
		return nil
	}
	return j.plan.Plan()
}

// Layout is nil until the job was planned.
func (j *Job) Layout() *region.Layout {
	if j.plan == nil {
		return nil
	}
	return j.plan.Layout
}

// Region is the state of region i, nil if the plan has none such.
func (j *Job) Region(i int32) *jobpb.RegionState {
	if i < 0 || int(i) >= j.regions.Len() {
		return nil
	}
	return j.regions.At(int(i)).state
}

// Regions are in order.
func (j *Job) Regions() iter.Seq[*jobpb.RegionState] {
	return func(yield func(*jobpb.RegionState) bool) {
		for _, r := range j.regions.All() {
			if !yield(r.state) {
				return
			}
		}
	}
}

// Subtask is nil if the plan has none such.
func (j *Job) Subtask(chain, index int32) *jobpb.Subtask {
	i, ok := j.Position(chain, index)
	if !ok {
		return nil
	}
	return j.subtasks.At(i)
}

// At is the subtask at a position in [0, Size).
func (j *Job) At(position int) *jobpb.Subtask { return j.subtasks.At(position) }

// Position of a subtask among all subtasks, in the order of chains and indexes.
func (j *Job) Position(chain, index int32) (int, bool) {
	if j.plan == nil {
		return 0, false
	}
	return j.plan.Position(chain, index)
}

// Subtasks are ordered by chain, then index.
func (j *Job) Subtasks() iter.Seq[*jobpb.Subtask] {
	return func(yield func(*jobpb.Subtask) bool) {
		for _, s := range j.subtasks.All() {
			if !yield(s) {
				return
			}
		}
	}
}

// Size is the number of subtasks.
func (j *Job) Size() int { return j.subtasks.Len() }

// Count is the number of subtasks in a state.
func (j *Job) Count(s jobpb.SubtaskState) int {
	if s < 0 || int(s) >= len(j.counts) {
		return 0
	}
	return int(j.counts[s])
}

// Active is the number of subtasks whose attempt may still act.
func (j *Job) Active() int {
	return j.Count(jobpb.SubtaskState_SUBTASK_SCHEDULED) + j.Count(jobpb.SubtaskState_SUBTASK_RUNNING) + j.Count(jobpb.SubtaskState_SUBTASK_FINISHING)
}

// ScheduledAt is the index of the last ScheduleRegions: attempts are issued at no other time. Zero if it lies before the
// snapshot that this node began with.
func (j *Job) ScheduledAt() uint64 { return j.scheduled }

// SlotOf is the slot in which subtask index of a chain lives.
func (j *Job) SlotOf(chain, index int32) int { return j.plan.SlotOf(chain, index) }

// Slots is the number of slots that the whole job needs.
func (j *Job) Slots() int { return j.slots.Len() }

// Grant tells where slot i lies; ok is false while the job does not hold it.
func (j *Job) Grant(i int) (worker string, incarnation uint64, ok bool) {
	s := j.slots.At(i)
	return s.worker, s.incarnation, s.granted
}

// Failures is the bounded history, newest last.
func (j *Job) Failures() []*jobpb.Failure { return j.failures }

// History is the bounded history of restarts, newest last.
func (j *Job) History() []*jobpb.Restart { return j.history }

// Committables is prepared output that is neither confirmed nor given up, in order.
func (j *Job) Committables() []*jobpb.Committable { return j.output }

// Source is nil if the job has no such source, is not planned, or is terminal.
func (j *Job) Source(operator int32) *Source {
	for _, s := range j.sources {
		if s.Operator() == operator {
			return s
		}
	}
	return nil
}

// Sources are ordered by operator.
func (j *Job) Sources() []*Source { return j.sources }

// Proto is the whole job in one message. It shares its parts with the facts: read only. It costs one pass over the
// subtasks.
func (j *Job) Proto() *jobpb.Job {
	p := copyHead(j.head)
	p.Plan = j.Plan()
	for _, r := range j.regions.All() {
		p.Regions = append(p.Regions, r.state)
	}
	p.Subtasks = make([]*jobpb.Subtask, 0, j.subtasks.Len())
	for _, s := range j.subtasks.All() {
		p.Subtasks = append(p.Subtasks, s)
	}
	for i, s := range j.slots.All() {
		if s.granted {
			p.Slots = append(p.Slots, &jobpb.SlotGrant{Slot: int32(i), Worker: s.worker, Incarnation: s.incarnation})
		}
	}
	p.Failures, p.History, p.Committables, p.Checkpoints = j.failures, j.history, j.output, j.checkpoints
	return p
}

// copyHead copies the scalar facts of a job; nested messages are shared, since they are never changed in place.
func copyHead(h *jobpb.Job) *jobpb.Job {
	return &jobpb.Job{
		Id: h.Id, Spec: h.Spec, RequestId: h.RequestId, Status: h.Status, Desired: h.Desired, Epoch: h.Epoch,
		Failure: h.Failure, Restarts: h.Restarts, Losses: h.Losses, Message: h.Message, CreatedUs: h.CreatedUs,
		StartedUs: h.StartedUs, EndedUs: h.EndedUs, RestartAtUs: h.RestartAtUs, Planner: h.Planner,
		PlanAttempt: h.PlanAttempt, Revision: h.Revision, Committer: h.Committer, Rescale: h.Rescale,
	}
}

func copySubtask(s *jobpb.Subtask) *jobpb.Subtask {
	return &jobpb.Subtask{
		Chain: s.Chain, Index: s.Index, Attempt: s.Attempt, Worker: s.Worker, Incarnation: s.Incarnation,
		Process: s.Process, State: s.State, Region: s.Region, StartedUs: s.StartedUs, EndedUs: s.EndedUs,
		Counters: s.Counters, Partitions: s.Partitions, Produced: s.Produced, Loaded: s.Loaded, Settled: s.Settled,
	}
}
