package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// Explanation is what a plan means for its execution, for people and for tools: the region of every edge, what each region
// reads and waits for, and who needs memory. All of it follows from the plan.
type Explanation struct {
	Slots   SlotNeed      `json:"slots"`
	Edges   []EdgeNote    `json:"edges"`
	Regions []RegionNote  `json:"regions"`
	Memory  []BatchMemory `json:"memory"`
}

// SlotNeed is how many slots a job needs at least, by schedule.
type SlotNeed struct {
	Region int32 `json:"region"` // schedules region and lazy: the largest region
	Eager  int32 `json:"eager"`  // everything at once
}

// EdgeNote is one edge between chains.
type EdgeNote struct {
	Edge         int32  `json:"edge"`
	From         string `json:"from"` // operator, with its side output
	To           string `json:"to"`
	Input        int32  `json:"input"` // of the consumer
	Partitioner  string `json:"partitioner"`
	Exchange     string `json:"exchange"`
	Reason       string `json:"reason"`
	FromRegions  string `json:"fromRegions"` // 0–3, 7
	ToRegions    string `json:"toRegions"`
	Gated        bool   `json:"gated"`        // not read before the inputs that are wanted first have ended
	Reproducible bool   `json:"reproducible"` // a result that is made again is the same for each consumer
}

// RegionNote is one region, or several in a row that differ in nothing but their subtasks.
type RegionNote struct {
	First   int32        `json:"first"`
	Last    int32        `json:"last"`
	Members []RegionPart `json:"members"`
	Reads   []RegionRead `json:"reads"`
	After   string       `json:"after"` // the regions that have to finish first; empty: it starts at once
}

// RegionPart is what one chain has in regions in a row.
type RegionPart struct {
	Chain string `json:"chain"`
	First int32  `json:"first"` // subtask
	Last  int32  `json:"last"`
	Each  int32  `json:"each"` // subtasks in each of the regions
}

// RegionRead is a stored result that a region reads.
type RegionRead struct {
	Edge int32  `json:"edge"`
	From string `json:"from"`
	Of   string `json:"of"` // the regions that make it
}

// BatchMemory is an operator that works in a share of batch.memory.
type BatchMemory struct {
	Operator string `json:"operator"`
	Regions  string `json:"regions"`
	// Share and ShareEager are the number of operators that divide the batch memory of a slot, by schedule.
	Share      int `json:"share"`
	ShareEager int `json:"shareEager"`
}

// Explain finds out what a valid plan means.
func Explain(p *jobpb.Plan) *Explanation {
	x := newExplainer(p)
	return &Explanation{Slots: SlotNeed{Region: cmp.Or(p.LeastSlots, p.Slots), Eager: p.Slots}, Edges: x.edges(), Regions: x.regions(), Memory: x.memory()}
}

// RegionRange is the regions from First to Last, both included.
type RegionRange struct{ First, Last int32 }

// After tells for each region of a valid plan which others make what it reads, and so finish first.
func After(p *jobpb.Plan) [][]RegionRange {
	x := newExplainer(p)
	whole := make([][]RegionRange, len(p.Chains)) // the regions of each chain: read by many regions, written out once
	for c := range p.Chains {
		whole[c] = x.all[c].ranges()
	}
	after := make([][]RegionRange, len(p.Regions))
	for i, r := range p.Regions {
		var of []RegionRange
		for _, edge := range r.InputEdges {
			e := p.Edges[edge]
			if makers, all := x.makers(e, r); all {
				of = append(of, whole[e.FromChain]...)
			} else {
				of = append(of, makers.sorted().ranges()...)
			}
		}
		after[i] = without(joined(of), r.Index)
	}
	return after
}

// joined are the same regions in order, in as few ranges as there can be.
func joined(all []RegionRange) (out []RegionRange) {
	slices.SortFunc(all, func(a, b RegionRange) int { return cmp.Compare(a.First, b.First) })
	for _, r := range all {
		if n := len(out); n > 0 && r.First <= out[n-1].Last+1 {
			out[n-1].Last = max(out[n-1].Last, r.Last)
			continue
		}
		out = append(out, r)
	}
	return out
}

// without leaves a region out.
func without(all []RegionRange, region int32) (out []RegionRange) {
	for _, r := range all {
		if region < r.First || region > r.Last {
			out = append(out, r)
			continue
		}
		if r.First < region {
			out = append(out, RegionRange{r.First, region - 1})
		}
		if region < r.Last {
			out = append(out, RegionRange{region + 1, r.Last})
		}
	}
	return out
}

func newExplainer(p *jobpb.Plan) *explainer {
	x := &explainer{p: p, of: make([][]int32, len(p.Chains)), all: make([]spans, len(p.Chains))}
	for i, c := range p.Chains {
		x.of[i] = make([]int32, c.Parallelism)
	}
	for _, r := range p.Regions {
		for _, s := range r.Subtasks {
			for k := range s.Count {
				x.of[s.Chain][s.First+k] = r.Index
			}
		}
	}
	for i := range p.Chains {
		for _, r := range x.of[i] {
			x.all[i] = append(x.all[i], r)
		}
		x.all[i] = x.all[i].sorted()
	}
	return x
}

type explainer struct {
	p   *jobpb.Plan
	of  [][]int32 // region by chain and subtask
	all []spans   // regions by chain
}

