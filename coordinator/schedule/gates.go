package schedule

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sluiceio/sluice/coordinator/region"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// gate of a region: its live sources emit nothing before all of its subtasks that load something have loaded it.
type gate struct {
	loads, loaded int32   // subtasks
	sources       []int32 // positions of the subtasks that wait for it to open
}

// opening is how far the leader is with telling sources that their gates are open. Each deployment closes them again, so
// what was told belongs to an attempt and a session.
type opening struct {
	look bool
	told sentList
	pace pacing
}

// gatedChains finds the chains with a source from which records flow to a gated input while they are made.
func gatedChains(p *jobpb.Plan) []bool {
	ops := p.Graph.Operators
	stored := map[[2]int32]bool{} // consumer and input: the edge is BLOCKING
	for _, e := range p.Edges {
		stored[[2]int32{e.ToOperator, e.Input}] = e.Exchange == jobpb.ExchangeKind_EXCHANGE_BLOCKING
	}
	before := make([]bool, len(ops)) // its output reaches a gate
	for i := len(ops) - 1; i >= 0; i-- {
		for k, in := range ops[i].Inputs { // producers stand before their consumers
			if (before[i] || in.Gated) && !stored[[2]int32{int32(i), int32(k)}] {
				before[in.Operator] = true
			}
		}
	}
	gated := make([]bool, len(p.Chains))
	for c, chain := range p.Chains {
		for _, o := range chain.Operators {
			gated[c] = gated[c] || before[o] && len(ops[o].Inputs) == 0
		}
	}
	return gated
}

// gatesOf are the gates of the regions; nil if no region has one.
func gatesOf(l *region.Layout, s *shape) []gate {
	if !slices.Contains(s.guards, true) {
		return nil
	}
	gates := make([]gate, len(l.Plan().Regions))
	for _, r := range l.Plan().Regions {
		g := &gates[r.Index]
		for _, sub := range r.Subtasks {
			if s.guards[sub.Chain] {
				g.loads += sub.Count
			}
			for i := int32(0); s.gated[sub.Chain] && i < sub.Count; i++ {
				g.sources = append(g.sources, l.First(sub.Chain)+sub.First+i)
			}
		}
	}
	return gates
}

// openGates tells live sources that everything in front of their gates has been loaded. Again after a while to those
// that have not emitted since: nobody acknowledges it.
func (l *Leader) openGates(j *job, facts *state.Job) {
	o := &j.opening
	if j.gates == nil || !o.look && l.now.Before(o.pace.next) {
		return
	}
	again := !o.look && o.pace.due(l.now, l.cfg.Resend, mostPause)
	o.look = false
	open, silent := map[processOn][]*regionEpoch{}, false
	for r, g := range j.gates {
		at := facts.Region(int32(r))
		if g.loads == 0 || g.loaded < g.loads || at.Status == jobpb.RegionStatus_REGION_RESTARTING {
			continue
		}
		for _, pos := range g.sources {
			k, tell, waits := l.opens(j, facts, int(pos), again)
			silent = silent || waits
			if n := len(open[k]); tell && (n == 0 || open[k][n-1].Region != at.Index) {
				open[k] = append(open[k], &regionEpoch{Region: at.Index, Epoch: at.Epoch})
			}
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(open), func(a, b processOn) int {
		return cmp.Or(cmp.Compare(a.worker, b.worker), cmp.Compare(a.process, b.process))
	}) {
		l.send(l.soft[k.worker], &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_OpenGate{OpenGate: &taskpb.OpenGate{
			Job: j.id, JobEpoch: facts.Epoch(), Process: k.process, Regions: open[k],
		}}})
	}
	if len(open) > 0 && !again {
		o.pace = pacing{}
		o.pace.due(l.now, l.cfg.Resend, mostPause)
	}
	if silent {
		l.wakeAt(j, o.pace.next)
	}
}

type processOn struct {
	worker  string
	process uint64
}

// opens reports where a source behind an open gate runs, whether it has to be told, and whether it has not emitted yet.
func (l *Leader) opens(j *job, facts *state.Job, pos int, again bool) (k processOn, tell, silent bool) {
	t := facts.At(pos)
	w := l.usable(t.Worker)
	if !acts(t.State) || w == nil || !j.sent.knows(pos, t.Attempt, w.session.serial) {
		return k, false, false
	}
	told := &j.opening.told
	tell = !told.knows(pos, t.Attempt, w.session.serial) || again && !t.Produced
	if tell {
		told.put(facts.Size(), pos, sent{attempt: t.Attempt, session: w.session.serial, at: l.now})
	}
	return processOn{w.id, t.Process}, tell, !t.Produced
}
