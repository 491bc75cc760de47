package state

import (
	"fmt"
	"slices"

	"github.com/sluiceio/sluice/coordinator/state/ledger"
	"github.com/sluiceio/sluice/coordinator/state/status"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// schedule grants slots to whole regions and issues the attempts and process numbers, or nothing at all.
func (e *jobEdit) schedule(c *commandpb.ScheduleRegions) Result {
	h := e.j.head
	if !e.in(jobpb.JobStatus_JOB_WAITING, jobpb.JobStatus_JOB_RUNNING, jobpb.JobStatus_JOB_RESTARTING) {
		return e.wrongStatus()
	}
	if _, stopped := e.j.Switching(); c.JobEpoch != h.Epoch || stopped {
		return e.stale("job epoch is %d, or another plan takes over", h.Epoch)
	}
	g := &granting{e: e, in: make([]bool, e.regions.Len()), taken: make([]bool, e.subtasks.Len()), places: make([]*commandpb.Assignment, e.slots.Len())}
	if r := g.check(c); r.Status != Applied {
		return r
	}
	g.perform(c)
	e.j.scheduled = e.t.index
	e.become(jobpb.JobStatus_JOB_RUNNING)
	if h.Message, h.RestartAtUs = "", e.backOff(); h.StartedUs == 0 {
		h.StartedUs = e.t.now
	}
	e.tellScheduled(c)
	return applied(h.Id)
}

// tellScheduled notes which regions were given attempts.
func (e *jobEdit) tellScheduled(c *commandpb.ScheduleRegions) {
	regions := make([]int32, len(c.Regions))
	for i, r := range c.Regions {
		regions[i] = r.Region
	}
	e.event("job-running", fmt.Sprintf("%d regions, %d subtasks: %s", len(c.Regions), len(c.Assignments), e.j.plan.SubtaskNames(regions)))
}

// granting is one ScheduleRegions at work.
type granting struct {
	e       *jobEdit
	in      []bool                  // by region: it is to be scheduled
	taken   []bool                  // by position of a subtask: it has an assignment
	places  []*commandpb.Assignment // by slot: where it comes to lie
	workers []*commandpb.Assignment // one per worker, in order of appearance
}

func (g *granting) check(c *commandpb.ScheduleRegions) Result {
	e, size := g.e, 0
	for _, r := range c.Regions {
		if r.Region < 0 || int(r.Region) >= len(g.in) {
			return refused(CodeMalformed, "job %s has no region %d", e.j.ID(), r.Region)
		}
		rec := e.regions.At(int(r.Region))
		if r.Epoch != rec.state.Epoch {
			return e.stale("region %d is in epoch %d", r.Region, rec.state.Epoch)
		}
		if s := rec.state.Status; s != jobpb.RegionStatus_REGION_CREATED && s != jobpb.RegionStatus_REGION_RESTARTING {
			return e.stale("region %d is scheduled", r.Region)
		}
		if e.t.now < rec.state.RestartAtUs {
			return e.stale("the back-off of region %d has not ended", r.Region)
		}
		g.in[r.Region] = true
		size += int(rec.size)
		if rec.state.Restore > 0 {
			size -= int(rec.finished) // the checkpoint contains their ends
		}
	}
	if len(c.Assignments) != size {
		return refused(CodeMalformed, "%d assignments for %d subtasks: regions are scheduled whole", len(c.Assignments), size)
	}
	for _, a := range c.Assignments {
		if r := g.checkAssignment(a); r.Status != Applied {
			return r
		}
	}
	return g.checkSlots()
}

func (g *granting) checkAssignment(a *commandpb.Assignment) Result {
	e := g.e
	pos, ok := e.j.Position(a.Chain, a.Index)
	if !ok || g.taken[pos] || !g.in[e.j.plan.Of(pos)] {
		return refused(CodeMalformed, "subtask %d[%d] does not exist, is assigned twice or is in another region", a.Chain, a.Index)
	}
	if s := e.subtasks.At(pos); s.State == jobpb.SubtaskState_SUBTASK_FINISHED && e.regions.At(int(s.Region)).state.Restore > 0 {
		return e.stale("subtask %d[%d] has finished", a.Chain, a.Index)
	}
	g.taken[pos] = true
	if !e.t.Alive(a.Worker, a.Incarnation) {
		return e.stale("worker %s is not alive in incarnation %d", a.Worker, a.Incarnation)
	}
	if e.t.Worker(a.Worker).Draining {
		return e.stale("worker %s is draining", a.Worker)
	}
	i := e.j.SlotOf(a.Chain, a.Index)
	if p := g.places[i]; p != nil && p.Worker != a.Worker {
		return refused(CodeMalformed, "slot %d is put on two workers", i)
	}
	if g.places[i] == nil {
		g.places[i] = a
	}
	return Result{Status: Applied}
}

// checkSlots counts what the assignments take from each worker and give back.
func (g *granting) checkSlots() Result {
	e, delta, known := g.e, map[string]int32{}, map[string]bool{}
	held := g.heldByOthers()
	for i, a := range g.places {
		if a == nil {
			continue
		}
		if !known[a.Worker] {
			known[a.Worker] = true
			g.workers = append(g.workers, a)
		}
		s := e.slots.At(i)
		if s.granted && s.worker == a.Worker && s.incarnation == a.Incarnation {
			continue
		}
		if held[i] {
			return e.stale("slot %d lies on worker %s, where other regions run in it", i, s.worker)
		}
		delta[a.Worker]++
		if s.granted && e.t.Alive(s.worker, s.incarnation) {
			delta[s.worker]--
		}
	}
	for _, a := range g.workers {
		w := e.t.Worker(a.Worker)
		if free := w.Slots - int32(e.t.UsedSlots(a.Worker)); delta[a.Worker] > free {
			return e.stale("worker %s has %d free slots, not %d", a.Worker, max(free, 0), delta[a.Worker])
		}
	}
	return Result{Status: Applied}
}

// heldByOthers tells which slots hold an attempt of a region that is not being scheduled.
func (g *granting) heldByOthers() []bool {
	held := make([]bool, len(g.places))
	for pos, s := range g.e.subtasks.All() {
		if !g.taken[pos] && active(s.State) {
			held[g.e.j.SlotOf(s.Chain, s.Index)] = true
		}
	}
	return held
}

func (g *granting) perform(c *commandpb.ScheduleRegions) {
	e := g.e
	for i, a := range g.places {
		if a != nil {
			e.grant(i, a.Worker, a.Incarnation)
		}
	}
	process := g.processes(c.Keep)
	for _, a := range c.Assignments {
		pos, _ := e.j.Position(a.Chain, a.Index)
		n := copySubtask(e.subtasks.At(pos))
		n.Attempt++
		n.Worker, n.Incarnation, n.Process = a.Worker, a.Incarnation, process[a.Worker]
		n.State, n.StartedUs, n.EndedUs = jobpb.SubtaskState_SUBTASK_SCHEDULED, 0, 0
		forget(n)
		e.replace(pos, n)
	}
	for _, r := range c.Regions {
		old := e.regions.At(int(r.Region)).state
		n := &jobpb.RegionState{Index: r.Region, Epoch: r.Epoch, Status: jobpb.RegionStatus_REGION_SCHEDULED, Reordered: old.Reordered, Restore: ledger.Renew(e.j.checkpoints, old.Restore)}
		e.putRegion(n)
	}
}

// processes are the numbers of the task processes. Other regions of the job that run on a worker share theirs;
// otherwise a fresh process starts, so that nothing which an earlier attempt left behind can disturb the next.
func (g *granting) processes(keep []string) map[string]uint64 {
	e, number := g.e, make(map[string]uint64, len(g.workers))
	for pos, s := range e.subtasks.All() {
		if !g.taken[pos] && active(s.State) && e.t.Alive(s.Worker, s.Incarnation) {
			number[s.Worker] = s.Process
		}
	}
	if len(keep) > 0 && g.rewinds() {
		for pos, s := range e.subtasks.All() {
			if g.taken[pos] && active(s.State) && number[s.Worker] == 0 && slices.Contains(keep, s.Worker) && e.t.Alive(s.Worker, s.Incarnation) {
				number[s.Worker] = s.Process
			}
		}
	}
	for _, a := range g.workers {
		if number[a.Worker] == 0 {
			e.t.nextProcess++
			number[a.Worker] = e.t.nextProcess
		}
	}
	return number
}

// rewinds reports whether all regions that are scheduled start from a checkpoint.
func (g *granting) rewinds() bool {
	for i, in := range g.in {
		if in && g.e.regions.At(i).state.Restore == 0 {
			return false
		}
	}
	return true
}

// update folds reports of attempts into the execution graph. The number of an attempt is never used twice, so it alone
// says whether a report concerns the attempt that is known; epochs then say whether the attempt still counts.
func (e *jobEdit) update(c *commandpb.UpdateSubtasks) Result {
	h := e.j.head
	if !e.in(jobpb.JobStatus_JOB_WAITING, jobpb.JobStatus_JOB_RUNNING, jobpb.JobStatus_JOB_RESTARTING) && !status.Ending(e.j.head.Status) {
		return e.wrongStatus()
	}
	if c.JobEpoch > h.Epoch {
		return e.stale("job epoch is %d", h.Epoch)
	}
	dropped := 0
	var touched []int32
	for _, u := range c.Updates {
		if !e.updateOne(u) {
			dropped++
			continue
		}
		touched = append(touched, e.j.plan.Of(int(e.j.plan.First(u.Chain)+u.Index)))
	}
	if len(touched) == 0 {
		return e.stale("all %d reports are of attempts that are over", dropped)
	}
	var done []int32
	slices.Sort(touched)
	for _, i := range slices.Compact(touched) {
		if e.settleRegion(int(i)) == jobpb.RegionStatus_REGION_FINISHED {
			done = append(done, i)
		}
	}
	if len(done) > 0 && e.regions.Len() > 1 { // of a job with one region it goes without saying
		e.event("regions-finished", e.j.plan.SubtaskNames(done))
	}
	e.tellLost()
	e.finishing()
	r := applied(h.Id)
	r.Dropped = dropped
	return r
}

// finishing moves the job on when its last subtask has finished.
func (e *jobEdit) finishing() {
	if e.in(jobpb.JobStatus_JOB_RUNNING) && int(e.j.counts[jobpb.SubtaskState_SUBTASK_FINISHED]) == e.subtasks.Len() {
		e.become(jobpb.JobStatus_JOB_FINISHING)
		e.event("job-finishing", fmt.Sprintf("%d parts of output to commit", len(e.j.output)))
	}
}

// updateOne reports whether the update changed anything.
func (e *jobEdit) updateOne(u *taskpb.SubtaskUpdate) bool {
	pos, ok := e.j.Position(u.Chain, u.Index)
	if !ok {
		return false
	}
	s := e.subtasks.At(pos)
	if s.Attempt != u.Attempt || u.Attempt == 0 || !active(s.State) {
		return false
	}
	region := e.regions.At(int(s.Region)).state
	if u.RegionEpoch > region.Epoch {
		return false
	}
	ending := status.Ending(e.j.head.Status)
	fenced := u.RegionEpoch < region.Epoch || region.Status == jobpb.RegionStatus_REGION_RESTARTING || ending && e.checkpointed(s.Region)
	n := copySubtask(s)
	switch u.State {
	case jobpb.SubtaskState_SUBTASK_RUNNING:
		return !fenced && s.State != jobpb.SubtaskState_SUBTASK_FINISHING && e.progress(pos, s, u)
	case jobpb.SubtaskState_SUBTASK_FINISHING:
		return !fenced && !ending && e.checkpointed(s.Region) && e.progress(pos, s, u)
	case jobpb.SubtaskState_SUBTASK_FINISHED, jobpb.SubtaskState_SUBTASK_FAILED, jobpb.SubtaskState_SUBTASK_CANCELLED:
		n.State, n.EndedUs, n.Counters = u.State, e.t.now, u.Counters
	default:
		return false
	}
	if u.State == jobpb.SubtaskState_SUBTASK_FINISHED && !fenced && !ending && e.checkpointed(s.Region) {
		return false // an end holds only relative to a checkpoint (PROTOCOL 9)
	}
	failure := u.Failure
	switch {
	case fenced:
		n.State = jobpb.SubtaskState_SUBTASK_CANCELLED // whatever it says of itself, its work is void
	case u.State == jobpb.SubtaskState_SUBTASK_FINISHED:
		if n.Partitions, failure = e.takePartitions(u); failure == nil {
			failure = e.takeOutput(u)
		}
		if failure != nil {
			n.State, n.Partitions = jobpb.SubtaskState_SUBTASK_FAILED, nil
		}
	case u.State == jobpb.SubtaskState_SUBTASK_FAILED:
		e.lose(e.readBy(u.Chain, u.Failure.GetLost()))
	}
	e.replace(pos, n)
	if n.State == jobpb.SubtaskState_SUBTASK_FAILED && !ending {
		e.addFailure(describe(failure, n, e.t.now))
	}
	if n.State == jobpb.SubtaskState_SUBTASK_FINISHED || ending {
		e.release(e.j.SlotOf(s.Chain, s.Index))
	}
	return true
}

// progress takes what a running attempt has come to. It reports whether that is news.
func (e *jobEdit) progress(pos int, s *jobpb.Subtask, u *taskpb.SubtaskUpdate) bool {
	if s.State == u.State && (s.Produced || !u.Produced) && (s.Loaded || !u.Loaded) {
		return false
	}
	n := copySubtask(s)
	n.Produced, n.Loaded = s.Produced || u.Produced, s.Loaded || u.Loaded
	if s.State != u.State {
		n.State = u.State
		if n.StartedUs == 0 {
			n.StartedUs = e.t.now
		}
	}
	e.replace(pos, n)
	return true
}

// describe fills in what the reporter of a failure left out.
func describe(f *jobpb.Failure, s *jobpb.Subtask, now int64) *jobpb.Failure {
	n := &jobpb.Failure{Kind: jobpb.FailureKind_FAILURE_LOSS, Code: CodeNoReason, Message: "the attempt ended without a reason"}
	if f != nil {
		n = &jobpb.Failure{
			Code: f.Code, Message: f.Message, Operator: f.Operator, Position: f.Position, Stack: f.Stack, TimeUs: f.TimeUs, Kind: f.Kind,
			Lost: f.Lost[:min(len(f.Lost), maxLostTold)],
		}
	}
	if n.Kind == jobpb.FailureKind_FAILURE_UNSPECIFIED {
		n.Kind = jobpb.FailureKind_FAILURE_USER
	}
	n.Chain, n.Index, n.Attempt, n.Worker = s.Chain, s.Index, s.Attempt, s.Worker
	if n.TimeUs == 0 {
		n.TimeUs = now
	}
	return n
}

// takeOutput keeps the output that an attempt prepared at its end. Output that cannot be kept fails the attempt loudly:
// it must never be forgotten.
func (e *jobEdit) takeOutput(u *taskpb.SubtaskUpdate) *jobpb.Failure {
	bytes := e.j.outputBytes
	for _, c := range u.Committables {
		if c.Subtask != u.Index || !e.j.plan.Has(u.Chain, c.Sink) {
			return &jobpb.Failure{Kind: jobpb.FailureKind_FAILURE_FATAL, Code: CodeBadOutput,
				Message: fmt.Sprintf("prepared output of %.100q[%d] came from a subtask that does not write there", c.Sink, c.Subtask)}
		}
		bytes += outputSize(c)
	}
	if bytes > MaxOutputBytes {
		return &jobpb.Failure{Kind: jobpb.FailureKind_FAILURE_FATAL, Code: CodeBadOutput,
			Message: fmt.Sprintf("the job's prepared output takes more than %d MiB to describe: write fewer, larger parts", MaxOutputBytes>>20)}
	}
	if len(u.Committables) == 0 {
		return nil
	}
	e.j.output = append(e.j.output[:len(e.j.output):len(e.j.output)], u.Committables...)
	e.j.outputBytes = bytes
	for _, c := range u.Committables {
		e.t.note(changeOutput, c)
	}
	return nil
}

// settleRegion derives the status of a region from its subtasks, and returns the new one if it has changed.
func (e *jobEdit) settleRegion(i int) (to jobpb.RegionStatus) {
	r := e.regions.At(i)
	to = r.state.Status
	switch {
	case to != jobpb.RegionStatus_REGION_SCHEDULED && to != jobpb.RegionStatus_REGION_RUNNING:
		return 0
	case r.finished == r.size:
		to = jobpb.RegionStatus_REGION_FINISHED
	case r.finished+r.running == r.size:
		to = jobpb.RegionStatus_REGION_RUNNING
	}
	if to == r.state.Status {
		return 0
	}
	e.setRegion(i, to, r.state.Epoch)
	return to
}

// Codes of failures that the facts themselves find.
const (
	CodeNoReason  = "E117" // an attempt ended without a reason
	CodeBadOutput = "E118" // prepared output that cannot be kept
)
