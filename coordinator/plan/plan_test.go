package plan

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/proto/jobpb"
)

const (
	forward  = jobpb.Partitioner_PARTITIONER_FORWARD
	hashed   = jobpb.Partitioner_PARTITIONER_HASH
	blocking = jobpb.ExchangeKind_EXCHANGE_BLOCKING
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
	endless := wordcount(false)
	large := wordcount(true)
	large.MaxParallelism = jobpb.MaxParallelism
	large.Operators = append(large.Operators, op("k2", true, in(3, hashed)), op("k3", true, in(4, hashed)))
	for _, c := range []struct {
		name, code, where string
		g                 *jobpb.Graph
		o                 Options
	}{
		{"batch mode over endless input", graph.CodeEndless, "main.go:1", endless, Options{Settings: map[string]string{"mode": "batch"}}},
		{"unknown setting", "E034", "", wordcount(true), Options{Settings: map[string]string{"paralelism": "2"}}},
		{"bad setting", "E036", "", wordcount(true), Options{Settings: map[string]string{"buffer.timeout": "x"}}},
		{"too many subtasks", CodeTooLarge, "", large, Options{Parallelism: 32768, Settings: nil, DefaultParallelism: 1}},
		{"no graph", graph.CodeMalformed, "", nil, Options{}},
	} {
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

func TestBatchModeOverEndlessInputNamesBothPlaces(t *testing.T) {
	inCode, bySetting := wordcount(false), wordcount(false)
	inCode.Mode, inCode.ModeLocation = jobpb.Mode_MODE_BATCH, "main.go:7"
	bySetting.Settings = map[string]string{"mode": "batch"}
	for name, c := range map[string]struct {
		g    *jobpb.Graph
		o    Options
		says string
	}{
		"a call in code":    {inCode, Options{}, "main.go:7"},
		"a setting in code": {bySetting, Options{}, "a setting in code"},
		"the command line":  {wordcount(false), Options{Settings: map[string]string{"mode": "batch"}}, "the command line"},
	} {
		_, ds := Make(c.g, c.o)
		if len(ds) != 1 || ds[0].Code != graph.CodeEndless || ds[0].Where != "main.go:1" || !strings.Contains(ds[0].Message, c.says) {
			t.Errorf("%s: %v", name, ds)
		}
	}
}

func TestWarningsStandInThePlanAndNotInTheGraph(t *testing.T) {
	g := wordcount(true)
	g.Warnings = []*jobpb.Diagnostic{{Code: "W022", Message: "from the code"}}
	p, ds := Make(g, Options{Settings: map[string]string{"mode": "batch", "checkpoint.dir": "/d"}})
	if p == nil || len(ds) != 1 || len(p.Graph.Warnings) != 2 || len(g.Warnings) != 1 {
		t.Fatalf("%v: %d in the plan, %d in the graph", ds, len(p.GetGraph().GetWarnings()), len(g.Warnings))
	}
	if p.Fingerprint != graph.Fingerprint(g) {
		t.Fatal("warnings change the fingerprint")
	}
}

func TestPlanKeepsEveryFieldOfTheGraph(t *testing.T) {
	g := wordcount(true)
	g.Mode, g.ModeLocation, g.DefaultParallelism, g.MaxParallelism = jobpb.Mode_MODE_STREAMING, "main.go:7", 2, 64
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

func TestWhichRegionsTakePartInCheckpoints(t *testing.T) {
	spills := wordcount(false)
	last := spills.Operators[len(spills.Operators)-1]
	last.BatchMemory, last.Location = true, "main.go:9"
	for name, c := range map[string]struct {
		g        *jobpb.Graph
		interval string // empty: not said
		want     string // by region: c takes part; or an error
	}{
		"endless":               {wordcount(false), "", "c"},
		"endless, switched off": {wordcount(false), "0s", "-"},
		"bounded":               {wordcount(true), "", "----"},
		"bounded, asked for":    {wordcount(true), "1s", "--cc"},
		"endless and spilling":  {spills, "", graph.CodeWhole + " main.go:9"},
	} {
		o := Options{Settings: map[string]string{}, Parallelism: 2}
		if c.interval != "" {
			o.Settings["checkpoint.interval"] = c.interval
		}
		p, ds := Make(c.g, o)
		got := ""
		for _, r := range p.GetRegions() {
			got += map[bool]string{true: "c", false: "-"}[r.Checkpointed]
		}
		for _, d := range ds {
			if d.Code == CodeNoCheckpoint || d.Code == graph.CodeWhole {
				got = d.Code + " " + d.Where
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q (%v)", name, got, c.want, ds)
		}
	}
}
