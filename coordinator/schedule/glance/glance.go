package glance

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/coordinator/state/status"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// CodeVanished is the code of an attempt that ended and nobody said why.
const CodeVanished = "E116"

// Moved reports whether something happened between two states of a job that concerns more than the subtasks whose records
// changed: attempts were fenced, the job ends, or an attempt ended otherwise than by finishing.
func Moved(a, b *state.Job) bool {
	ha, hb := a.Head(), b.Head()
	return ha.Status != hb.Status && !(Going(ha.Status) && Going(hb.Status)) || ha.Epoch != hb.Epoch ||
		ha.Restarts != hb.Restarts || ha.Losses != hb.Losses || ha.Desired != hb.Desired ||
		a.Count(jobpb.SubtaskState_SUBTASK_FAILED) != b.Count(jobpb.SubtaskState_SUBTASK_FAILED) ||
		a.Count(jobpb.SubtaskState_SUBTASK_CANCELLED) != b.Count(jobpb.SubtaskState_SUBTASK_CANCELLED) ||
		Ends(hb.Status) && a.Active() != b.Active()
}

// Going reports whether regions of a job in this status run or wait for slots.
func Going(s jobpb.JobStatus) bool {
	return s == jobpb.JobStatus_JOB_WAITING || s == jobpb.JobStatus_JOB_RUNNING || s == jobpb.JobStatus_JOB_RESTARTING
}

// Epochs names regions with the epochs that are known of them.
func Epochs(facts *state.Job, regions []int32) []*taskpb.RegionEpoch {
	var rs []*taskpb.RegionEpoch
	for _, r := range regions {
		rs = append(rs, &taskpb.RegionEpoch{Region: r, Epoch: facts.Region(r).Epoch})
	}
	return rs
}

// Halted are the regions of a Cancel with the epochs that must end; none: all of the job.
func Halted(facts *state.Job) (rs []*taskpb.RegionEpoch) {
	if Ends(facts.Status()) {
		return nil
	}
	for r := range facts.Regions() {
		if r.Status == jobpb.RegionStatus_REGION_RESTARTING {
			rs = append(rs, &taskpb.RegionEpoch{Region: r.Index, Epoch: r.Epoch - 1})
		}
	}
	return rs
}

// Subtasks are the subtasks of a region that have to be scheduled: of one that starts from a checkpoint those whose end that does not
// contain.
func Subtasks(facts *state.Job, r int32) func(yield func(*jobpb.Subtask) bool) {
	return func(yield func(*jobpb.Subtask) bool) {
		for _, s := range facts.Plan().Regions[r].Subtasks {
			first := int(facts.Layout().First(s.Chain) + s.First)
			for i := range int(s.Count) {
				t := facts.At(first + i)
				if t.State == jobpb.SubtaskState_SUBTASK_FINISHED && facts.Region(r).Restore > 0 {
					continue
				}
				if !yield(t) {
					return
				}
			}
		}
	}
}

func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Void reports whether an attempt that says this of itself is over, or said it before.
func Void(facts *state.Job, u *taskpb.SubtaskUpdate) bool {
	t := facts.Subtask(u.GetChain(), u.GetIndex())
	if t == nil || t.Attempt != u.Attempt {
		return true
	}
	switch t.State {
	case jobpb.SubtaskState_SUBTASK_SCHEDULED:
		return false
	case jobpb.SubtaskState_SUBTASK_FINISHING:
		return u.State == jobpb.SubtaskState_SUBTASK_RUNNING || u.State == jobpb.SubtaskState_SUBTASK_FINISHING
	case jobpb.SubtaskState_SUBTASK_RUNNING:
		return u.State == jobpb.SubtaskState_SUBTASK_RUNNING && (t.Produced || !u.Produced) && (t.Loaded || !u.Loaded)
	}
	return true
}

// WellFormed makes an update acceptable to the facts. Output that is not cannot be kept, which fails the attempt.
func WellFormed(u *taskpb.SubtaskUpdate) *taskpb.SubtaskUpdate {
	n := &taskpb.SubtaskUpdate{
		Chain: u.Chain, Index: u.Index, Attempt: u.Attempt, Region: u.Region, RegionEpoch: u.RegionEpoch, State: u.State,
		Failure: u.Failure.Bounded(), Committables: u.Committables, Counters: u.Counters, Partitions: u.Partitions,
		Produced: u.Produced, Loaded: u.Loaded,
	}
	for _, c := range u.Committables {
		if err := c.Validate(); err != nil {
			n.State, n.Committables = jobpb.SubtaskState_SUBTASK_FAILED, nil
			n.Failure = (&jobpb.Failure{Code: state.CodeBadOutput, Kind: jobpb.FailureKind_FAILURE_FATAL, Message: "prepared output: " + err.Error()}).Bounded()
			break
		}
	}
	return n
}

// ExitFailure is why a process ended.
func ExitFailure(x *controlpb.ProcessExit) *jobpb.Failure {
	if x.Failure != nil {
		f := proto.CloneOf(x.Failure)
		f.Kind = x.Kind
		if f.Stack == "" {
			f.Stack = x.StderrTail
		}
		return f.Bounded()
	}
	f := &jobpb.Failure{Kind: x.Kind, Code: CodeVanished, Message: "the task process ended: " + x.Reason, Stack: x.StderrTail}
	return f.Bounded()
}

// Ends reports whether nothing of a job in this status may run any more.
func Ends(s jobpb.JobStatus) bool {
	return status.Ending(s)
}
