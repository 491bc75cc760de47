package task

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task/fault"
)

// inputRef is one input of one operator.
type inputRef struct{ op, input int32 }

// topology is a plan that was checked against the program of this binary: what wiring needs to know without asking
// again whether it makes sense. Immutable.
type topology struct {
	prog      *Program
	plan      *jobpb.Plan
	keyGroups int
	edges     map[inputRef]*jobpb.Edge
	consumers [][]inputRef // by producing operator, in the order of the graph
}

// newTopology takes a valid plan.
func newTopology(prog *Program, plan *jobpb.Plan) (*topology, error) {
	if graph.Fingerprint(prog.Graph) != plan.Fingerprint {
		return nil, fault.Fatal(fault.CodePlan, "this process built another job than the plan was made of: %s; %s",
			graph.Difference(plan.Graph, prog.Graph), purity)
	}
	t := &topology{
		prog: prog, plan: plan, keyGroups: int(graph.KeyGroups(plan.Graph)),
		edges: map[inputRef]*jobpb.Edge{}, consumers: make([][]inputRef, len(prog.Nodes)),
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
	for i, c := range plan.Chains {
		for k, op := range c.Operators {
			if err := t.checkLink(c.Operators[:k], op); err != nil {
				return nil, fmt.Errorf("plan: chain %d: %s: %w", i, prog.Graph.Operators[op].Id, err)
			}
		}
	}
	return t, nil
}

const purity = "the build function must be a pure function of its configuration: no clock, randomness, environment or order of a map"

// addEdge checks what a valid plan may still ask of a runtime that cannot do it.
func (t *topology) addEdge(e *jobpb.Edge) error {
	if t.plan.Chains[e.ToChain].Operators[0] != e.ToOperator {
		return errors.New("does not lead to the head of a chain")
	}
	if e.Exchange != jobpb.ExchangeKind_EXCHANGE_PIPELINED || e.Partitioner == jobpb.Partitioner_PARTITIONER_CUSTOM {
		return fmt.Errorf("%v, %v: not known to this runtime", e.Exchange, e.Partitioner)
	}
	ref := inputRef{e.ToOperator, e.Input}
	if t.edges[ref] != nil {
		return errors.New("stands twice in the plan")
	}
	x := t.prog.Nodes[e.ToOperator].Exchanges
	if int(e.Input) >= len(x) || x[e.Input] == nil {
		return errors.New("the program has no exchange for it")
	}
	if keyed := e.Partitioner == jobpb.Partitioner_PARTITIONER_HASH; keyed && !x[e.Input].keyed() {
		return errors.New("hash partitioner without a key")
	}
	t.edges[ref] = e
	return nil
}

// checkLink: the head reads edges or is a source; every other operator has a single input, from an operator before it
// in the same chain.
func (t *topology) checkLink(before []int32, op int32) error {
	inputs := t.prog.Graph.Operators[op].Inputs
	if len(before) > 0 && len(inputs) != 1 {
		return fmt.Errorf("an operator inside a chain has one input, this one has %d", len(inputs))
	}
	for i, in := range inputs {
		edge := t.edges[inputRef{op, int32(i)}] != nil
		switch {
		case len(before) == 0 && !edge:
			return fmt.Errorf("input %d of the head has no edge", i)
		case len(before) > 0 && edge:
			return errors.New("an edge leads into the chain")
		case len(before) > 0 && !slices.Contains(before, in.Operator):
			return errors.New("its producer is not before it in the chain")
		}
	}
	return nil
}
