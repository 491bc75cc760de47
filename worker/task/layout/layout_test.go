package layout

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task/fault"
)

// example is source → map, keyed by into count, which joins another source.
func example() *jobpb.Plan {
	g := &jobpb.Graph{Operators: []*jobpb.Operator{
		{Id: "a", Kind: "source"},
		{Id: "map", Kind: "map", Inputs: []*jobpb.Input{{Operator: 0}}},
		{Id: "b", Kind: "source"},
		{Id: "join", Kind: "join", Inputs: []*jobpb.Input{{Operator: 1, Partitioner: hash}, {Operator: 2, Partitioner: hash}}},
		{Id: "odd", Kind: "sink", Inputs: []*jobpb.Input{{Operator: 3, Port: "odd"}}},
	}}
	return &jobpb.Plan{
		Graph: g, Fingerprint: graph.Fingerprint(g),
		Chains: []*jobpb.Chain{
			{Index: 0, Operators: []int32{0, 1}, Parallelism: 2},
			{Index: 1, Operators: []int32{2}, Parallelism: 1},
			{Index: 2, Operators: []int32{3, 4}, Parallelism: 3},
		},
		Edges: []*jobpb.Edge{
			{Index: 0, FromOperator: 1, ToOperator: 3, Input: 0, FromChain: 0, ToChain: 2, Partitioner: hash, Exchange: pipelined},
			{Index: 1, FromOperator: 2, ToOperator: 3, Input: 1, FromChain: 1, ToChain: 2, Partitioner: hash, Exchange: pipelined},
		},
	}
}

const (
	hash      = jobpb.Partitioner_PARTITIONER_HASH
	pipelined = jobpb.ExchangeKind_EXCHANGE_PIPELINED
)

func keyed(Input) Link { return Keyed }

func TestALayoutKnowsEdgesConsumersAndRanges(t *testing.T) {
	p := example()
	l, err := New(p.Graph, p, keyed)
	if err != nil {
		t.Fatal(err)
	}
	if l.Edges[Input{3, 1}] != p.Edges[1] || l.Edges[Input{1, 0}] != nil {
		t.Errorf("edges %v", l.Edges)
	}
	if len(l.Consumers[3]) != 1 || l.Consumers[3][0] != (Input{4, 0}) || len(l.Consumers[4]) != 0 {
		t.Errorf("consumers %v", l.Consumers)
	}
	if l.Port(Input{4, 0}) != "odd" || l.ID(3) != "join" || l.KeyGroups != int(graph.KeyGroups(p.Graph)) {
		t.Errorf("port %q, id %q, %d key groups", l.Port(Input{4, 0}), l.ID(3), l.KeyGroups)
	}
	if got := l.ConsumersOf(p.Edges[0], 1); got != (Span{0, 3}) {
		t.Errorf("consumers of producer 1: %v", got)
	}
	if got := l.ProducersOf(p.Edges[0], 2); got != (Span{0, 2}) {
		t.Errorf("producers of consumer 2: %v", got)
	}
	p.Edges[0].Partitioner = jobpb.Partitioner_PARTITIONER_GLOBAL
	if got := l.ProducersOf(p.Edges[0], 2); got.First != got.End {
		t.Errorf("consumer 2 of a global edge reads %v", got)
	}
}

func TestPlansThatThisBinaryCannotRunAreRefused(t *testing.T) {
	for text, change := range map[string]func(*jobpb.Plan) func(Input) Link{
		"this process built another job": func(p *jobpb.Plan) func(Input) Link {
			p.Graph.Operators[1].Kind = "filter"
			p.Fingerprint = graph.Fingerprint(p.Graph)
			return keyed
		},
		"edge 0: does not lead to the head of a chain": func(p *jobpb.Plan) func(Input) Link {
			p.Chains[2].Operators = []int32{4, 3}
			return keyed
		},
		"edge 0: EXCHANGE_AUTO: not known": func(p *jobpb.Plan) func(Input) Link {
			p.Edges[0].Exchange = jobpb.ExchangeKind_EXCHANGE_AUTO
			return keyed
		},
		"edge 1: custom partitioner without a function": func(p *jobpb.Plan) func(Input) Link {
			p.Edges[1].Partitioner = jobpb.Partitioner_PARTITIONER_CUSTOM
			return keyed
		},
		"edge 1: stands twice": func(p *jobpb.Plan) func(Input) Link {
			p.Edges[1] = proto.CloneOf(p.Edges[0])
			return keyed
		},
		"edge 0: the program has no exchange":    func(p *jobpb.Plan) func(Input) Link { return func(Input) Link { return Missing } },
		"edge 0: hash partitioner without a key": func(p *jobpb.Plan) func(Input) Link { return func(Input) Link { return Plain } },
		"chain 2: join: input 1 of the head has no edge": func(p *jobpb.Plan) func(Input) Link {
			p.Edges = p.Edges[:1]
			return keyed
		},
		"chain 1: join: an operator inside a chain has one input, this one has 2": func(p *jobpb.Plan) func(Input) Link {
			p.Chains[1].Operators = []int32{2, 3}
			p.Chains[2].Operators = []int32{4}
			p.Edges = nil
			return keyed
		},
		"chain 0: map: an edge leads into the chain": func(p *jobpb.Plan) func(Input) Link {
			p.Chains[0].Operators = []int32{1, 0}
			p.Chains = append(p.Chains, &jobpb.Chain{Index: 3, Operators: []int32{0, 1}})
			p.Chains[0], p.Chains[3] = p.Chains[3], p.Chains[0]
			p.Edges = append(p.Edges, &jobpb.Edge{Index: 2, FromOperator: 0, ToOperator: 1, FromChain: 0, ToChain: 3, Exchange: pipelined})
			return keyed
		},
		"chain 1: odd: its producer is not before it": func(p *jobpb.Plan) func(Input) Link {
			p.Chains[1].Operators = []int32{2, 4}
			p.Chains[2].Operators = []int32{3}
			return keyed
		},
	} {
		p := example()
		g := proto.CloneOf(p.Graph)
		link := change(p)
		_, err := New(g, p, link)
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, want %q", err, text)
		}
	}
}

func TestAnotherJobIsNamedWithItsFirstDifference(t *testing.T) {
	p := example()
	g := proto.CloneOf(p.Graph)
	g.Operators[3].Id = "merge"
	_, err := New(g, p, keyed)
	f := fault.Failure(err)
	if f.Code != fault.CodePlan || f.Kind != jobpb.FailureKind_FAILURE_FATAL || !strings.Contains(f.Message, `operator 3 was join "join"`) || !strings.Contains(f.Message, "pure function") {
		t.Errorf("failure %v", f)
	}
}
