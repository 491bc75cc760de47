package rollout

import (
	"github.com/sluiceio/sluice/coordinator/region"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/coordinator/tally"
	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Mode is the job's setting schedule.
type Mode uint8

// The modes.
const (
	ByRegion Mode = iota // a region when its stored inputs are there
	Eager                // all regions at once, or none
	Lazy                 // as by region, and a consumer when one of its producers has produced something
)

// Plan is what of a job's plan is looked up all the time.
type Plan struct {
	Mode   Mode
	Gates  []Gate // by region; nil: no region has one
	in     [][]*jobpb.Edge
	out    [][]*jobpb.Edge
	writes []bool
	gated  []bool
}

// Gate of a region: its live sources emit nothing before all of its subtasks that load something have loaded it.
type Gate struct {
	Loads   int32   // number of those subtasks; 0: there is no gate
	Sources []int32 // positions of the subtasks that wait for it to open
}

// New looks a plan over.
func New(l *region.Layout) *Plan {
	p := l.Plan()
	n := len(p.Chains)
	s := &Plan{in: make([][]*jobpb.Edge, n), out: make([][]*jobpb.Edge, n), writes: make([]bool, n), gated: gatedChains(p)}
	switch setting.Values(p.Settings).Text(setting.Schedule) {
	case "eager":
		s.Mode = Eager
	case "lazy":
		s.Mode = Lazy
	}
	for _, e := range p.Edges {
		if e.Exchange != jobpb.ExchangeKind_EXCHANGE_BLOCKING {
			s.in[e.ToChain] = append(s.in[e.ToChain], e)
			s.out[e.FromChain] = append(s.out[e.FromChain], e)
		}
	}
	for c, chain := range p.Chains {
		for _, o := range chain.Operators {
			s.writes[c] = s.writes[c] || p.Graph.Operators[o].Guarantee != jobpb.Guarantee_GUARANTEE_UNSPECIFIED
		}
	}
	s.Gates = s.gates(l)
	return s
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

func (s *Plan) gates(l *region.Layout) []Gate {
	var gates []Gate
	for _, r := range l.Plan().Regions {
		var g Gate
		for _, sub := range r.Subtasks {
			if l.Gated(sub.Chain) {
				g.Loads += sub.Count
			}
			for i := int32(0); s.gated[sub.Chain] && i < sub.Count; i++ {
				g.Sources = append(g.Sources, l.First(sub.Chain)+sub.First+i)
			}
		}
		if g.Loads > 0 && gates == nil {
			gates = make([]Gate, len(l.Plan().Regions))
		}
		if g.Loads > 0 {
			gates[r.Index] = g
		}
	}
	return gates
}

// Writes reports whether subtasks of a chain prepare output that a process has to commit.
func (s *Plan) Writes(chain int32) bool { return s.writes[chain] }

// Gated reports whether the sources of a chain emit nothing before a gate opens.
func (s *Plan) Gated(chain int32) bool { return s.gated[chain] }

// MayRun reports whether an attempt should be deployed now. A lazy job holds back the consumer of a PIPELINED edge until
// one of its producers, whichever, has produced something; the others may be held back still. To wait for them too would
// be wrong: one of them may produce only when what this one does not consume has made room, or never.
// A region with a gate never waits: its sources produce only when all is loaded.
func (s *Plan) MayRun(facts *state.Job, counts *tally.Tally, t *jobpb.Subtask) bool {
	if s.Mode != Lazy || len(s.in[t.Chain]) == 0 || s.Gates != nil && s.Gates[t.Region].Loads > 0 {
		return true
	}
	fed := false
	for _, e := range s.in[t.Chain] {
		from := facts.Layout().Producers(e.Index, t.Index)
		fed = fed || from.Count > 0
		if !facts.Layout().Near(e.Index) {
			if from.Count > 0 && counts.Producing(e.FromChain) > 0 {
				return true
			}
			continue
		}
		for i := range from.Count {
			if tally.Produces(facts.At(int(from.First + i))) {
				return true
			}
		}
	}
	return !fed
}

// Near are the positions of the few consumers that a subtask has over PIPELINED edges. What everybody reads is not among
// them: the first of its producers to produce something frees the consumers of all.
func (s *Plan) Near(facts *state.Job, t *jobpb.Subtask) (positions []int32) {
	for _, e := range s.out[t.Chain] {
		if !facts.Layout().Near(e.Index) {
			continue
		}
		to := facts.Layout().Consumers(e.Index, t.Index)
		for i := range to.Count {
			positions = append(positions, to.First+i)
		}
	}
	return positions
}
