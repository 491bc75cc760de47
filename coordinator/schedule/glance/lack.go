package glance

import (
	"fmt"
	"slices"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Suits reports whether the job's binary can run on a worker.
func Suits(v *state.View, facts *state.Job, f *commandpb.Worker) bool {
	a := v.Artifact(facts.Head().Spec.Artifact)
	return a == nil || (a.Os == "" || a.Os == f.Os) && (a.Arch == "" || a.Arch == f.Arch)
}

// Lack says which workers are missing.
func Lack(v *state.View, facts *state.Job) string {
	n := 0
	for f := range v.Workers() {
		if f.Health == commandpb.WorkerHealth_WORKER_ALIVE {
			n++
		}
	}
	if a := v.Artifact(facts.Head().Spec.Artifact); n > 0 && a != nil {
		return fmt.Sprintf("%d workers are alive; none of them is %s/%s, connected and not draining", n, a.Os, a.Arch)
	}
	return "none is alive"
}

// Tidies reports whether the job has sinks whose leftovers a committer may remove: prepared output of attempts that
// failed, which nobody lists.
func Tidies(facts *state.Job) bool {
	p := facts.Plan()
	return p != nil && facts.Head().StartedUs != 0 && slices.ContainsFunc(p.Graph.Operators, func(o *jobpb.Operator) bool {
		return o.Guarantee == jobpb.Guarantee_GUARANTEE_EXACTLY_ONCE
	})
}
