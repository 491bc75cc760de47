package state

import (
	"fmt"
	"slices"

	"github.com/sluiceio/sluice/coordinator/state/ledger"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
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
	in := make([]bool, e.regions.Len())
	for _, r := range c.Regions {
		if r.Region < 0 || int(r.Region) >= len(in) {
			return refused(CodeMalformed, "job %s has no region %d", h.Id, r.Region)
		}
		s := e.regions.At(int(r.Region)).state
		if r.Epoch != s.Epoch {
			return e.stale("region %d is in epoch %d", r.Region, s.Epoch)
		}
		if s.Status == jobpb.RegionStatus_REGION_CREATED || s.Status == jobpb.RegionStatus_REGION_RESTARTING {
			return e.stale("region %d waits for its attempts already", r.Region)
		}
		if s.Status == jobpb.RegionStatus_REGION_FINISHED && e.checkpointed(r.Region) {
			return e.stale("region %d has finished, and a checkpoint contains that", r.Region)
		}
		in[r.Region] = true
	}
	e.become(jobpb.JobStatus_JOB_RESTARTING)
	for _, r := range c.Regions {
		n := &jobpb.RegionState{Index: r.Region, Epoch: r.Epoch + 1, Status: jobpb.RegionStatus_REGION_RESTARTING, RestartAtUs: c.RestartAtUs}
		if e.checkpointed(r.Region) {
			n.Restore = ledger.Restore(e.j.checkpoints) // PROTOCOL 3: the newest at this index, whatever the proposer knew
		}
		e.putRegion(n)
	}
	e.interrupt(in)
	e.markReordered(c.Reordered)
	e.lose(c.Lost)
	e.tellLost()
	again := e.resetSubtasks(in)
	e.countRestart(c)
	e.tellRestart(c, again)
	return applied(h.Id)
}

// markReordered notes which regions have read what will be made again in another order. Those that restart have not.
func (e *jobEdit) markReordered(regions []int32) {
	for _, i := range regions {
		if i < 0 || int(i) >= e.regions.Len() {
			continue
		}
		r := e.regions.At(int(i))
		if s := r.state.Status; r.state.Reordered || s == jobpb.RegionStatus_REGION_CREATED || s == jobpb.RegionStatus_REGION_RESTARTING {
			continue
		}
		e.putRegion(&jobpb.RegionState{Index: i, Epoch: r.state.Epoch, Status: r.state.Status, Reordered: true, Restore: r.state.Restore})
	}
}

// resetSubtasks takes back what the attempts of restarting regions achieved, their stored results included, and counts
// them. Those that may still act keep their state until they report their end or their worker is lost.
func (e *jobEdit) resetSubtasks(in []bool) (attempts int) {
	for pos, s := range e.subtasks.All() {
		if !in[s.Region] || s.State == jobpb.SubtaskState_SUBTASK_CREATED {
			continue
		}
		if s.State == jobpb.SubtaskState_SUBTASK_FINISHED && e.regions.At(int(s.Region)).state.Restore > 0 {
			continue // only a completed checkpoint makes it FINISHED here, and so the restored one contains its end
		}
		attempts++
		if s.State != jobpb.SubtaskState_SUBTASK_FINISHING && active(s.State) && !s.Produced && !s.Loaded {
			continue
		}
		n := copySubtask(s)
		forget(n)
		switch {
		case !active(s.State):
			n.State = jobpb.SubtaskState_SUBTASK_CREATED
		case s.State == jobpb.SubtaskState_SUBTASK_FINISHING:
			n.State = jobpb.SubtaskState_SUBTASK_RUNNING // its end is void, and it may act until it is gone
		}
		e.replace(pos, n)
	}
	for _, s := range e.j.sources {
		if !in[s.Region()] {
			continue
		}
		if r := e.regions.At(int(s.Region())).state; r.Restore > 0 {
			e.setSource(s.Resumed(r.Epoch))
		} else {
			e.setSource(s.Restarted(r.Epoch))
		}
	}
	e.dropOutput(func(c *jobpb.Committable) bool {
		region, ok := e.j.plan.Writer(c.Sink, c.Subtask)
		return ok && in[region] && !e.checkpointed(region) // what belongs to a completed checkpoint outlives every attempt
	})
	return attempts
}

// forget takes back what an attempt has come to.
func forget(s *jobpb.Subtask) {
	s.Counters, s.Partitions, s.Produced, s.Loaded = nil, nil, false, false
}

// backOff is when the last of the back-offs ends that regions wait out; 0: none does.
func (e *jobEdit) backOff() (at int64) {
	for _, r := range e.regions.All() {
		if r.state.Status == jobpb.RegionStatus_REGION_RESTARTING && r.state.RestartAtUs > e.t.now {
			at = max(at, r.state.RestartAtUs)
		}
	}
	return at
}

func (e *jobEdit) countRestart(c *commandpb.RestartRegions) {
	h := e.j.head
	h.RestartAtUs, h.Message = e.backOff(), ""
	if c.Cause.Kind == jobpb.FailureKind_FAILURE_LOSS {
		h.Losses++
	} else {
		h.Restarts++
	}
	e.addFailure(c.Cause)
	r := &jobpb.Restart{TimeUs: e.t.now, Kind: c.Cause.Kind, DelayUs: max(0, c.RestartAtUs-e.t.now)}
	e.j.history = remember(e.j.history, r)
	e.t.note(changeRestart, r)
}

// remember adds a restart and forgets the oldest of its kind, if there are too many: losses, which may be frequent, must not
// drive out the failures by which a restart strategy judges.
func remember(history []*jobpb.Restart, r *jobpb.Restart) []*jobpb.Restart {
	kind := func(r *jobpb.Restart) bool { return r.Kind == jobpb.FailureKind_FAILURE_LOSS }
	n, oldest := 0, 0
	for i, old := range slices.Backward(history) {
		if kind(old) == kind(r) {
			n, oldest = n+1, i
		}
	}
	kept := append(make([]*jobpb.Restart, 0, len(history)+1), history...)
	if n >= MaxHistory {
		kept = slices.Delete(kept, oldest, oldest+1)
	}
	return append(kept, r)
}

func (e *jobEdit) tellRestart(c *commandpb.RestartRegions, again int) {
	s := fmt.Sprintf("region %d", c.Regions[0].Region)
	if n := len(c.Regions); n > 1 {
		s = fmt.Sprintf("%d regions", n)
	}
	regions := make([]int32, len(c.Regions))
	for i, r := range c.Regions {
		regions[i] = r.Region
	}
	e.t.event(&jobpb.Event{
		Kind: "region-restarted", Job: e.j.ID(), Epoch: e.j.head.Epoch, Region: slices.Min(regions), Subtasks: int32(again),
		Message: s + ": " + c.Cause.Code + ": " + firstLine(c.Cause.Message) + "; again: " + e.j.plan.SubtaskNames(regions) + ledger.Origin(e.regions.At(int(c.Regions[0].Region)).state.Restore),
	})
}
