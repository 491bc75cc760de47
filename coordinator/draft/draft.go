package draft

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/sluiceio/sluice/coordinator/plan"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/snapshot/adopt"
)

const (
	// CodeNoPlan is the code of a job that could not be planned, for a reason that is not in its graph.
	CodeNoPlan = "E111"
	// CodeNotVisible is the code of a checkpoint whose output nobody makes visible any more.
	CodeNotVisible = "E159"
)

// Reject is the command that ends a job without a plan.
func Reject(facts *state.Job, f *jobpb.Failure) *commandpb.Command {
	return &commandpb.Command{Command: &commandpb.Command_RejectPlan{RejectPlan: &commandpb.RejectPlan{
		Job: facts.ID(), Attempt: facts.Head().PlanAttempt, Failure: f.Bounded(),
	}}}
}

// Plan is the command that a graph leads to: PlanJob or RejectPlan.
func Plan(facts *state.Job, g *jobpb.Graph, o plan.Options, now time.Time) *commandpb.Command {
	p, f := Make(g, o, now)
	if f != nil {
		return Reject(facts, f)
	}
	return &commandpb.Command{Command: &commandpb.Command_PlanJob{PlanJob: &commandpb.PlanJob{Job: facts.ID(), Attempt: facts.Head().PlanAttempt, Plan: p}}}
}

// Make is the plan of a graph, or why there is none.
func Make(g *jobpb.Graph, o plan.Options, now time.Time) (*jobpb.Plan, *jobpb.Failure) {
	p, ds := plan.Make(g, o)
	if p == nil {
		return nil, Diagnosed(ds, now)
	}
	if err := p.Validate(); err != nil {
		return nil, &jobpb.Failure{Code: CodeNoPlan, Kind: jobpb.FailureKind_FAILURE_FATAL, Message: err.Error(), TimeUs: now.UnixMicro()}
	}
	return p, nil
}

// Options are those of a job or a dry run on the cluster as it is now. standard is the default parallelism that was
// configured; 0: the free slots, or all of them if none is free.
func Options(v *state.View, spec *jobpb.JobSpec, standard int) plan.Options {
	slots, free := 0, 0
	for f := range v.Workers() {
		if f.Health == commandpb.WorkerHealth_WORKER_ALIVE && !f.Draining {
			slots += int(f.Slots)
			free += max(0, int(f.Slots)-v.UsedSlots(f.Id))
		}
	}
	return plan.Options{
		Settings: spec.GetSettings(), Parallelism: int(spec.GetParallelism()), DefaultParallelism: cmp.Or(standard, free, slots, 1), Slots: slots,
	}
}

// Rescaled is the plan of a job at another parallelism. Operators for which a number was said in the program keep it.
func Rescaled(v *state.View, facts *state.Job, parallelism int, now time.Time) (*jobpb.Plan, *jobpb.Failure) {
	for _, r := range facts.Plan().Regions {
		if !r.Checkpointed {
			return nil, &jobpb.Failure{
				Code: adopt.CodeResults, Kind: jobpb.FailureKind_FAILURE_FATAL, TimeUs: now.UnixMicro(),
				Message: "a part of the job takes no checkpoints, so that what it has made cannot be shared out anew\n  fix: stop the job and start it at the other parallelism",
			}
		}
	}
	o := Options(v, facts.Head().Spec, 0)
	o.Parallelism = parallelism
	return Make(facts.Plan().Graph, o, now)
}

// TakeOver is the command that lets another plan of a job take over, or gives that up.
func TakeOver(facts *state.Job, p *jobpb.Plan, adopted *commandpb.Adopted, f *jobpb.Failure) *commandpb.Command {
	if f != nil {
		return &commandpb.Command{Command: &commandpb.Command_AbandonRescale{AbandonRescale: &commandpb.AbandonRescale{
			Job: facts.ID(), JobEpoch: facts.Epoch(), Cause: f.Bounded(),
		}}}
	}
	return &commandpb.Command{Command: &commandpb.Command_RescaleJob{RescaleJob: &commandpb.RescaleJob{
		Job: facts.ID(), JobEpoch: facts.Epoch(), Plan: p, Adopted: adopted,
	}}}
}

// Visible tells whether a job may begin with a checkpoint of another one: not before its output is visible, since nobody but the
// other job can make it so. wait is what for, and f why it never will be. A job that is forgotten had ended.
func Visible(from *state.Job, id uint64, now time.Time) (wait string, f *jobpb.Failure) {
	switch {
	case from == nil || from.Checkpoints().GetConfirmed() >= id:
		return "", nil
	case !state.Terminal(from.Status()):
		return fmt.Sprintf("job %s makes its output up to checkpoint %d visible", from.ID(), id), nil
	}
	return "", &jobpb.Failure{
		Code: CodeNotVisible, Kind: jobpb.FailureKind_FAILURE_FATAL, TimeUs: now.UnixMicro(),
		Message: fmt.Sprintf("output that job %s had prepared for checkpoint %d was given up, so a job that goes on from it would lack it\n  fix: begin with an older checkpoint", from.ID(), id),
	}
}

// Diagnosed is the failure of a job whose graph has faults.
func Diagnosed(ds []*jobpb.Diagnostic, now time.Time) *jobpb.Failure {
	f := &jobpb.Failure{Code: CodeNoPlan, Kind: jobpb.FailureKind_FAILURE_FATAL, TimeUs: now.UnixMicro(), Message: "the build function returned neither a graph nor a reason"}
	var lines []string
	for _, d := range ds {
		if strings.HasPrefix(d.Code, "W") {
			continue
		}
		if len(lines) == 0 {
			f.Code, f.Position = d.Code, d.Where
			lines = append(lines, d.Message)
		} else {
			lines = append(lines, d.Code+": "+d.Message+" at "+d.Where)
		}
		for _, h := range d.Hints {
			lines = append(lines, "  fix: "+h)
		}
	}
	if len(lines) > 0 {
		f.Message = strings.Join(lines, "\n")
	}
	return f
}
