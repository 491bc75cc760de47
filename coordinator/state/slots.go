package state

import (
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// releaseSlots gives back slots in which nothing acts. The job goes on to wait for results, not for slots.
func (e *jobEdit) releaseSlots(c *commandpb.ReleaseSlots) Result {
	if !e.in(jobpb.JobStatus_JOB_WAITING, jobpb.JobStatus_JOB_RUNNING, jobpb.JobStatus_JOB_RESTARTING) {
		return e.wrongStatus()
	}
	if c.JobEpoch != e.j.head.Epoch {
		return e.stale("job epoch is %d", e.j.head.Epoch)
	}
	released := 0
	for _, i := range c.Slots {
		if i < 0 || int(i) >= e.slots.Len() {
			return refused(CodeMalformed, "job %s has no slot %d", e.j.ID(), i)
		}
		if sl := e.slots.At(int(i)); sl.granted && sl.active == 0 {
			e.release(int(i))
			released++
		}
	}
	if released == 0 {
		return e.stale("none of the %d slots is idle", len(c.Slots))
	}
	r := applied(e.j.ID())
	r.Dropped = len(c.Slots) - released
	return r
}
