package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// TestScripts plays testdata/scripts. A script is a command "plan" with settings as arguments (parallelism=2 mode=batch cores=4
// slots=8), and one operator per line:
//
//	KIND ID [PROPERTY...] [< INPUT...]
//
// Properties: endless, spills (batch_memory), unordered, ties (order_dependent), varies (nondeterministic), *N (parallelism),
// @GROUP (slot group). An input is the id of its producer and, each after a colon, a partitioner, an exchange (pipelined,
// blocking), phaseN, gated, why. The answer is the plan as people see it, followed by the edges whose results cannot be made
// again. Rewrite with -rewrite and read the difference.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			g := parse(t, d)
			o := Options{Settings: map[string]string{}, DefaultParallelism: 2}
			for _, a := range d.CmdArgs {
				n, _ := strconv.Atoi(a.Vals[0])
				switch a.Key {
				case "cores":
					o.DefaultParallelism = n
				case "slots":
					o.Slots = n
				case "keygroups":
					g.MaxParallelism = int32(n)
				default:
					o.Settings[a.Key] = a.Vals[0]
				}
			}
			return answer(t, g, o)
		})
	})
}

func answer(t *testing.T, g *jobpb.Graph, o Options) string {
	t.Helper()
	p, ds := Make(g, o)
	if p == nil {
		var b strings.Builder
		for _, d := range ds {
			fmt.Fprintf(&b, "%s at %s: %s\n  fix: %s\n", d.Code, d.Where, d.Message, strings.Join(d.Hints, "; "))
		}
		return b.String()
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	waitsForWhatItReads(t, p)
	p.Fingerprint = "…"
	text := graph.Text(p)
	for _, flag := range []struct {
		name string
		is   func(e *jobpb.Edge) bool
	}{
		{"not reproducible", func(e *jobpb.Edge) bool { return !e.Reproducible }},
		{"not ordered", func(e *jobpb.Edge) bool { return e.Reproducible && !e.Ordered }},
		{"order-dependent", func(e *jobpb.Edge) bool { return e.Reproducible && e.OrderDependent }},
	} {
		var edges []string
		for _, e := range p.Edges {
			if flag.is(e) {
				edges = append(edges, fmt.Sprintf("%s→%s", g.Operators[e.FromOperator].Id, g.Operators[e.ToOperator].Id))
			}
		}
		if len(edges) > 0 {
			text += "\n" + flag.name + ": " + strings.Join(edges, ", ") + "\n"
		}
	}
	return text
}

// waitsForWhatItReads looks at every pair of subtasks, which the product never does.
func waitsForWhatItReads(t *testing.T, p *jobpb.Plan) {
	t.Helper()
	region := make([]map[int32]int32, len(p.Chains))
	for c := range region {
		region[c] = map[int32]int32{}
	}
	for _, r := range p.Regions {
		for _, s := range r.Subtasks {
			for k := range s.Count {
				region[s.Chain][s.First+k] = r.Index
			}
		}
	}
	want := make([]map[int32]bool, len(p.Regions))
	for i := range want {
		want[i] = map[int32]bool{}
	}
	for _, e := range p.Edges {
		if e.Exchange != jobpb.ExchangeKind_EXCHANGE_BLOCKING {
			continue
		}
		for i := range p.Chains[e.ToChain].Parallelism {
			first, n := graph.Producers(e.Partitioner, p.Chains[e.FromChain].Parallelism, p.Chains[e.ToChain].Parallelism, i)
			for k := range n {
				if maker, reader := region[e.FromChain][first+k], region[e.ToChain][i]; maker != reader {
					want[reader][maker] = true
				}
			}
		}
	}
	for i, ranges := range graph.After(p) {
		got := map[int32]bool{}
		for _, r := range ranges {
			for n := r.First; n <= r.Last; n++ {
				got[n] = true
			}
		}
		if !maps.Equal(got, want[i]) {
			t.Errorf("region %d waits for %v, reads of %v", i, ranges, slices.Sorted(maps.Keys(want[i])))
		}
	}
}

// TestAWidePlanIsExplainedWithoutItsPairs: of ten thousand readers each reads ten thousand results.
func TestAWidePlanIsExplainedWithoutItsPairs(t *testing.T) {
	const n = 10_000
	p, ds := Make(&jobpb.Graph{Name: "wide", Operators: []*jobpb.Operator{
		{Id: "in", Kind: "source", Bounded: true},
		{Id: "out", Kind: "sink", Bounded: true, Inputs: []*jobpb.Input{{Partitioner: jobpb.Partitioner_PARTITIONER_REBALANCE}}},
	}}, Options{DefaultParallelism: n})
	if p == nil {
		t.Fatal(ds)
	}
	ranges := 0
	for _, of := range graph.After(p) {
		ranges += len(of)
	}
	if ranges != n {
		t.Errorf("%d ranges, want one for each reader", ranges)
	}
	if want := fmt.Sprintf("in of 0–%d; after 0–%d", n-1, n-1); !strings.Contains(graph.Text(p), want) {
		t.Errorf("the plan does not say %q", want)
	}
}

func parse(t *testing.T, d *datadriven.TestData) *jobpb.Graph {
	g := &jobpb.Graph{Name: "job"}
	for i, line := range strings.Split(d.Input, "\n") {
		head, inputs, _ := strings.Cut(line, "<")
		words := strings.Fields(head)
		op := &jobpb.Operator{Kind: words[0], Id: words[1], Bounded: true, Location: fmt.Sprintf("main.go:%d", i+1)}
		for _, w := range words[2:] {
			property(t, d, op, w)
		}
		for _, in := range strings.Fields(inputs) {
			x := input(t, d, g, in)
			op.Inputs = append(op.Inputs, x)
			op.Bounded = op.Bounded && g.Operators[x.Operator].Bounded
		}
		g.Operators = append(g.Operators, op)
	}
	return g
}

func property(t *testing.T, d *datadriven.TestData, op *jobpb.Operator, w string) {
	n, _ := strconv.Atoi(w[1:])
	switch {
	case w == "endless":
		op.Bounded = false
	case w == "spills":
		op.BatchMemory = true
	case w == "unordered":
		op.Unordered = true
	case w == "ties":
		op.OrderDependent = true
	case w == "varies":
		op.Nondeterministic = true
	case w == "stateful":
		op.Stateful = true
	case w[0] == '*':
		op.Parallelism = int32(n)
	case w[0] == '@':
		op.SlotGroup = w[1:]
	default:
		d.Fatalf(t, "unknown property %q", w)
	}
}

func input(t *testing.T, d *datadriven.TestData, g *jobpb.Graph, text string) *jobpb.Input {
	words := strings.Split(text, ":")
	from := slices.IndexFunc(g.Operators, func(o *jobpb.Operator) bool { return o.Id == words[0] })
	if from < 0 {
		d.Fatalf(t, "no operator %q", words[0])
	}
	in := &jobpb.Input{Operator: int32(from)}
	for _, w := range words[1:] {
		if v, ok := jobpb.Partitioner_value["PARTITIONER_"+strings.ToUpper(w)]; ok {
			in.Partitioner = jobpb.Partitioner(v)
			continue
		}
		if v, ok := jobpb.ExchangeKind_value["EXCHANGE_"+strings.ToUpper(w)]; ok {
			in.Exchange, in.Location = jobpb.ExchangeKind(v), "main.go:90"
			continue
		}
		if n, ok := strings.CutPrefix(w, "phase"); ok {
			phase, _ := strconv.Atoi(n)
			in.Phase = int32(phase)
			continue
		}
		switch w {
		case "gated":
			in.Gated = true
		case "why":
			in.Why, in.Location = "read to its end first", ""
		default:
			d.Fatalf(t, "unknown property %q of an input", w)
		}
	}
	return in
}
