package region

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// TestScripts plays testdata/scripts. A plan has a line per chain and per edge:
//
//	NAME PARALLELISM [whole]
//	NAME -> NAME PARTITIONER EXCHANGE
//
// Commands: regions, whose answer lists the regions and the edges that they read; needs finished=(REGION,...), whose
// answer lists the results that are needed once these regions have finished. Rewrite with -rewrite and read the
// difference.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		var p *jobpb.Plan
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "regions" {
				p = parsePlan(t, d.Input)
				if err := p.Validate(); err != nil {
					t.Fatal(err)
				}
			}
			l, err := NewLayout(p)
			if err != nil {
				t.Fatalf("%s: %v", d.Pos, err)
			}
			switch d.Cmd {
			case "regions":
				return showRegions(l)
			case "needs":
				return showNeeds(t, l, d)
			}
			t.Fatalf("%s: no such command", d.Pos)
			return ""
		})
	})
}

// parsePlan makes a whole plan around chains and edges: every chain is an operator.
func parsePlan(t *testing.T, text string) *jobpb.Plan {
	t.Helper()
	p := &jobpb.Plan{Graph: &jobpb.Graph{Name: "script"}}
	number := map[string]int32{}
	var whole []bool
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) == 5 && f[1] == "->":
			from, to := number[f[0]], number[f[2]]
			part, ok := jobpb.Partitioner_value["PARTITIONER_"+strings.ToUpper(f[3])]
			kind, known := jobpb.ExchangeKind_value["EXCHANGE_"+strings.ToUpper(f[4])]
			if !ok || !known {
				t.Fatalf("edge %q", line)
			}
			op := p.Graph.Operators[to]
			p.Edges = append(p.Edges, &jobpb.Edge{
				Index: int32(len(p.Edges)), FromOperator: from, ToOperator: to, Input: int32(len(op.Inputs)), FromChain: from, ToChain: to,
				Partitioner: jobpb.Partitioner(part), Exchange: jobpb.ExchangeKind(kind),
			})
			op.Inputs = append(op.Inputs, &jobpb.Input{Operator: from, Partitioner: jobpb.Partitioner(part)})
		case len(f) >= 2:
			n, err := strconv.ParseInt(f[1], 10, 32)
			if err != nil {
				t.Fatalf("chain %q: %v", line, err)
			}
			c := int32(len(p.Chains))
			number[f[0]] = c
			p.Chains = append(p.Chains, &jobpb.Chain{Index: c, Operators: []int32{c}, Parallelism: int32(n), Name: f[0]})
			p.Graph.Operators = append(p.Graph.Operators, &jobpb.Operator{Id: f[0], Kind: "map", Bounded: true})
			whole = append(whole, slices.Contains(f, "whole"))
		}
	}
	p.Regions = Build(p.Chains, p.Edges, whole)
	return p
}

func showRegions(l *Layout) string {
	var b strings.Builder
	for _, r := range l.Plan().Regions {
		fmt.Fprintf(&b, "%d: %s", r.Index, l.SubtaskNames([]int32{r.Index}))
		for i, e := range r.InputEdges {
			fmt.Fprint(&b, []string{" reads ", ", "}[min(i, 1)], edgeName(l, e))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func edgeName(l *Layout, edge int32) string {
	e := l.Plan().Edges[edge]
	return fmt.Sprintf("%s→%s %s", l.chainName(e.FromChain), l.chainName(e.ToChain), graph.PartitionerName(e.Partitioner))
}

func showNeeds(t *testing.T, l *Layout, d *datadriven.TestData) string {
	done := make([]bool, len(l.Plan().Regions))
	for _, a := range d.CmdArgs {
		for _, v := range a.Vals {
			i, err := strconv.Atoi(v)
			if err != nil {
				t.Fatal(err)
			}
			done[i] = true
		}
	}
	n := Need(l, func(r int32) bool { return done[r] })
	var b strings.Builder
	for _, e := range l.Plan().Edges {
		if !l.Blocking(e.Index) {
			continue
		}
		var refs []*jobpb.PartitionRef
		for i := range l.Plan().Chains[e.FromChain].Parallelism {
			if n.Partition(e.Index, i) {
				refs = append(refs, &jobpb.PartitionRef{Edge: e.Index, Producer: i})
			}
		}
		if len(refs) > 0 {
			fmt.Fprintln(&b, l.ResultNames(refs))
		}
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}
