package plan

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/proto/jobpb"
)

const (
	forward   = jobpb.Partitioner_PARTITIONER_FORWARD
	hashed    = jobpb.Partitioner_PARTITIONER_HASH
	global    = jobpb.Partitioner_PARTITIONER_GLOBAL
	pipelined = jobpb.ExchangeKind_EXCHANGE_PIPELINED
	blocking  = jobpb.ExchangeKind_EXCHANGE_BLOCKING
)

func source(id string, bounded bool) *jobpb.Operator {
	return &jobpb.Operator{Id: id, Kind: "source", Bounded: bounded, Location: "main.go:1"}
}

func op(id string, bounded bool, ins ...*jobpb.Input) *jobpb.Operator {
	return &jobpb.Operator{Id: id, Kind: "map", Bounded: bounded, Inputs: ins, Location: "main.go:2"}
}

func in(o int32, p jobpb.Partitioner) *jobpb.Input { return &jobpb.Input{Operator: o, Partitioner: p} }

func wordcount(bounded bool) *jobpb.Graph {
	out := op("out", bounded, in(2, forward))
	out.Kind = "sink"
	return &jobpb.Graph{Name: "wordcount", Operators: []*jobpb.Operator{
		source("lines", bounded), op("split", bounded, in(0, forward)), op("count", bounded, in(1, hashed)), out,
	}}
}

func summary(p *jobpb.Plan) string {
	var b strings.Builder
	for _, c := range p.Chains {
		fmt.Fprintf(&b, "%s×%d; ", c.Name, c.Parallelism)
	}
	for _, e := range p.Edges {
		fmt.Fprintf(&b, "%d→%d %s %s (%s); ", e.FromChain, e.ToChain, graph.PartitionerName(e.Partitioner), graph.ExchangeName(e.Exchange), e.Reason)
	}
	fmt.Fprintf(&b, "%d regions, %d slots", len(p.Regions), p.Slots)
	return b.String()
}