func (x *explainer) edges() []EdgeNote {
	notes := []EdgeNote{}
	for _, e := range x.p.Edges {
		to := x.p.Graph.Operators[e.ToOperator]
		notes = append(notes, EdgeNote{
			Edge: e.Index, From: producer(x.p, e), To: to.Id, Input: e.Input, Partitioner: PartitionerName(e.Partitioner),
			Exchange: ExchangeName(e.Exchange), Reason: e.Reason, FromRegions: x.all[e.FromChain].String(), ToRegions: x.readers(e).String(),
			Gated: to.Inputs[e.Input].Gated, Reproducible: e.Reproducible,
		})
	}
	return notes
}

// readers are the regions of the subtasks that an edge leads to.
func (x *explainer) readers(e *jobpb.Edge) spans {
	if e.Partitioner == jobpb.Partitioner_PARTITIONER_GLOBAL {
		return spans{x.of[e.ToChain][0]}
	}
	return x.all[e.ToChain]
}

// regions takes regions in a row together if they differ in nothing but their subtasks.
func (x *explainer) regions() []RegionNote {
	notes := []RegionNote{}
	for i := 0; i < len(x.p.Regions); {
		n := 1
		for i+n < len(x.p.Regions) && follows(x.p.Regions[i+n-1], x.p.Regions[i+n]) {
			n++
		}
		notes = append(notes, x.note(x.p.Regions[i:i+n]))
		i += n
	}
	return notes
}

// follows: b has the subtasks right behind those of a, and reads the same edges.
func follows(a, b *jobpb.Region) bool {
	return slices.Equal(a.InputEdges, b.InputEdges) && slices.EqualFunc(a.Subtasks, b.Subtasks, func(s, t *jobpb.SubtaskRange) bool {
		return s.Chain == t.Chain && s.Count == t.Count && t.First == s.First+s.Count
	})
}

func (x *explainer) note(row []*jobpb.Region) RegionNote {
	first, last := row[0], row[len(row)-1]
	n := RegionNote{First: first.Index, Last: last.Index, Members: []RegionPart{}, Reads: []RegionRead{}}
	for k, s := range first.Subtasks {
		end := last.Subtasks[k]
		n.Members = append(n.Members, RegionPart{Chain: x.p.Chains[s.Chain].Name, First: s.First, Last: end.First + end.Count - 1, Each: s.Count})
	}
	var after spans
	for _, edge := range first.InputEdges {
		e := x.p.Edges[edge]
		var of spans
		for _, r := range row {
			makers, all := x.makers(e, r)
			if all { // so it is for the others of the row
				of = slices.Clone(makers)
				break
			}
			of = append(of, makers...)
		}
		of = of.sorted()
		n.Reads = append(n.Reads, RegionRead{Edge: edge, From: producer(x.p, e), Of: of.String()})
		for _, r := range of {
			if r < first.Index || r > last.Index {
				after = append(after, r)
			}
		}
	}
	n.After = after.sorted().String()
	return n
}

// makers are the regions whose results a region reads over an edge; all: those of every producer, which nobody may change.
func (x *explainer) makers(e *jobpb.Edge, r *jobpb.Region) (of spans, all bool) {
	producers, consumers := x.p.Chains[e.FromChain].Parallelism, x.p.Chains[e.ToChain].Parallelism
	for _, s := range r.Subtasks {
		if s.Chain != e.ToChain {
			continue
		}
		for k := range s.Count {
			lo, n := Producers(e.Partitioner, producers, consumers, s.First+k)
			if n == producers {
				return x.all[e.FromChain], true
			}
			of = append(of, x.of[e.FromChain][lo:lo+n]...)
		}
	}
	return of, false
}

// memory finds the operators that share the batch memory of a slot: those of the same region and slot group, or of the
// whole job.
func (x *explainer) memory() []BatchMemory {
	notes := []BatchMemory{}
	for i, c := range x.p.Chains {
		for _, o := range c.Operators {
			if op := x.p.Graph.Operators[o]; op.BatchMemory {
				notes = append(notes, BatchMemory{Operator: op.Id, Regions: x.all[i].String(), Share: x.sharing(i, true), ShareEager: x.sharing(i, false)})
			}
		}
	}
	return notes
}

func (x *explainer) sharing(chain int, inRegion bool) (n int) {
	group := x.p.Graph.Operators[x.p.Chains[chain].Operators[0]].SlotGroup
	for i, c := range x.p.Chains {
		if x.p.Graph.Operators[c.Operators[0]].SlotGroup != group || inRegion && !x.all[i].meets(x.all[chain]) {
			continue
		}
		for _, o := range c.Operators {
			if x.p.Graph.Operators[o].BatchMemory {
				n++
			}
		}
	}
	return n
}

// spans are numbers of regions.
type spans []int32

func (s spans) sorted() spans {
	slices.Sort(s)
	return slices.Compact(s)
}

// meets: some number is in both; both are sorted.
func (s spans) meets(o spans) bool {
	for _, n := range s {
		if _, found := slices.BinarySearch(o, n); found {
			return true
		}
	}
	return false
}

// ranges are the runs of s, which is sorted.
func (s spans) ranges() (runs []RegionRange) {
	for i := 0; i < len(s); {
		k := i + 1
		for k < len(s) && s[k] == s[k-1]+1 {
			k++
		}
		runs = append(runs, RegionRange{s[i], s[k-1]})
		i = k
	}
	return runs
}

// String writes runs as 0–3. s is sorted.
func (s spans) String() string {
	var parts []string
	for _, r := range s.ranges() {
		parts = append(parts, rangeText(r.First, r.Last))
	}
	return strings.Join(parts, ", ")
}

func rangeText(first, last int32) string {
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d–%d", first, last)
}
