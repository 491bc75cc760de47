package plan

import "github.com/sluiceio/sluice/proto/jobpb"

// Options is what a plan depends on besides the graph.
type Options struct {
	// Settings are those given on the command line; they win over the graph's own.
	Settings map[string]string
	// Parallelism overrides the default parallelism of the graph; 0: not given.
	Parallelism int
	// DefaultParallelism is taken when neither command line, code nor setting says one: the cores of an embedded run, the
	// free slots of a cluster.
	DefaultParallelism int
	// Slots is the number of slots that exist: the meaning of a parallelism of -1. 0: unknown, DefaultParallelism is taken.
	Slots int
}

// Make plans g. Diagnostics with a code E… are errors, and then the plan is nil; those with W… are warnings and stand in
// the plan's graph, too.
func Make(g *jobpb.Graph, o Options) (*jobpb.Plan, []*jobpb.Diagnostic) { return nil, nil }
