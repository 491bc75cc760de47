package graph

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/proto/jobpb"
)

func sample() *jobpb.Graph {
	return &jobpb.Graph{
		Name: "flights", Params: map[string]string{"query": "f1", "rate": "0"}, Settings: map[string]string{"restart": "none"},
		Operators: []*jobpb.Operator{
			{Id: "in", Kind: "source", Location: "main.go:10", Bounded: true, Detail: "data/*.csv", OutputSchema: "{a:int}"},
			{Id: "count", Kind: "count", Location: "main.go:12", Bounded: true, Stateful: true, OutputSchema: "{k:string,v:int}",
				Inputs: []*jobpb.Input{{Operator: 0, Partitioner: jobpb.Partitioner_PARTITIONER_HASH, KeySchema: "string"}},
				States: []*jobpb.StateDeclaration{{Kind: "value", Name: "n", Schema: "int", Flat: true}}},
			{Id: "out", Kind: "sink", Location: "main.go:14", Bounded: true, Guarantee: jobpb.Guarantee_GUARANTEE_EXACTLY_ONCE,
				Inputs: []*jobpb.Input{{Operator: 1}}},
		},
	}
}

func TestValidateFindsEachFaultOnce(t *testing.T) {
	if ds := Validate(sample()); len(ds) != 0 {
		t.Fatal(ds)
	}
	for _, c := range []struct {
		name, code string
		change     func(*jobpb.Graph)
	}{
		{"no id", CodeNoID, func(g *jobpb.Graph) { g.Operators[1].Id = "" }},
		{"double id", CodeDoubleID, func(g *jobpb.Graph) { g.Operators[2].Id = "count" }},
		{"line break in an id", CodeBadID, func(g *jobpb.Graph) { g.Operators[2].Id = "out\n" }},
		{"path in an id", CodeBadID, func(g *jobpb.Graph) { g.Operators[2].Id = "../out" }},
		{"dots as an id", CodeBadID, func(g *jobpb.Graph) { g.Operators[2].Id = ".." }},
		{"long id", CodeBadID, func(g *jobpb.Graph) { g.Operators[2].Id = strings.Repeat("x", maxID+1) }},
		{"state of endless input without an id", CodeNoID, func(g *jobpb.Graph) {
			g.Operators[1].GeneratedId = true
			for _, o := range g.Operators {
				o.Bounded = false
			}
		}},
		{"blocking behind endless input", CodeBlocking, func(g *jobpb.Graph) {
			for _, o := range g.Operators {
				o.Bounded = false
			}
			g.Operators[2].Inputs[0].Exchange = jobpb.ExchangeKind_EXCHANGE_BLOCKING
		}},
		{"batch mode with endless input", CodeEndless, func(g *jobpb.Graph) {
			g.Mode = jobpb.Mode_MODE_BATCH
			for _, o := range g.Operators {
				o.Bounded = false
			}
		}},
		{"more keyed subtasks than key groups", CodeParallelism, func(g *jobpb.Graph) { g.Operators[1].Parallelism, g.MaxParallelism = 9, 8 }},
		{"lies about its bounds", CodeMalformed, func(g *jobpb.Graph) { g.Operators[1].Bounded = false }},
		{"reads from what follows", CodeMalformed, func(g *jobpb.Graph) { g.Operators[1].Inputs[0].Operator = 2 }},
		{"no operators", CodeMalformed, func(g *jobpb.Graph) { g.Operators = nil }},
		{"unknown partitioner", CodeMalformed, func(g *jobpb.Graph) { g.Operators[1].Inputs[0].Partitioner = 99 }},
	} {
		g := sample()
		c.change(g)
		ds := Validate(g)
		if c.name == "lies about its bounds" {
			ds = ds[:min(1, len(ds))] // the consumer's bounds no longer fit either
		}
		if len(ds) != 1 || ds[0].Code != c.code || len(ds[0].Hints) == 0 {
			t.Errorf("%s: %v", c.name, ds)
		}
		if c.code != CodeMalformed && ds[0].Where == "" {
			t.Errorf("%s: no place", c.name)
		}
	}
	if ds := Validate(nil); len(ds) != 1 {
		t.Error("nil graph", ds)
	}
}

// outside are fields that the fingerprint leaves out on purpose: texts for people.
var outside = map[protoreflect.FullName]bool{
	"sluice.job.Operator.location": true, "sluice.job.Operator.detail": true, "sluice.job.Operator.generated_id": true, "sluice.job.Graph.warnings": true,
	"sluice.job.Graph.mode_location": true, "sluice.job.Input.location": true, "sluice.job.Input.why": true,
}

