package task

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task/layout"
)

// Program is a job as its own binary knows it: the logical graph and, by operator, the typed parts. It is immutable
// and shared by all subtasks of a process.
type Program struct {
	Graph *jobpb.Graph
	Nodes []Node // by operator index
}

// Node is the typed part of one operator.
type Node struct {
	// Source is set for sources only.
	Source SourceHead
	// Stages has one per input; nil for sources.
	Stages []Stage
	// Exchanges has one per input: used when the edge is not chained.
	Exchanges []Exchange
	// Committer opens a committer; set for committing sinks only.
	Committer func(ctx context.Context, t *connector.Task) (connector.Committer, error)
}

// Validate checks that the typed parts match the graph.
func (p *Program) Validate() error {
	if p == nil || p.Graph == nil || len(p.Graph.Operators) == 0 {
		return errors.New("the program has no operators")
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
		return errors.New("a source has no inputs, and everything else has some")
	case len(n.Stages) != len(o.Inputs):
		return fmt.Errorf("%d stages for %d inputs", len(n.Stages), len(o.Inputs))
	case slices.Contains(n.Stages, nil):
		return errors.New("a stage is missing")
	}
	return nil
}

// link tells what there is for an input that is not chained.
func (p *Program) link(in layout.Input) layout.Link {
	x := p.Nodes[in.Op].Exchanges
	if int(in.Index) >= len(x) || x[in.Index] == nil {
		return layout.Missing
	}
	return x[in.Index].Link()
}
