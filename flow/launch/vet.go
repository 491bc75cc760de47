package launch

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Builds is how often vet builds. With the order of a map in the graph two builds overlook one in three, eight one in
// three hundred.
const Builds = 8

// vet builds repeatedly, compares, and checks everything that can be checked without running.
func (c command) vet() int {
	prog, diags := c.job.Build(c.args.Params)
	if len(diags) == 0 {
		diags = Deterministic(prog.Graph, func() (*jobpb.Graph, []*jobpb.Diagnostic) {
			again, diags := c.job.Build(c.args.Params)
			if len(diags) > 0 {
				return nil, diags
			}
			return again.Graph, nil
		})
	}
	var p *jobpb.Plan
	if len(diags) == 0 {
		p, diags = makePlan(prog.Graph, c.args.Settings, runtime.GOMAXPROCS(0))
	}
	if len(diags) > 0 {
		return planFault(c.streams, diags)
	}
	printDiagnostics(c.streams.Err, "warning", p.Graph.Warnings)
	fmt.Fprintf(c.streams.Out, "%s is sound: %d operators, fingerprint %s, equal in %d builds\n",
		c.job.Name, len(prog.Graph.Operators), graph.Fingerprint(prog.Graph), Builds)
	return ExitOK
}

// Deterministic builds until there are Builds graphs and reports the first difference.
func Deterministic(first *jobpb.Graph, build func() (*jobpb.Graph, []*jobpb.Diagnostic)) []*jobpb.Diagnostic {
	want := graph.Fingerprint(first)
	for range Builds - 1 {
		g, diags := build()
		if len(diags) > 0 {
			return diags
		}
		if graph.Fingerprint(g) != want {
			return []*jobpb.Diagnostic{notDeterministic(first, g)}
		}
	}
	return nil
}

func notDeterministic(a, b *jobpb.Graph) *jobpb.Diagnostic {
	where, difference := firstDifference(a, b)
	return &jobpb.Diagnostic{
		Code:    "E030",
		Message: "two builds with the same parameters gave different plans: " + difference,
		Where:   where,
		Hints: []string{
			"build must be a pure function of its configuration: sort the keys of maps, read no clock, no random number, no environment and no file",
		},
	}
}

func firstDifference(a, b *jobpb.Graph) (where, difference string) {
	for i := range max(len(a.Operators), len(b.Operators)) {
		if i >= len(a.Operators) || i >= len(b.Operators) {
			more := append(slices.Clone(a.Operators[min(i, len(a.Operators)):]), b.Operators[min(i, len(b.Operators)):]...)
			return more[0].Location, fmt.Sprintf("%d operators, then %d; %s is in one only", len(a.Operators), len(b.Operators), more[0].Id)
		}
		if x, y := line(a.Operators[i]), line(b.Operators[i]); x != y {
			return a.Operators[i].Location, fmt.Sprintf("operator %d was\n    %s\n  and then\n    %s", i, x, y)
		}
	}
	x, y := proto.CloneOf(a), proto.CloneOf(b)
	x.Operators, y.Operators = nil, nil
	return "", fmt.Sprintf("the pipeline was\n    %s\n  and then\n    %s", text(x), text(y))
}

// line is an operator without its place in the source, which is no part of the plan's identity.
func line(op *jobpb.Operator) string {
	op = proto.CloneOf(op)
	op.Location = ""
	return text(op)
}

// text is one line. prototext varies its white space on purpose.
func text(m proto.Message) string {
	return strings.Join(strings.Fields(prototext.MarshalOptions{}.Format(m)), " ")
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