func mustPlan(t *testing.T, g *jobpb.Graph, o Options) *jobpb.Plan {
	t.Helper()
	p, ds := Make(g, o)
	if p == nil {
		t.Fatalf("no plan: %v", ds)
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlans(t *testing.T) {
	exchange := func(g *jobpb.Graph, op int, x jobpb.ExchangeKind) *jobpb.Graph {
		g.Operators[op].Inputs[0].Exchange = x
		return g
	}
	parallel := func(g *jobpb.Graph, op int, n int32) *jobpb.Graph { g.Operators[op].Parallelism = n; return g }
	group := func(g *jobpb.Graph, op int, name string) *jobpb.Graph { g.Operators[op].SlotGroup = name; return g }
	for _, c := range []struct {
		name string
		g    *jobpb.Graph
		o    Options
		want string
	}{
		{"a keyed job is two chains and one region", wordcount(true), Options{DefaultParallelism: 4},
			"lines → split×4; count → out×4; 0→1 hash PIPELINED (bounded input, pipelined); 1 regions, 4 slots"},
		{"endless input", wordcount(false), Options{DefaultParallelism: 2},
			"lines → split×2; count → out×2; 0→1 hash PIPELINED (unbounded input); 1 regions, 2 slots"},
		{"command line over code over default", wordcount(true), Options{DefaultParallelism: 4, Settings: map[string]string{"parallelism": "3"}},
			"lines → split×3; count → out×3; 0→1 hash PIPELINED (bounded input, pipelined); 1 regions, 3 slots"},
		{"all slots", parallel(wordcount(true), 0, -1), Options{DefaultParallelism: 2, Slots: 6},
			"lines×6; split×2; count → out×2; 0→1 rebalance PIPELINED (bounded input, pipelined; parallelism 6 to 2, so records are rebalanced); " +
				"1→2 hash PIPELINED (bounded input, pipelined); 1 regions, 6 slots"},
		{"no more keyed subtasks than key groups", &jobpb.Graph{Name: "g", MaxParallelism: 3, Operators: wordcount(true).Operators}, Options{DefaultParallelism: 5},
			"lines → split×5; count×3; out×5; 0→1 hash PIPELINED (bounded input, pipelined); 1→2 rebalance PIPELINED (bounded input, pipelined; parallelism 3 to 5, so records are rebalanced); 1 regions, 5 slots"},
		{"slot groups part chains and add slots", group(wordcount(true), 1, "heavy"), Options{DefaultParallelism: 2},
			"lines×2; split×2; count → out×2; 0→1 forward PIPELINED (bounded input, pipelined); 1→2 hash PIPELINED (bounded input, pipelined); 1 regions, 4 slots"},
		{"streaming mode", &jobpb.Graph{Name: "g", Mode: jobpb.Mode_MODE_STREAMING, Operators: wordcount(true).Operators}, Options{DefaultParallelism: 1, Exchanges: Automatic},
			"lines → split×1; count → out×1; 0→1 hash PIPELINED (streaming mode); 1 regions, 1 slots"},
		{"the automatic rule", wordcount(true), Options{DefaultParallelism: 2, Exchanges: Automatic},
			"lines → split×2; count → out×2; 0→1 hash BLOCKING (bounded input); 3 regions, 2 slots"},
		{"the user wins over the rule", exchange(wordcount(true), 2, pipelined), Options{DefaultParallelism: 2, Exchanges: Automatic},
			"lines → split×2; count → out×2; 0→1 hash PIPELINED (explicit); 1 regions, 2 slots"},
		{"global collects in one subtask", &jobpb.Graph{Name: "g", Operators: []*jobpb.Operator{source("a", true), op("b", true, in(0, global))}}, Options{DefaultParallelism: 3},
			"a×3; b×1; 0→1 global PIPELINED (bounded input, pipelined); 1 regions, 3 slots"},
		{"two consumers share a chain with their producer", &jobpb.Graph{Name: "g", Operators: []*jobpb.Operator{source("a", true), op("b", true, in(0, forward)), op("c", true, in(0, forward))}},
			Options{DefaultParallelism: 2}, "a → b → c×2; 1 regions, 2 slots"},
		{"a union stands alone", &jobpb.Graph{Name: "g", Operators: []*jobpb.Operator{source("a", true), source("b", true), op("u", true, in(0, forward), in(1, forward))}},
			Options{DefaultParallelism: 2}, "a×2; b×2; u×2; 0→2 forward PIPELINED (bounded input, pipelined); 1→2 forward PIPELINED (bounded input, pipelined); 1 regions, 2 slots"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := summary(mustPlan(t, c.g, c.o)); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestPrecedenceOfParallelism(t *testing.T) {
	g := wordcount(true)
	g.DefaultParallelism, g.Settings = 5, map[string]string{"parallelism": "6"}
	for _, c := range []struct {
		o    Options
		want int32
	}{
		{Options{Parallelism: 3, Settings: map[string]string{"parallelism": "4"}, DefaultParallelism: 7}, 3},
		{Options{Settings: map[string]string{"parallelism": "4"}, DefaultParallelism: 7}, 4},
		{Options{Settings: map[string]string{"parallelism": "all"}, DefaultParallelism: 7, Slots: 9}, 9},
		{Options{DefaultParallelism: 7}, 5},
	} {
		if got := mustPlan(t, g, c.o).Chains[0].Parallelism; got != c.want {
			t.Errorf("%+v: %d, want %d", c.o, got, c.want)
		}
	}
	g.DefaultParallelism = 0
	if got := mustPlan(t, g, Options{DefaultParallelism: 7}).Chains[0].Parallelism; got != 6 {
		t.Errorf("setting in code: %d", got)
	}
	g.Settings = nil
	if got := mustPlan(t, g, Options{}).Chains[0].Parallelism; got != 1 {
		t.Errorf("nothing known: %d", got)
	}
}

func TestFaultsCarryCodeAndPlace(t *testing.T) {
	asked := wordcount(true)
	asked.Operators[2].Inputs[0].Exchange = blocking
	endless := wordcount(false)
	large := wordcount(true)
	large.MaxParallelism = jobpb.MaxParallelism
	for _, c := range []struct {
		name, code, where string
		g                 *jobpb.Graph
		o                 Options
	}{
		{"blocking exchange", CodeNoBlocking, "main.go:2", asked, Options{}},
		{"batch mode over endless input", graph.CodeEndless, "main.go:1", endless, Options{Settings: map[string]string{"mode": "batch"}}},
		{"unknown setting", "E034", "", wordcount(true), Options{Settings: map[string]string{"paralelism": "2"}}},
		{"bad setting", "E036", "", wordcount(true), Options{Settings: map[string]string{"buffer.timeout": "x"}}},
		{"too many subtasks", CodeTooLarge, "", large, Options{Parallelism: 32768, Settings: nil, DefaultParallelism: 1}},
		{"no graph", graph.CodeMalformed, "", nil, Options{}},
	} {
		if c.name == "too many subtasks" {
			c.g.Operators = append(c.g.Operators, op("k2", true, in(3, hashed)), op("k3", true, in(4, hashed)))
		}
		p, ds := Make(c.g, c.o)
		found := false
		for _, d := range ds {
			found = found || d.Code == c.code && d.Where == c.where && d.Message != ""
		}
		if p != nil || !found {
			t.Errorf("%s: plan %v, diagnostics %v", c.name, p != nil, ds)
		}
	}
}

func TestWarningsStandInThePlanAndNotInTheGraph(t *testing.T) {
	g := wordcount(true)
	g.Warnings = []*jobpb.Diagnostic{{Code: "W022", Message: "from the code"}}
	p, ds := Make(g, Options{Settings: map[string]string{"mode": "batch", "checkpoint.interval": "1s"}})
	if p == nil || len(ds) != 2 || len(p.Graph.Warnings) != 3 || len(g.Warnings) != 1 {
		t.Fatalf("%v: %d in the plan, %d in the graph", ds, len(p.GetGraph().GetWarnings()), len(g.Warnings))
	}
	if p.Fingerprint != graph.Fingerprint(g) {
		t.Fatal("warnings change the fingerprint")
	}
}

func TestPlanKeepsEveryFieldOfTheGraph(t *testing.T) {
	g := wordcount(true)
	g.Mode, g.DefaultParallelism, g.MaxParallelism = jobpb.Mode_MODE_STREAMING, 2, 64
	g.Params, g.Settings = map[string]string{"a": "b"}, map[string]string{"restart": "none"}
	g.Warnings = []*jobpb.Diagnostic{{Code: "W022"}}
	fields := g.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if !g.ProtoReflect().Has(fields.Get(i)) {
			t.Fatalf("give field %s a value here", fields.Get(i).Name())
		}
	}
	if p := mustPlan(t, g, Options{}); !proto.Equal(g, p.Graph) {
		t.Fatalf("the plan's graph is %v, the job's was %v", p.Graph, g)
	}
}

func TestEveryGraphGivesAValidPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &jobpb.Graph{Name: "g", MaxParallelism: 8}
		n := rapid.Int32Range(1, 8).Draw(t, "operators")
		for i := range n {
			o := &jobpb.Operator{Id: fmt.Sprint("o", i), Kind: "map", Bounded: true, SlotGroup: rapid.SampledFrom([]string{"", "a"}).Draw(t, "group"),
				Parallelism: rapid.Int32Range(-1, 6).Draw(t, "parallelism")}
			if i > 0 {
				for range rapid.IntRange(0, 3).Draw(t, "inputs") {
					o.Inputs = append(o.Inputs, &jobpb.Input{
						Operator:    rapid.Int32Range(0, i-1).Draw(t, "from"),
						Partitioner: jobpb.Partitioner(rapid.Int32Range(0, 6).Draw(t, "partitioner")),
						Exchange:    jobpb.ExchangeKind(rapid.Int32Range(0, 2).Draw(t, "exchange")),
					})
				}
			}
			g.Operators = append(g.Operators, o)
		}
		o := Options{DefaultParallelism: rapid.IntRange(0, 5).Draw(t, "default"), Slots: rapid.IntRange(0, 5).Draw(t, "slots"), Exchanges: Automatic}
		p, ds := Make(g, o)
		if p == nil {
			t.Fatalf("no plan: %v", ds)
		}
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		inputs := 0
		for _, op := range g.Operators {
			inputs += len(op.Inputs)
		}
		chained := 0
		for _, c := range p.Chains {
			chained += len(c.Operators) - 1
		}
		if len(p.Edges)+chained != inputs {
			t.Fatalf("%d inputs became %d edges and %d joints", inputs, len(p.Edges), chained)
		}
		again, _ := Make(proto.CloneOf(g), o)
		if !proto.Equal(p, again) {
			t.Fatal("the same graph gives another plan")
		}
	})
}
