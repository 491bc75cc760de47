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
// records cross it, why, and between which regions; then the regions in the order in which they may start, and who needs
// memory. The plan must be valid.
func Text(p *jobpb.Plan) string {
	var b strings.Builder
	subtasks := int32(0)
	for _, c := range p.Chains {
		subtasks += c.Parallelism
	}
	x := Explain(p)
	fmt.Fprintf(&b, "plan of %s: %s, %s, %s, %s; fingerprint %s\n", p.Graph.Name, count(len(p.Chains), "chain"), count(int(subtasks), "subtask"),
		count(len(p.Regions), "region"), slotText(x.Slots), p.Fingerprint)
	table := rows(p)
	width := widths(table)
	for c, chain := range p.Chains {
		fmt.Fprintf(&b, "\n%s × %d\n", chain.Name, chain.Parallelism)
		for _, e := range p.Edges {
			if int(e.ToChain) == c {
				b.WriteString(edgeText(&x.Edges[e.Index]))
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
	regionsText(&b, x.Regions)
	memoryText(&b, x.Memory)
	warningsText(&b, p.Graph.Warnings)
	return b.String()
}

func slotText(n SlotNeed) string {
	if n.Region == n.Eager {
		return count(int(n.Eager), "slot")
	}
	return fmt.Sprintf("%s (with schedule eager %d)", count(int(n.Region), "slot"), n.Eager)
}

func edgeText(e *EdgeNote) string {
	where := "in " + regionText(e.ToRegions)
	if e.FromRegions != e.ToRegions {
		where = regionText(e.FromRegions) + " → " + e.ToRegions
	}
	gate := ""
	if e.Gated {
		gate = "  gated"
	}
	return fmt.Sprintf("  ← %s  %s  %s  (%s)  %s%s\n", e.From, e.Partitioner, e.Exchange, e.Reason, where, gate)
}

// regionText is region 3, or regions 0–3.
func regionText(numbers string) string {
	if strings.ContainsAny(numbers, "–,") {
		return "regions " + numbers
	}
	return "region " + numbers
}

func regionsText(b *strings.Builder, notes []RegionNote) {
	b.WriteString("\nregions, in the order in which they start:\n")
	for _, n := range notes {
		var parts, reads []string
		for _, m := range n.Members {
			part := fmt.Sprintf("%s[%d..%d]", m.Chain, m.First, m.Last)
			if m.First == m.Last {
				part = fmt.Sprintf("%s[%d]", m.Chain, m.First)
			} else if n.First != n.Last {
				part += fmt.Sprintf(", %d each", m.Each)
			}
			parts = append(parts, part)
		}
		fmt.Fprintf(b, "  %s  %s\n", rangeText(n.First, n.Last), strings.Join(parts, "; "))
		for _, r := range n.Reads {
			reads = append(reads, fmt.Sprintf("%s of %s", r.From, r.Of))
		}
		if len(reads) > 0 {
			after := ""
			if n.After != "" {
				after = "; after " + n.After
			}
			fmt.Fprintf(b, "      reads %s%s\n", strings.Join(reads, ", "), after)
		}
	}
}

func memoryText(b *strings.Builder, notes []BatchMemory) {
	if len(notes) == 0 {
		return
	}
	b.WriteString("\nbatch memory, by slot:\n")
	for _, m := range notes {
		fmt.Fprintf(b, "  %s  in %s: %s", m.Operator, regionText(m.Regions), share(m.Share))
		if m.ShareEager != m.Share {
			fmt.Fprintf(b, " (with schedule eager %s)", share(m.ShareEager))
		}
		b.WriteByte('\n')
	}
}

func share(n int) string {
	if n == 1 {
		return "all of it"
	}
	return fmt.Sprintf("1/%d of it", n)
}

func warningsText(b *strings.Builder, warnings []*jobpb.Diagnostic) {
	for _, w := range warnings {
		fmt.Fprintf(b, "\nwarning %s: %s", w.Code, w.Message)
		if w.Where != "" {
			fmt.Fprintf(b, " at %s", w.Where)
		}
		for _, h := range w.Hints {
			fmt.Fprintf(b, "\n  fix: %s", h)
		}
		b.WriteByte('\n')
	}
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
		if o.BatchMemory {
			properties = append(properties, "batch memory")
		}
		if o.Nondeterministic {
			properties = append(properties, "nondeterministic")
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