func TestFingerprintCoversEveryFieldThatMatters(t *testing.T) {
	base := Fingerprint(sample())
	visit := func(path string, find func(*jobpb.Graph) protoreflect.Message) {
		fields := find(sample()).Descriptor().Fields()
		for i := range fields.Len() {
			f := fields.Get(i)
			g := sample()
			if !change(find(g), f) {
				continue
			}
			same := Fingerprint(g) == base
			if same != outside[f.FullName()] {
				t.Errorf("%s.%s changed: fingerprint equal is %t", path, f.Name(), same)
			}
			if same != (Difference(sample(), g) == "") {
				t.Errorf("%s.%s changed: difference is %q", path, f.Name(), Difference(sample(), g))
			}
		}
	}
	visit("graph", func(g *jobpb.Graph) protoreflect.Message { return g.ProtoReflect() })
	visit("operator", func(g *jobpb.Graph) protoreflect.Message { return g.Operators[1].ProtoReflect() })
	visit("input", func(g *jobpb.Graph) protoreflect.Message { return g.Operators[1].Inputs[0].ProtoReflect() })
	visit("state", func(g *jobpb.Graph) protoreflect.Message { return g.Operators[1].States[0].ProtoReflect() })
	g := sample()
	g.Operators = g.Operators[:2]
	if Fingerprint(g) == base || Difference(sample(), g) == "" || Difference(g, sample()) == "" {
		t.Error("a missing operator is not seen")
	}
	g = sample()
	g.Params["query"] = "f2"
	if d := Difference(sample(), g); !strings.Contains(d, "query") || Fingerprint(g) == base {
		t.Errorf("difference of a parameter: %q", d)
	}
}

// change gives a field another value; false if it is a message, whose fields are visited by themselves.
func change(m protoreflect.Message, f protoreflect.FieldDescriptor) bool {
	switch {
	case f.IsMap():
		m.Mutable(f).Map().Set(protoreflect.ValueOfString("new").MapKey(), protoreflect.ValueOfString("x"))
	case f.FullName() == "sluice.job.Graph.warnings":
		m.Mutable(f).List().AppendMutable()
	case f.IsList():
		return false
	case f.Kind() == protoreflect.StringKind:
		m.Set(f, protoreflect.ValueOfString(m.Get(f).String()+"x"))
	case f.Kind() == protoreflect.BoolKind:
		m.Set(f, protoreflect.ValueOfBool(!m.Get(f).Bool()))
	case f.Kind() == protoreflect.Int32Kind:
		m.Set(f, protoreflect.ValueOfInt32(int32(m.Get(f).Int())+1))
	case f.Kind() == protoreflect.EnumKind:
		m.Set(f, protoreflect.ValueOfEnum(m.Get(f).Enum()+1))
	default:
		return false
	}
	return true
}

func TestRangesOfAnEdgeAgreeFromBothSides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := jobpb.Partitioner(rapid.Int32Range(0, 6).Draw(t, "partitioner"))
		producers := rapid.Int32Range(1, 40).Draw(t, "producers")
		consumers := rapid.Int32Range(1, 40).Draw(t, "consumers")
		if p == jobpb.Partitioner_PARTITIONER_FORWARD {
			consumers = producers
		}
		joined := map[[2]int32]bool{}
		for i := range producers {
			lo, n := Consumers(p, producers, consumers, i)
			if n < 1 || lo < 0 || lo+n > consumers {
				t.Fatalf("producer %d sends to %d+%d of %d", i, lo, n, consumers)
			}
			for j := lo; j < lo+n; j++ {
				joined[[2]int32{i, j}] = true
			}
		}
		for j := range consumers {
			lo, n := Producers(p, producers, consumers, j)
			if lo < 0 || lo+n > producers {
				t.Fatalf("consumer %d receives from %d+%d of %d", j, lo, n, producers)
			}
			for i := range producers {
				if joined[[2]int32{i, j}] != (i >= lo && i < lo+n) {
					t.Fatalf("channel %d→%d exists on one side only", i, j)
				}
			}
		}
	})
}

