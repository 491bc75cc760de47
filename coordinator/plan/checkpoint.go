package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// CodeNoCheckpoint is the code of an operator whose state no checkpoint can hold, in a region that never ends.
const CodeNoCheckpoint = "E026"

// checkpoints decides which regions take part in checkpoints. A job has checkpoints if it never ends, or if it asks for them by
// an interval. Then a region takes part that
//
//   - has an operator without outputs: what it does shows outside, so that running it again from its inputs would show twice;
//   - has no operator that spills in a share of batch memory, since no snapshot holds that;
//   - stores no result: a result is whole or not there, and one that was begun cannot be continued from a position.
//
// All others run again from their inputs. For batch memory in an endless region that is an error; an endless region that stores
// a result for itself runs without checkpoints.
func (p *planner) checkpoints(plan *jobpb.Plan) {
	if !p.takesCheckpoints() {
		return
	}
	inner := make([]bool, len(p.g.Operators)) // somebody reads its output
	for _, op := range p.g.Operators {
		for _, in := range op.Inputs {
			inner[in.Operator] = true
		}
	}
	for _, r := range plan.Regions {
		endless, ends := p.trait(plan, r, inner)
		obstacle, where := p.obstacle(plan, r)
		r.Checkpointed = (ends || endless) && obstacle == ""
		if endless && where != "" {
			p.report(CodeNoCheckpoint, where, fmt.Sprintf("%s, in a region that reads a source which never ends, so no checkpoint can be taken of it", obstacle),
				"bound the source, or read it in a job of its own", "run without checkpoints: "+setting.CheckpointEvery+"=0")
		}
	}
}

// takesCheckpoints: the interval is above zero, and the job never ends or somebody said the interval.
func (p *planner) takesCheckpoints() bool {
	if p.settings.Duration(setting.CheckpointEvery) <= 0 {
		return false
	}
	return p.settings.Said(setting.CheckpointEvery) || slices.ContainsFunc(p.g.Operators, endless)
}

func endless(op *jobpb.Operator) bool { return len(op.Inputs) == 0 && !op.Bounded }

// trait tells of a region whether it has a source that never ends, and an operator without outputs.
func (p *planner) trait(plan *jobpb.Plan, r *jobpb.Region, inner []bool) (never, ends bool) {
	for _, s := range r.Subtasks {
		for _, i := range plan.Chains[s.Chain].Operators {
			never = never || endless(p.g.Operators[i])
			ends = ends || !inner[i]
		}
	}
	return never, ends
}

// obstacle is why no checkpoint can hold what a region does, and if that is an error where it is; empty: one can.
func (p *planner) obstacle(plan *jobpb.Plan, r *jobpb.Region) (what, where string) {
	for _, s := range r.Subtasks {
		for _, i := range plan.Chains[s.Chain].Operators {
			if op := p.g.Operators[i]; op.BatchMemory {
				return fmt.Sprintf("operator %q keeps its input in batch memory", op.Id), cmp.Or(op.Location, op.Id)
			}
		}
		for _, e := range plan.Edges {
			if e.FromChain == s.Chain && e.Exchange == jobpb.ExchangeKind_EXCHANGE_BLOCKING {
				op := p.g.Operators[e.FromOperator]
				return fmt.Sprintf("operator %q stores its output", op.Id), ""
			}
		}
	}
	return "", ""
}
