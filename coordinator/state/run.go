package state

import (
	"fmt"
	"strings"

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
	if c.JobEpoch != h.Epoch {
		return e.stale("job epoch is %d", h.Epoch)
	}
	if e.t.now < h.RestartAtUs {
		return e.stale("the back-off has not ended")
	}
	g := &granting{e: e, in: make([]bool, e.regions.v.len()), taken: make([]bool, e.subtasks.v.len()), places: make([]*commandpb.Assignment, e.slots.v.len())}
	if r := g.check(c); r.Status != Applied {
		return r
	}
	g.perform(c)
	e.j.scheduled = e.t.index
	e.become(jobpb.JobStatus_JOB_RUNNING)
	if h.Message, h.RestartAtUs = "", 0; h.StartedUs == 0 {
		h.StartedUs = e.t.now
	}
	e.event("job-running", fmt.Sprintf("%d regions, %d subtasks", len(c.Regions), len(c.Assignments)))
	return applied(h.Id)
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
		rec := e.regions.at(int(r.Region))
		if r.Epoch != rec.state.Epoch {
			return e.stale("region %d is in epoch %d", r.Region, rec.state.Epoch)
		}
		if s := rec.state.Status; s != jobpb.RegionStatus_REGION_CREATED && s != jobpb.RegionStatus_REGION_RESTARTING {
			return e.stale("region %d is scheduled", r.Region)
		}
		g.in[r.Region] = true
		size += int(rec.size)
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
	if !ok || g.taken[pos] || !g.in[e.j.plan.region[pos]] {
		return refused(CodeMalformed, "subtask %d[%d] does not exist, is assigned twice or is in another region", a.Chain, a.Index)
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
		s := e.slots.at(i)
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
	for pos, s := range g.e.subtasks.v.all() {
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
	process := g.processes()
	for _, a := range c.Assignments {
		pos, _ := e.j.Position(a.Chain, a.Index)
		n := copySubtask(e.subtasks.at(pos))
		n.Attempt++
		n.Worker, n.Incarnation, n.Process = a.Worker, a.Incarnation, process[a.Worker]
		n.State, n.StartedUs, n.EndedUs, n.Counters = jobpb.SubtaskState_SUBTASK_SCHEDULED, 0, 0, nil
		e.replace(pos, n)
	}
	for _, r := range c.Regions {
		e.setRegion(int(r.Region), jobpb.RegionStatus_REGION_SCHEDULED, r.Epoch)
	}
}

// processes are the numbers of the task processes. Other regions of the job that run on a worker share theirs;
// otherwise a fresh process starts, so that nothing which an earlier attempt left behind can disturb the next.
func (g *granting) processes() map[string]uint64 {
	e, number := g.e, make(map[string]uint64, len(g.workers))
	for pos, s := range e.subtasks.v.all() {
		if !g.taken[pos] && active(s.State) && e.t.Alive(s.Worker, s.Incarnation) {
			number[s.Worker] = s.Process
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

// update folds reports of attempts into the execution graph. The number of an attempt is never used twice, so it alone
// says whether a report concerns the attempt that is known; epochs then say whether the attempt still counts.
func (e *jobEdit) update(c *commandpb.UpdateSubtasks) Result {
	h := e.j.head
	if !e.in(jobpb.JobStatus_JOB_WAITING, jobpb.JobStatus_JOB_RUNNING, jobpb.JobStatus_JOB_RESTARTING, jobpb.JobStatus_JOB_FAILING, jobpb.JobStatus_JOB_CANCELLING) {
		return e.wrongStatus()
	}
	if c.JobEpoch > h.Epoch {
		return e.stale("job epoch is %d", h.Epoch)
	}
	dropped := 0
	touched := map[int32]bool{}
	for _, u := range c.Updates {
		if !e.updateOne(u) {
			dropped++
			continue
		}
		touched[e.j.plan.region[int(e.j.plan.first[u.Chain]+u.Index)]] = true
	}
	if len(touched) == 0 {
		return e.stale("all %d reports are of attempts that are over", dropped)
	}
	for i := range e.regions.v.len() {
		if touched[int32(i)] {
			e.settleRegion(i)
		}
	}
	if e.in(jobpb.JobStatus_JOB_RUNNING) && int(e.j.counts[jobpb.SubtaskState_SUBTASK_FINISHED]) == e.subtasks.v.len() {
		e.become(jobpb.JobStatus_JOB_FINISHING)
		e.event("job-finishing", fmt.Sprintf("%d parts of output to commit", len(e.j.output)))
	}
	r := applied(h.Id)
	r.Dropped = dropped
	return r
}

// updateOne reports whether the update changed anything.
func (e *jobEdit) updateOne(u *taskpb.SubtaskUpdate) bool {
	pos, ok := e.j.Position(u.Chain, u.Index)
	if !ok {
		return false
	}
	s := e.subtasks.at(pos)
	if s.Attempt != u.Attempt || u.Attempt == 0 || !active(s.State) {
		return false
	}
	region := e.regions.at(int(s.Region)).state
	if u.RegionEpoch > region.Epoch {
		return false
	}
	ending := e.in(jobpb.JobStatus_JOB_FAILING, jobpb.JobStatus_JOB_CANCELLING)
	fenced := u.RegionEpoch < region.Epoch || region.Status == jobpb.RegionStatus_REGION_RESTARTING
	n := copySubtask(s)
	switch u.State {
	case jobpb.SubtaskState_SUBTASK_RUNNING:
		if fenced || s.State == u.State {
			return false
		}
		n.State, n.StartedUs = u.State, e.t.now
		e.replace(pos, n)
		return true
	case jobpb.SubtaskState_SUBTASK_FINISHED, jobpb.SubtaskState_SUBTASK_FAILED, jobpb.SubtaskState_SUBTASK_CANCELLED:
		n.State, n.EndedUs, n.Counters = u.State, e.t.now, u.Counters
	default:
		return false
	}
	failure := u.Failure
	switch {
	case fenced:
		n.State = jobpb.SubtaskState_SUBTASK_CANCELLED // whatever it says of itself, its work is void
	case u.State == jobpb.SubtaskState_SUBTASK_FINISHED:
		if failure = e.takeOutput(u); failure != nil {
			n.State = jobpb.SubtaskState_SUBTASK_FAILED
		}
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

// describe fills in what the reporter of a failure left out.
func describe(f *jobpb.Failure, s *jobpb.Subtask, now int64) *jobpb.Failure {
	n := &jobpb.Failure{Kind: jobpb.FailureKind_FAILURE_LOSS, Code: CodeNoReason, Message: "the attempt ended without a reason"}
	if f != nil {
		n = &jobpb.Failure{
			Code: f.Code, Message: f.Message, Operator: f.Operator, Position: f.Position, Stack: f.Stack, TimeUs: f.TimeUs, Kind: f.Kind,
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
		if c.Subtask != u.Index || !e.isSink(u.Chain, c.Sink) {
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

// isSink reports whether a chain holds the operator with this id.
func (e *jobEdit) isSink(chain int32, id string) bool {
	p := e.j.plan.plan
	for _, o := range p.Chains[chain].Operators {
		if p.Graph.Operators[o].Id == id {
			return true
		}
	}
	return false
}

// settleRegion derives the status of a region from its subtasks.
func (e *jobEdit) settleRegion(i int) {
	r := e.regions.at(i)
	to := r.state.Status
	switch {
	case to != jobpb.RegionStatus_REGION_SCHEDULED && to != jobpb.RegionStatus_REGION_RUNNING:
		return
	case r.finished == r.size:
		to = jobpb.RegionStatus_REGION_FINISHED
	case r.finished+r.running == r.size:
		to = jobpb.RegionStatus_REGION_RUNNING
	}
	if to != r.state.Status {
		e.setRegion(i, to, r.state.Epoch)
	}
}

// Codes of failures that the facts themselves find.
const (
	CodeNoReason  = "E117" // an attempt ended without a reason
	CodeBadOutput = "E118" // prepared output that cannot be kept
)

// restart fences the attempts of regions and lets them wait for their next ones. Their prepared output is void; a
// committer removes it by its epoch, so nothing has to be remembered of it here.
func (e *jobEdit) restart(c *commandpb.RestartRegions) Result {
	h := e.j.head
	if !e.in(jobpb.JobStatus_JOB_WAITING, jobpb.JobStatus_JOB_RUNNING, jobpb.JobStatus_JOB_RESTARTING) {
		return e.wrongStatus()
	}
	if c.JobEpoch != h.Epoch {
		return e.stale("job epoch is %d", h.Epoch)
	}
	in := make([]bool, e.regions.v.len())
	for _, r := range c.Regions {
		if r.Region < 0 || int(r.Region) >= len(in) {
			return refused(CodeMalformed, "job %s has no region %d", h.Id, r.Region)
		}
		s := e.regions.at(int(r.Region)).state
		if r.Epoch != s.Epoch {
			return e.stale("region %d is in epoch %d", r.Region, s.Epoch)
		}
		if s.Status == jobpb.RegionStatus_REGION_CREATED || s.Status == jobpb.RegionStatus_REGION_RESTARTING {
			return e.stale("region %d waits for its attempts already", r.Region)
		}
		in[r.Region] = true
	}
	e.become(jobpb.JobStatus_JOB_RESTARTING)
	for _, r := range c.Regions {
		e.setRegion(int(r.Region), jobpb.RegionStatus_REGION_RESTARTING, r.Epoch+1)
	}
	e.resetSubtasks(in)
	e.countRestart(c)
	e.event("region-restarted", restartText(c))
	return applied(h.Id)
}

// resetSubtasks takes back what the attempts of restarting regions achieved. Those that may still act keep their state
// until they report their end or their worker is lost.
func (e *jobEdit) resetSubtasks(in []bool) {
	for pos, s := range e.subtasks.v.all() {
		if !in[s.Region] || active(s.State) || s.State == jobpb.SubtaskState_SUBTASK_CREATED {
			continue
		}
		n := copySubtask(s)
		n.State, n.Counters = jobpb.SubtaskState_SUBTASK_CREATED, nil
		e.replace(pos, n)
	}
	for _, s := range e.j.sources {
		if in[s.region] {
			e.setSource(s.restarted(e.regions.at(int(s.region)).state.Epoch))
		}
	}
	p := e.j.plan
	chain := map[string]int32{}
	for _, c := range p.plan.Chains {
		for _, o := range c.Operators {
			chain[p.plan.Graph.Operators[o].Id] = c.Index
		}
	}
	e.dropOutput(func(c *jobpb.Committable) bool { return in[p.region[p.first[chain[c.Sink]]+c.Subtask]] })
}

func (e *jobEdit) countRestart(c *commandpb.RestartRegions) {
	h := e.j.head
	h.RestartAtUs, h.Message = max(h.RestartAtUs, c.RestartAtUs), "" // an earlier region may still wait out its back-off
	if c.Cause.Kind == jobpb.FailureKind_FAILURE_LOSS {
		h.Losses++
	} else {
		h.Restarts++
	}
	e.addFailure(c.Cause)
	r := &jobpb.Restart{TimeUs: e.t.now, Kind: c.Cause.Kind, DelayUs: max(0, c.RestartAtUs-e.t.now)}
	e.j.history = appendBounded(e.j.history, r, MaxHistory)
	e.t.note(changeRestart, r)
}

func restartText(c *commandpb.RestartRegions) string {
	s := fmt.Sprintf("region %d", c.Regions[0].Region)
	if n := len(c.Regions); n > 1 {
		s = fmt.Sprintf("%d regions", n)
	}
	return s + ": " + c.Cause.Code + ": " + firstLine(c.Cause.Message)
}

func (e *jobEdit) addSplits(c *commandpb.AddSplits) Result {
	s, r := e.openSource(c.JobEpoch, c.Operator, c.RegionEpoch)
	if s == nil {
		return r
	}
	if s.complete || int(c.Offset) != s.splits.len() {
		return e.stale("source %d has %d splits already, complete: %t", c.Operator, s.splits.len(), s.complete)
	}
	n := *s
	edit := n.splits.edit()
	for _, x := range c.Splits {
		edit.push(x)
		n.bytes += len(x.Data) + len(x.Id)
		e.t.note(changeSplit, x)
	}
	n.splits, n.complete = edit.v, c.End
	if n.splits.len() > MaxSplits || n.bytes > MaxSourceBytes {
		return Result{Status: Refused, Code: CodeFull, Job: e.j.ID(), Message: fmt.Sprintf("source %d: %d splits with %d bytes; at most %d with %d MiB can be kept",
			c.Operator, n.splits.len(), n.bytes, MaxSplits, MaxSourceBytes>>20)}
	}
	e.setSource(&n)
	return applied(e.j.ID())
}

func (e *jobEdit) assignSplits(c *commandpb.AssignSplits) Result {
	s, r := e.openSource(c.JobEpoch, c.Operator, c.RegionEpoch)
	if s == nil {
		return r
	}
	n, dropped := *s, 0
	owners, of := n.owners.edit(), n.of.edit()
	for _, a := range c.Assignments {
		t := e.j.Subtask(s.chain, a.Subtask)
		if t == nil || t.Attempt != a.Attempt || !active(t.State) || int(a.Split) != owners.v.len() || int(a.Split) >= s.splits.len() {
			dropped++
			continue
		}
		owners.push(a)
		mine := of.at(int(a.Subtask))
		of.set(int(a.Subtask), append(mine[:len(mine):len(mine)], a.Split))
		e.t.note(changeAssignment, a)
	}
	if dropped == len(c.Assignments) {
		return e.stale("none of the %d splits is free, or the attempts are over", dropped)
	}
	n.owners, n.of = owners.v, of.v
	e.setSource(&n)
	res := applied(e.j.ID())
	res.Dropped = dropped
	return res
}

// openSource is the source, if its region runs in the given epoch.
func (e *jobEdit) openSource(epoch uint64, operator int32, regionEpoch uint64) (*Source, Result) {
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
	r := e.regions.at(int(s.region)).state
	if r.Epoch != regionEpoch || r.Status != jobpb.RegionStatus_REGION_SCHEDULED && r.Status != jobpb.RegionStatus_REGION_RUNNING {
		return nil, e.stale("region %d is %s in epoch %d", s.region, strings.TrimPrefix(r.Status.String(), "REGION_"), r.Epoch)
	}
	return s, Result{}
}
