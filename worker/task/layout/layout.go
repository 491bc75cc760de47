package layout

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task/fault"
)

// Input is one input of one operator.
type Input struct{ Op, Index int32 }

// Link is what the program of this binary has for an input that is not chained.
type Link uint8

const (
	// Missing: no exchange.
	Missing Link = iota
	// Plain routes without looking at the record.
	Plain
	// Keyed can route by key group, too.
	Keyed
	// Custom routes by a function of the user.
	Custom
)

// Layout is a plan that fits the program.
type Layout struct {
	Graph *jobpb.Graph
	Plan  *jobpb.Plan
	// KeyGroups is their number in the job.
	KeyGroups int
	// Edges by consuming input; an input without one is chained.
	Edges map[Input]*jobpb.Edge
	// Consumers by producing operator, in the order of the graph.
	Consumers [][]Input
}

// New lays out a valid plan for the graph g of this binary. link tells what the program has for an input.
func New(g *jobpb.Graph, plan *jobpb.Plan, link func(Input) Link) (*Layout, error) {
	if graph.Fingerprint(g) != plan.Fingerprint {
		return nil, fault.Fatal(fault.CodePlan, "this process built another job than the plan was made of: %s; %s", graph.Difference(plan.Graph, g), purity)
	}
	l := &Layout{
		Graph: g, Plan: plan, KeyGroups: int(graph.KeyGroups(plan.Graph)),
		Edges: map[Input]*jobpb.Edge{}, Consumers: make([][]Input, len(g.Operators)),
	}
	for op, o := range g.Operators {
		for i, in := range o.Inputs {
			l.Consumers[in.Operator] = append(l.Consumers[in.Operator], Input{int32(op), int32(i)})
		}
	}
	for i, e := range plan.Edges {
		if err := l.addEdge(e, link); err != nil {
			return nil, fmt.Errorf("plan: edge %d: %w", i, err)
		}
	}
	for i, c := range plan.Chains {
		for k, op := range c.Operators {
			if err := l.checkLink(c.Operators[:k], op); err != nil {
				return nil, fmt.Errorf("plan: chain %d: %s: %w", i, l.ID(op), err)
			}
		}
	}
	return l, nil
}

const purity = "the build function must be a pure function of its configuration: no clock, randomness, environment or order of a map"

// addEdge checks what a valid plan may still ask of a runtime that cannot do it.
func (l *Layout) addEdge(e *jobpb.Edge, link func(Input) Link) error {
	if l.Plan.Chains[e.ToChain].Operators[0] != e.ToOperator {
		return errors.New("does not lead to the head of a chain")
	}
	if e.Exchange != jobpb.ExchangeKind_EXCHANGE_PIPELINED && e.Exchange != jobpb.ExchangeKind_EXCHANGE_BLOCKING {
		return fmt.Errorf("%v: not known to this runtime", e.Exchange)
	}
	in := Input{e.ToOperator, e.Input}
	if l.Edges[in] != nil {
		return errors.New("stands twice in the plan")
	}
	switch has := link(in); {
	case has == Missing:
		return errors.New("the program has no exchange for it")
	case has != Keyed && e.Partitioner == jobpb.Partitioner_PARTITIONER_HASH:
		return errors.New("hash partitioner without a key")
	case has != Custom && e.Partitioner == jobpb.Partitioner_PARTITIONER_CUSTOM:
		return errors.New("custom partitioner without a function")
	}
	l.Edges[in] = e
	return nil
}

// checkLink: the head reads edges or is a source; every other operator has a single input, from an operator before it
// in the same chain.
func (l *Layout) checkLink(before []int32, op int32) error {
	inputs := l.Graph.Operators[op].Inputs
	if len(before) > 0 && len(inputs) != 1 {
		return fmt.Errorf("an operator inside a chain has one input, this one has %d", len(inputs))
	}
	for i, in := range inputs {
		edge := l.Edges[Input{op, int32(i)}] != nil
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

// ID is the id of an operator.
func (l *Layout) ID(op int32) string { return l.Graph.Operators[op].Id }

// Port is the side output that an input reads; empty: the main output.
func (l *Layout) Port(in Input) string { return l.Graph.Operators[in.Op].Inputs[in.Index].Port }
