package task

import (
	"context"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/proto/jobpb"
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
