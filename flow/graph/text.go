package graph

import (
	"fmt"
	"strings"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// PartitionerName is the partitioner as people read it: hash.
func PartitionerName(p jobpb.Partitioner) string {
	return strings.ToLower(strings.TrimPrefix(p.String(), "PARTITIONER_"))
}

// ExchangeName is the exchange as people read it: PIPELINED.
func ExchangeName(x jobpb.ExchangeKind) string { return strings.TrimPrefix(x.String(), "EXCHANGE_") }

// GuaranteeName is the guarantee as people read it: exactly-once. Empty if there is none.
func GuaranteeName(g jobpb.Guarantee) string {
	if g == jobpb.Guarantee_GUARANTEE_UNSPECIFIED {
		return ""
	}
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(g.String(), "GUARANTEE_")), "_", "-")
}

// Text is the plan for people: each chain with its operators, where they stand in the source, and for each edge how
// records cross it and why. The plan must be valid.
func Text(p *jobpb.Plan) string {
	var b strings.Builder
	subtasks := int32(0)
	for _, c := range p.Chains {
		subtasks += c.Parallelism
	}
	fmt.Fprintf(&b, "plan of %s: %s, %s, %s, %s; fingerprint %s\n", p.Graph.Name, count(len(p.Chains), "chain"), count(int(subtasks), "subtask"),
		count(len(p.Regions), "region"), count(int(p.Slots), "slot"), p.Fingerprint)
	table := rows(p)
	width := widths(table)
	for c, chain := range p.Chains {
		fmt.Fprintf(&b, "\n%s × %d\n", chain.Name, chain.Parallelism)
		for _, e := range p.Edges {
			if int(e.ToChain) == c {
				fmt.Fprintf(&b, "  ← %s  %s  %s  (%s)\n", producer(p, e), PartitionerName(e.Partitioner), ExchangeName(e.Exchange), e.Reason)
			}
		}
		for _, o := range chain.Operators {
			line := "  "
			for i, cell := range table[o] {
				line += fmt.Sprintf("  %-*s", width[i], cell)
			}
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	for _, w := range p.Graph.Warnings {
		fmt.Fprintf(&b, "\nwarning %s: %s", w.Code, w.Message)
		if w.Where != "" {
			fmt.Fprintf(&b, " at %s", w.Where)
		}
		for _, h := range w.Hints {
			fmt.Fprintf(&b, "\n  fix: %s", h)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// producer names what an edge carries.
func producer(p *jobpb.Plan, e *jobpb.Edge) string {
	name := p.Graph.Operators[e.FromOperator].Id
	if port := p.Graph.Operators[e.ToOperator].Inputs[e.Input].Port; port != "" {
		name += "." + port
	}
	return name
}

// rows are the cells of each operator's line.
func rows(p *jobpb.Plan) [][]string {
	t := make([][]string, len(p.Graph.Operators))
	for i, o := range p.Graph.Operators {
		properties := []string{}
		if o.Bounded {
			properties = append(properties, "bounded")
		} else {
			properties = append(properties, "endless")
		}
		if o.Stateful {
			properties = append(properties, "stateful")
		}
		if g := GuaranteeName(o.Guarantee); g != "" {
			properties = append(properties, g)
		}
		t[i] = []string{o.Id, o.Kind, strings.Join(properties, ", "), o.Location, o.Detail}
	}
	return t
}

func widths(table [][]string) []int {
	w := make([]int, 5)
	for _, r := range table {
		for i, c := range r {
			w[i] = max(w[i], len([]rune(c)))
		}
	}
	return w
}

// DOT is the plan in the language of Graphviz: a box per chain, dashed edges are blocking. The plan must be valid.
func DOT(p *jobpb.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n  rankdir=LR;\n  node [shape=box, style=rounded];\n", quote(p.Graph.Name))
	for _, c := range p.Chains {
		fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=%s;\n", c.Index, quote(fmt.Sprintf("× %d", c.Parallelism)))
		for _, i := range c.Operators {
			o := p.Graph.Operators[i]
			fmt.Fprintf(&b, "    op%d [label=%s];\n", i, quote(o.Id+"\n"+o.Kind))
		}
		for _, i := range c.Operators {
			for _, in := range p.Graph.Operators[i].Inputs {
				if inChain(c, in.Operator) {
					fmt.Fprintf(&b, "    op%d -> op%d;\n", in.Operator, i)
				}
			}
		}
		b.WriteString("  }\n")
	}
	for _, e := range p.Edges {
		style := "solid"
		if e.Exchange == jobpb.ExchangeKind_EXCHANGE_BLOCKING {
			style = "dashed"
		}
		fmt.Fprintf(&b, "  op%d -> op%d [label=%s, style=%s];\n", e.FromOperator, e.ToOperator, quote(PartitionerName(e.Partitioner)), style)
	}
	b.WriteString("}\n")
	return b.String()
}

func inChain(c *jobpb.Chain, operator int32) bool {
	for _, o := range c.Operators {
		if o == operator {
			return true
		}
	}
	return false
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
