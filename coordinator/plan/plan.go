package plan

import (
	"cmp"
	"fmt"

	"github.com/sluiceio/sluice/coordinator/region"
	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Codes of what only the planner finds.
const (
	CodeTooLarge   = "E023" // more subtasks than can be planned
	CodeOverridden = "W024" // an exchange that was asked to be pipelined cannot be
)

// Options is what a plan depends on besides the graph.
type Options struct {
	// Settings are those given on the command line; they win over the graph's own.
	Settings map[string]string
	// Parallelism overrides the default parallelism of the graph and of every setting; 0: not given.
	Parallelism int
	// DefaultParallelism is taken when neither command line, code nor setting says one: the cores of an embedded run, the
	// free slots of a cluster.
	DefaultParallelism int
	// Slots is the number of slots that exist: the meaning of a parallelism of -1. 0: unknown, DefaultParallelism is taken.
	Slots int
}

// Make plans g. Diagnostics with a code E… are errors, and then the plan is nil; those with W… are warnings and stand in
// the plan's graph, too. g is not changed; the plan shares its operators.
func Make(g *jobpb.Graph, o Options) (*jobpb.Plan, []*jobpb.Diagnostic) {
	p := &planner{g: g, o: o}
	p.diags = graph.Validate(g)
	if len(p.diags) > 0 {
		return nil, p.diags
	}
	p.diags = graph.Warn(g)
	p.settings = setting.Merge(o.Settings, g.Settings)
	for _, x := range setting.Check(p.settings) {
		p.report(x.Code, "", x.Message, x.Hints...)
	}
	p.decideMode()
	p.decideParallelism()
	p.link()
	p.unlock()
	p.chain()
	p.connect()
	if p.failed {
		return nil, p.diags
	}
	made := p.finish()
	return made, p.diags
}

type planner struct {
	g        *jobpb.Graph
	o        Options
	settings setting.Values
	mode     jobpb.Mode
	width    []int32  // parallelism by operator
	links    [][]link // by operator and input
	chainOf  []int32  // by operator
	chains   []*jobpb.Chain
	edges    []*jobpb.Edge
	diags    []*jobpb.Diagnostic
	failed   bool
}

func (p *planner) report(code, where, message string, hints ...string) {
	p.diags = append(p.diags, &jobpb.Diagnostic{Code: code, Message: message, Where: where, Hints: hints})
	p.failed = p.failed || code[0] == 'E'
}

var modes = map[string]jobpb.Mode{"auto": jobpb.Mode_MODE_AUTO, "streaming": jobpb.Mode_MODE_STREAMING, "batch": jobpb.Mode_MODE_BATCH}

// decideMode: the command line wins over the code, and a call in code over a setting in code.
func (p *planner) decideMode() {
	p.mode = p.g.Mode
	by := "a setting in code"
	if said, ok := p.o.Settings[setting.Mode]; ok {
		p.mode, by = modes[said], "the command line"
	} else if p.mode == jobpb.Mode_MODE_AUTO {
		p.mode = modes[p.settings.Text(setting.Mode)]
	}
	if p.mode != jobpb.Mode_MODE_BATCH || p.g.Mode == p.mode {
		return // the graph's own mode was checked with it
	}
	for _, op := range p.g.Operators {
		if len(op.Inputs) == 0 && !op.Bounded {
			p.report(graph.CodeEndless, op.Location, fmt.Sprintf("batch mode is asked for by %s, but source %q never ends", by, op.Id),
				"use another mode, or bound the source")
		}
	}
}

// decideParallelism resolves "default" and "all slots".
func (p *planner) decideParallelism() {
	all := max(1, cmp.Or(p.o.Slots, p.o.DefaultParallelism))
	standard := cmp.Or(p.o.Parallelism, setting.Values(p.o.Settings).Count(setting.Parallelism), int(p.g.DefaultParallelism),
		setting.Values(p.g.Settings).Count(setting.Parallelism), p.o.DefaultParallelism, 1)
	p.width = make([]int32, len(p.g.Operators))
	for i, op := range p.g.Operators {
		n := int(op.Parallelism)
		if n == 0 {
			n = standard
		}
		if n < 0 {
			n = all
		}
		n = min(n, jobpb.MaxParallelism)
		// What the user did not ask for by number is cut to what makes sense.
		if op.Parallelism <= 0 {
			n = min(n, p.useful(op))
		}
		p.width[i] = int32(n)
	}
}

// useful is the largest parallelism at which every subtask of an operator can get records.
func (p *planner) useful(op *jobpb.Operator) int {
	most := jobpb.MaxParallelism
	for _, in := range op.Inputs {
		switch in.Partitioner {
		case jobpb.Partitioner_PARTITIONER_HASH:
			most = min(most, int(graph.KeyGroups(p.g)))
		case jobpb.Partitioner_PARTITIONER_GLOBAL:
			if len(op.Inputs) == 1 {
				most = 1
			}
		}
	}
	return most
}

// chain joins operators that can hand records over by direct calls.
func (p *planner) chain() {
	p.chainOf = make([]int32, len(p.g.Operators))
	subtasks := int64(0)
	for i, op := range p.g.Operators {
		if len(op.Inputs) == 1 && p.links[i][0].joint {
			c := p.chainOf[op.Inputs[0].Operator]
			p.chainOf[i] = c
			p.chains[c].Operators = append(p.chains[c].Operators, int32(i))
			p.chains[c].Name += " → " + op.Id
			continue
		}
		p.chainOf[i] = int32(len(p.chains))
		p.chains = append(p.chains, &jobpb.Chain{Index: int32(len(p.chains)), Operators: []int32{int32(i)}, Parallelism: p.width[i], Name: op.Id})
		subtasks += int64(p.width[i])
	}
	if subtasks > jobpb.MaxSubtasks {
		p.report(CodeTooLarge, "", fmt.Sprintf("the plan has %d subtasks, at most %d are possible", subtasks, jobpb.MaxSubtasks), "lower the parallelism")
	}
}

// connect makes an edge of every input that is not inside a chain.
func (p *planner) connect() {
	for i, op := range p.g.Operators {
		for k, in := range op.Inputs {
			l := p.links[i][k]
			if l.joint {
				continue
			}
			p.edges = append(p.edges, &jobpb.Edge{
				Index: int32(len(p.edges)), FromOperator: in.Operator, ToOperator: int32(i), Input: int32(k),
				FromChain: p.chainOf[in.Operator], ToChain: p.chainOf[i],
				Partitioner: l.partitioner, Exchange: l.exchange, Reason: l.reason,
			})
		}
	}
}

func (p *planner) finish() *jobpb.Plan {
	whole := make([]bool, len(p.chains))
	for i, op := range p.g.Operators {
		if len(op.Inputs) == 0 && !op.Bounded {
			whole[p.chainOf[i]] = true // a lost reader's splits go on only with those of all others
		}
	}
	p2 := &jobpb.Plan{
		Graph: withWarnings(p.g, p.diags), Fingerprint: graph.Fingerprint(p.g), Chains: p.chains, Edges: p.edges,
		Regions: region.Build(p.chains, p.edges, whole), Settings: p.settings,
	}
	p.checkpoints(p2)
	if p.failed {
		return nil
	}
	p2.Slots, p2.LeastSlots = slots(p2), leastSlots(p2)
	p.judge(p2.Regions)
	return p2
}

// withWarnings is g with more warnings; it shares everything else.
func withWarnings(g *jobpb.Graph, more []*jobpb.Diagnostic) *jobpb.Graph {
	return &jobpb.Graph{
		Name: g.Name, Operators: g.Operators, Mode: g.Mode, ModeLocation: g.ModeLocation, DefaultParallelism: g.DefaultParallelism,
		MaxParallelism: g.MaxParallelism, Params: g.Params, Settings: g.Settings,
		Warnings: append(g.Warnings[:len(g.Warnings):len(g.Warnings)], more...),
	}
}
