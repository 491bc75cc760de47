package task

import (
	"fmt"
	"slices"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// inputRef is one input of one operator.
type inputRef struct{ op, input int32 }

// topology is a plan that was checked against the program of this binary: what wiring needs to know without asking
// again whether it makes sense. Immutable.
type topology struct {
	prog      *Program
	plan      *jobpb.Plan
	edges     map[inputRef]*jobpb.Edge
	consumers [][]inputRef // by producing operator, in the order of the graph
}

func newTopology(prog *Program, plan *jobpb.Plan) (*topology, error) {
	if err := sameGraph(prog.Graph, plan.GetGraph()); err != nil {
		return nil, err
	}
	t := &topology{prog: prog, plan: plan, edges: map[inputRef]*jobpb.Edge{}, consumers: make([][]inputRef, len(prog.Nodes))}
	if m := plan.Graph.MaxParallelism; m < 1 || m > codec.MaxParallelism {
		return nil, fmt.Errorf("plan: %d key groups", m)
	}
	for op, o := range prog.Graph.Operators {
		for i, in := range o.Inputs {
			t.consumers[in.Operator] = append(t.consumers[in.Operator], inputRef{int32(op), int32(i)})
		}
	}
	for i, e := range plan.Edges {
		if err := t.addEdge(e); err != nil {
			return nil, fmt.Errorf("plan: edge %d: %w", i, err)
		}
	}
	return t, t.checkChains()
}

func (t *topology) addEdge(e *jobpb.Edge) error {
	if !inRange(e.ToOperator, len(t.prog.Nodes)) || !inRange(e.FromChain, len(t.plan.Chains)) || !inRange(e.ToChain, len(t.plan.Chains)) {
		return fmt.Errorf("joins operators or chains that do not exist")
	}
	inputs := t.prog.Graph.Operators[e.ToOperator].Inputs
	if !inRange(e.Input, len(inputs)) || inputs[e.Input].Operator != e.FromOperator {
		return fmt.Errorf("is no edge of the graph")
	}
	from, to := t.plan.Chains[e.FromChain], t.plan.Chains[e.ToChain]
	if !slices.Contains(from.Operators, e.FromOperator) || len(to.Operators) == 0 || to.Operators[0] != e.ToOperator {
		return fmt.Errorf("does not lead from its chain to the head of another")
	}
	if err := checkPartitioner(e.Partitioner, int(from.Parallelism), int(to.Parallelism)); err != nil {
		return err
	}
	if e.Exchange != jobpb.ExchangeKind_EXCHANGE_PIPELINED {
		return fmt.Errorf("%v is not known to this runtime", e.Exchange)
	}
	ref := inputRef{e.ToOperator, e.Input}
	if t.edges[ref] != nil {
		return fmt.Errorf("stands twice in the plan")
	}
	x := t.prog.Nodes[e.ToOperator].Exchanges
	if int(e.Input) >= len(x) || x[e.Input] == nil {
		return fmt.Errorf("the program has no exchange for it")
	}
	if keyed := e.Partitioner == jobpb.Partitioner_PARTITIONER_HASH; keyed && !x[e.Input].keyed() {
		return fmt.Errorf("hash partitioner without a key")
	}
	t.edges[ref] = e
	return nil
}

// checkChains: every operator stands in one chain; the head reads edges or is a source; every other one has a single
// input, from an operator before it in the same chain.
func (t *topology) checkChains() error {
	seen := make([]bool, len(t.prog.Nodes))
	for i, c := range t.plan.Chains {
		if int(c.Index) != i || len(c.Operators) == 0 || c.Parallelism < 1 || c.Parallelism > t.plan.Graph.MaxParallelism {
			return fmt.Errorf("plan: chain %d is malformed", i)
		}
		for k, op := range c.Operators {
			if !inRange(op, len(seen)) || seen[op] {
				return fmt.Errorf("plan: chain %d: operator %d is unknown or stands twice", i, op)
			}
			seen[op] = true
			if err := t.checkLink(c.Operators[:k], op); err != nil {
				return fmt.Errorf("plan: chain %d: %s: %w", i, t.prog.Graph.Operators[op].Id, err)
			}
		}
	}
	if op := slices.Index(seen, false); op >= 0 {
		return fmt.Errorf("plan: %s stands in no chain", t.prog.Graph.Operators[op].Id)
	}
	return nil
}

func (t *topology) checkLink(before []int32, op int32) error {
	inputs := t.prog.Graph.Operators[op].Inputs
	for i, in := range inputs {
		edge := t.edges[inputRef{op, int32(i)}] != nil
		switch {
		case len(before) == 0 && !edge:
			return fmt.Errorf("input %d of the head has no edge", i)
		case len(before) > 0 && (edge || len(inputs) > 1):
			return fmt.Errorf("an operator inside a chain has one input, by a direct call")
		case len(before) > 0 && !slices.Contains(before, in.Operator):
			return fmt.Errorf("its producer is not before it in the chain")
		}
	}
	if len(before) > 0 && len(inputs) == 0 {
		return fmt.Errorf("a source inside a chain")
	}
	return nil
}

func inRange(i int32, n int) bool { return i >= 0 && int(i) < n }

// sameGraph compares what the build function of this process made with what the plan was made of. They differ when
// the build function is not a pure function of its configuration.
func sameGraph(mine, planned *jobpb.Graph) error {
	if planned == nil {
		return fatal(CodeDeploy, "the deployment has no plan")
	}
	for i, o := range mine.Operators {
		if i >= len(planned.Operators) {
			return fatal(CodePlan, "operator %d (%s, %s) of this process is not in the plan; %s", i, o.Id, o.Location, purity)
		}
		if d := difference(o, planned.Operators[i]); d != "" {
			return fatal(CodePlan, "operator %d (%s, %s): %s; %s", i, o.Id, o.Location, d, purity)
		}
	}
	if n := len(mine.Operators); n < len(planned.Operators) {
		return fatal(CodePlan, "operator %d (%s) of the plan is missing in this process; %s", n, planned.Operators[n].Id, purity)
	}
	return nil
}

const purity = "the build function must be a pure function of its configuration: no clock, randomness, environment or order of a map"

// difference names the first thing in which two operators differ for the program; empty: none. Lines of source and
// what only people read do not count.
func difference(mine, planned *jobpb.Operator) string {
	switch {
	case mine.Id != planned.Id:
		return fmt.Sprintf("the plan has %q in its place", planned.Id)
	case mine.Kind != planned.Kind:
		return fmt.Sprintf("it is a %s, in the plan a %s", mine.Kind, planned.Kind)
	case mine.OutputSchema != planned.OutputSchema:
		return fmt.Sprintf("it emits %s, in the plan %s", mine.OutputSchema, planned.OutputSchema)
	case len(mine.Inputs) != len(planned.Inputs):
		return fmt.Sprintf("it has %d inputs, in the plan %d", len(mine.Inputs), len(planned.Inputs))
	}
	for i, in := range mine.Inputs {
		p := planned.Inputs[i]
		if in.Operator != p.Operator || in.Port != p.Port || in.KeySchema != p.KeySchema {
			return fmt.Sprintf("input %d differs from the plan's", i)
		}
	}
	return ""
}

// Validate checks that the typed parts match the graph.
func (p *Program) Validate() error {
	if p == nil || p.Graph == nil || len(p.Graph.Operators) == 0 {
		return fmt.Errorf("the program has no operators")
	}
	if len(p.Nodes) != len(p.Graph.Operators) {
		return fmt.Errorf("the graph has %d operators, the program %d nodes", len(p.Graph.Operators), len(p.Nodes))
	}
	for i, o := range p.Graph.Operators {
		if err := p.Nodes[i].validate(o, i); err != nil {
			return fmt.Errorf("operator %d (%s): %w", i, o.Id, err)
		}
	}
	return nil
}

func (n *Node) validate(o *jobpb.Operator, index int) error {
	for i, in := range o.Inputs {
		if in.Operator < 0 || int(in.Operator) >= index {
			return fmt.Errorf("input %d does not come from an operator before it", i)
		}
	}
	switch {
	case (n.Source != nil) != (len(o.Inputs) == 0):
		return fmt.Errorf("a source has no inputs, and everything else has some")
	case len(n.Stages) != len(o.Inputs):
		return fmt.Errorf("%d stages for %d inputs", len(n.Stages), len(o.Inputs))
	case slices.Contains(n.Stages, nil):
		return fmt.Errorf("a stage is missing")
	}
	return nil
}