func TestTextShowsChainsEdgesAndReasons(t *testing.T) {
	g := sample()
	g.Warnings = []*jobpb.Diagnostic{{Code: "W022", Message: "counts every update", Where: "main.go:12", Hints: []string{"close the groups"}}}
	p := &jobpb.Plan{
		Graph: g, Fingerprint: "0123", Slots: 2,
		Chains: []*jobpb.Chain{{Index: 0, Operators: []int32{0}, Parallelism: 2, Name: "in"}, {Index: 1, Operators: []int32{1, 2}, Parallelism: 1, Name: "count → out"}},
		Edges: []*jobpb.Edge{{FromOperator: 0, ToOperator: 1, FromChain: 0, ToChain: 1, Partitioner: jobpb.Partitioner_PARTITIONER_HASH,
			Exchange: jobpb.ExchangeKind_EXCHANGE_PIPELINED, Reason: "bounded input, pipelined"}},
		Regions: []*jobpb.Region{{Subtasks: []*jobpb.SubtaskRange{{Chain: 0, Count: 2}, {Chain: 1, Count: 1}}}},
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	const want = `plan of flights: 2 chains, 3 subtasks, 1 region, 2 slots; fingerprint 0123

in × 2
    in     source  bounded                main.go:10  data/*.csv

count → out × 1
  ← in  hash  PIPELINED  (bounded input, pipelined)  in region 0
    count  count   bounded, stateful      main.go:12
    out    sink    bounded, exactly-once  main.go:14

regions, in the order in which they start:
  0  in[0..1]; count → out[0]

warning W022: counts every update at main.go:12
  fix: close the groups
`
	if got := Text(p); got != want {
		t.Errorf("got\n%s", got)
	}
	dot := DOT(p)
	for _, s := range []string{`op0 -> op1 [label="hash", style=solid]`, `op1 -> op2;`, `label="× 2"`, `"in\nsource"`} {
		if !strings.Contains(dot, s) {
			t.Errorf("DOT lacks %s:\n%s", s, dot)
		}
	}
}

func FuzzValidateTrustsNothing(f *testing.F) {
	b, err := proto.Marshal(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		g := &jobpb.Graph{}
		if proto.Unmarshal(b, g) != nil {
			return
		}
		Validate(g)
		if Difference(g, g) != "" {
			t.Fatal("a graph differs from itself")
		}
		Fingerprint(g)
	})
}

func TestAggregateOverUpdatesIsWarnedOf(t *testing.T) {
	chain := func(bounded bool, kinds ...string) *jobpb.Graph {
		g := &jobpb.Graph{Name: "g"}
		for i, kind := range kinds {
			o := &jobpb.Operator{Id: kind + "-" + string(rune('a'+i)), Kind: kind, Bounded: bounded, Location: "main.go:" + string(rune('0'+i))}
			if i > 0 {
				o.Inputs = []*jobpb.Input{{Operator: int32(i - 1)}}
			}
			g.Operators = append(g.Operators, o)
		}
		return g
	}
	for _, c := range []struct {
		name string
		g    *jobpb.Graph
		want []string // places
	}{
		{"count of counts", chain(false, "source", "count", "map", "filter", "union", "peek", "flatmap", "reduce", "sink"), []string{"main.go:7"}},
		{"window over counts", chain(false, "source", "fold", "window.count", "sink"), []string{"main.go:2"}},
		{"each of three", chain(false, "source", "count", "count", "count", "sink"), []string{"main.go:2", "main.go:3"}},
		{"bounded input", chain(true, "source", "count", "map", "count", "sink"), nil},
		{"groups closed by a window", chain(false, "source", "window.aggregate", "map", "count", "sink"), nil},
		{"a process function in between", chain(false, "source", "count", "process", "count", "sink"), nil},
		{"one aggregate", chain(false, "source", "map", "count", "map", "sink"), nil},
	} {
		var places []string
		for _, d := range Warn(c.g) {
			if d.Code != CodeEveryUpdate || len(d.Hints) != 1 {
				t.Errorf("%s: %v", c.name, d)
			}
			places = append(places, d.Where)
		}
		if !slices.Equal(places, c.want) {
			t.Errorf("%s: warnings at %v, want %v", c.name, places, c.want)
		}
	}
	side := chain(false, "source", "window.count", "count", "sink")
	side.Operators[1].Kind = "count"
	side.Operators[2].Inputs[0].Port = "late"
	if ds := Warn(side); ds != nil {
		t.Errorf("a side output carries no updates: %v", ds)
	}
}

func TestResultsThatGoNowhereAreWarnedOf(t *testing.T) {
	op := func(id, kind string, ins ...*jobpb.Input) *jobpb.Operator {
		return &jobpb.Operator{Id: id, Kind: kind, Bounded: true, Location: "main.go:" + id, Inputs: ins}
	}
	g := &jobpb.Graph{Name: "g", Operators: []*jobpb.Operator{
		op("0", "source"),
		op("1", "map", &jobpb.Input{}),
		op("2", "process", &jobpb.Input{Operator: 1}), // only its side output is read
		op("3", "sink", &jobpb.Input{Operator: 2, Port: "bad"}),
		op("4", "peek", &jobpb.Input{Operator: 1}),
		op("5", "count", &jobpb.Input{Operator: 1}),
		op("6", "source"),
	}}
	var places []string
	for _, d := range Warn(g) {
		if d.Code != CodeNoSink || len(d.Hints) != 1 {
			t.Errorf("%v", d)
		}
		places = append(places, d.Where)
	}
	if want := []string{"main.go:5", "main.go:6"}; !slices.Equal(places, want) {
		t.Errorf("warnings at %v, want %v", places, want)
	}
}
