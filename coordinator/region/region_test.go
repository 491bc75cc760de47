package region

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/proto/jobpb"
)

func chains(ps ...int32) []*jobpb.Chain {
	var cs []*jobpb.Chain
	for i, p := range ps {
		cs = append(cs, &jobpb.Chain{Index: int32(i), Parallelism: p})
	}
	return cs
}

func edge(from, to int32, p jobpb.Partitioner, x jobpb.ExchangeKind) *jobpb.Edge {
	return &jobpb.Edge{FromChain: from, ToChain: to, Partitioner: p, Exchange: x}
}

// numbered gives edges their indexes.
func numbered(es []*jobpb.Edge) []*jobpb.Edge {
	for i, e := range es {
		e.Index = int32(i)
	}
	return es
}

const (
	forward   = jobpb.Partitioner_PARTITIONER_FORWARD
	hashed    = jobpb.Partitioner_PARTITIONER_HASH
	rescale   = jobpb.Partitioner_PARTITIONER_RESCALE
	global    = jobpb.Partitioner_PARTITIONER_GLOBAL
	pipelined = jobpb.ExchangeKind_EXCHANGE_PIPELINED
	blocking  = jobpb.ExchangeKind_EXCHANGE_BLOCKING
)

func text(rs []*jobpb.Region) string {
	var parts []string
	for _, r := range rs {
		s := fmt.Sprintf("%d:", r.Index)
		for _, x := range r.Subtasks {
			s += fmt.Sprintf(" %d[%d+%d]", x.Chain, x.First, x.Count)
		}
		if len(r.InputEdges) > 0 {
			s += fmt.Sprint(" <", r.InputEdges)
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, "; ")
}

func TestRegionsOfKnownShapes(t *testing.T) {
	for _, c := range []struct {
		name  string
		ps    []int32
		edges []*jobpb.Edge
		whole []bool
		want  string
	}{
		{"a keyed stream is one region", []int32{3, 2}, []*jobpb.Edge{edge(0, 1, hashed, pipelined)}, nil, "0: 0[0+3] 1[0+2]"},
		{"chains without an edge fall apart", []int32{2, 1}, nil, nil, "0: 0[0+1]; 1: 0[1+1]; 2: 1[0+1]"},
		{"readers of one source stay together", []int32{3}, nil, []bool{true}, "0: 0[0+3]"},
		{"forward keeps lanes apart", []int32{2, 2}, []*jobpb.Edge{edge(0, 1, forward, pipelined)}, nil, "0: 0[0+1] 1[0+1]; 1: 0[1+1] 1[1+1]"},
		{"rescale joins the near ones", []int32{2, 4}, []*jobpb.Edge{edge(0, 1, rescale, pipelined)}, nil, "0: 0[0+1] 1[0+2]; 1: 0[1+1] 1[2+2]"},
		{"global joins its producers only", []int32{2, 2}, []*jobpb.Edge{edge(0, 1, global, pipelined)}, nil, "0: 0[0+2] 1[0+1]; 1: 1[1+1]"},
		{"a blocking shuffle goes stage by stage", []int32{2, 2}, []*jobpb.Edge{edge(0, 1, hashed, blocking)}, []bool{true, false}, "0: 0[0+2]; 1: 1[0+1] <[0]; 2: 1[1+1] <[0]"},
		{"a blocking diamond merges", []int32{2, 2}, []*jobpb.Edge{edge(0, 1, forward, pipelined), edge(0, 1, hashed, blocking)}, nil, "0: 0[0+2] 1[0+2] <[1]"},
		{"readers come after what they read, whatever their number", []int32{1, 1}, []*jobpb.Edge{edge(1, 0, hashed, blocking)}, nil, "0: 1[0+1]; 1: 0[0+1] <[0]"},
	} {
		if got := text(Build(chains(c.ps...), numbered(c.edges), c.whole)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// plan draws chains and edges; edges lead from lower chains to higher ones, as in every plan.
func draw(t *rapid.T) ([]*jobpb.Chain, []*jobpb.Edge, []bool) {
	ps := rapid.SliceOfN(rapid.Int32Range(1, 5), 1, 5).Draw(t, "parallelism")
	cs := chains(ps...)
	whole := make([]bool, len(ps))
	for i := range whole {
		whole[i] = rapid.Bool().Draw(t, "whole")
	}
	var es []*jobpb.Edge
	for range rapid.IntRange(0, 8).Draw(t, "edges") {
		if len(ps) < 2 {
			break
		}
		to := rapid.IntRange(1, len(ps)-1).Draw(t, "to")
		from := rapid.IntRange(0, to-1).Draw(t, "from")
		p := rapid.SampledFrom([]jobpb.Partitioner{forward, hashed, rescale, global}).Draw(t, "partitioner")
		if p == forward && ps[from] != ps[to] {
			p = hashed
		}
		es = append(es, edge(int32(from), int32(to), p, rapid.SampledFrom([]jobpb.ExchangeKind{pipelined, blocking}).Draw(t, "exchange")))
	}
	return cs, numbered(es), whole
}

// read is a channel of a BLOCKING edge, as its consumer sees it.
type read struct {
	edge     int32
	producer [2]int32
}

// reference materialises every channel: the slow, obvious definition.
func reference(cs []*jobpb.Chain, es []*jobpb.Edge, whole []bool) (same func(a, b [2]int32) bool, reads map[[2]int32][]read) {
	var all [][2]int32
	for c := range cs {
		for i := range cs[c].Parallelism {
			all = append(all, [2]int32{int32(c), i})
		}
	}
	reach := map[[2][2]int32]bool{} // a needs b at the same time, or before: both ways for pipelined
	join := func(a, b [2]int32) { reach[[2][2]int32{a, b}], reach[[2][2]int32{b, a}] = true, true }
	reads = map[[2]int32][]read{}
	for _, a := range all {
		reach[[2][2]int32{a, a}] = true
		for _, b := range all {
			if a[0] == b[0] && whole[a[0]] {
				join(a, b)
			}
		}
	}
	for _, e := range es {
		p, c := cs[e.FromChain].Parallelism, cs[e.ToChain].Parallelism
		for j := range c {
			lo, n := graph.Producers(e.Partitioner, p, c, j)
			for i := lo; i < lo+n; i++ {
				a, b := [2]int32{e.FromChain, i}, [2]int32{e.ToChain, j}
				if e.Exchange == blocking {
					reach[[2][2]int32{b, a}] = true
					reads[b] = append(reads[b], read{e.Index, a})
				} else {
					join(a, b)
				}
			}
		}
	}
	for _, k := range all {
		for _, a := range all {
			for _, b := range all {
				if reach[[2][2]int32{a, k}] && reach[[2][2]int32{k, b}] {
					reach[[2][2]int32{a, b}] = true
				}
			}
		}
	}
	return func(a, b [2]int32) bool { return reach[[2][2]int32{a, b}] && reach[[2][2]int32{b, a}] }, reads
}

func TestRegionsAreWhatTheirDefinitionSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs, es, whole := draw(t)
		rs := Build(cs, es, whole)
		same, reads := reference(cs, es, whole)
		of := map[[2]int32]int32{}
		for i, r := range rs {
			if r.Index != int32(i) {
				t.Fatalf("region %d is numbered %d", i, r.Index)
			}
			for _, x := range r.Subtasks {
				for k := x.First; k < x.First+x.Count; k++ {
					if _, twice := of[[2]int32{x.Chain, k}]; twice {
						t.Fatalf("subtask %d[%d] is in two regions", x.Chain, k)
					}
					of[[2]int32{x.Chain, k}] = r.Index
				}
			}
		}
		for c := range cs {
			for i := range cs[c].Parallelism {
				a := [2]int32{int32(c), i}
				r, ok := of[a]
				if !ok {
					t.Fatalf("subtask %v is in no region", a)
				}
				for b, s := range of {
					if (s == r) != same(a, b) {
						t.Fatalf("subtasks %v and %v: same region %t, by definition %t", a, b, s == r, same(a, b))
					}
				}
				for _, in := range reads[a] {
					if of[in.producer] > r {
						t.Fatalf("region %d reads from region %d, which comes after it", r, of[in.producer])
					}
					if !slices.Contains(rs[r].InputEdges, in.edge) {
						t.Fatalf("region %d reads edge %d and does not say so", r, in.edge)
					}
				}
			}
		}
	})
}

func TestRegionsDoNotDependOnTheOrderOfEdges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs, es, whole := draw(t)
		want := text(Build(cs, es, whole))
		if got := text(Build(cs, rapid.Permutation(es).Draw(t, "order"), whole)); got != want {
			t.Fatalf("in another order of edges the regions are\n%s\nand not\n%s", got, want)
		}
	})
}

// planOf makes a plan of chains and edges: every chain is an operator.
func planOf(cs []*jobpb.Chain, es []*jobpb.Edge, whole []bool) *jobpb.Plan {
	p := &jobpb.Plan{Graph: &jobpb.Graph{}, Chains: cs, Edges: es, Regions: Build(cs, es, whole)}
	for i, c := range cs {
		c.Operators = []int32{int32(i)}
		p.Graph.Operators = append(p.Graph.Operators, &jobpb.Operator{Id: fmt.Sprint("op", i)})
	}
	return p
}

// ends are the consumers of each producer's result, by edge and producer, looked up channel by channel.
func ends(l *Layout) map[[2]int32][]int32 {
	m := map[[2]int32][]int32{}
	for _, e := range l.plan.Edges {
		if e.Exchange != blocking {
			continue
		}
		for j := range l.plan.Chains[e.ToChain].Parallelism {
			from := l.Producers(e.Index, j)
			for pos := from.First; pos < from.First+from.Count; pos++ {
				k := [2]int32{e.Index, pos - l.first[e.FromChain]}
				m[k] = append(m[k], l.first[e.ToChain]+j)
			}
		}
	}
	return m
}

// A region is live while a subtask of it has not finished, or one of its partitions is needed; a partition is needed while
// a region of its consumers is live: the least such sets, by trying until nothing changes.
func TestNeedsAreTheLeastSetsOfTheirDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, err := NewLayout(planOf(draw(t)))
		if err != nil {
			t.Fatal(err)
		}
		consumers := ends(l)
		done := make([]bool, len(l.plan.Regions))
		live := make([]bool, len(done))
		for i := range done {
			done[i] = rapid.Bool().Draw(t, "finished")
			live[i] = !done[i]
		}
		needed := map[[2]int32]bool{}
		for again := true; again; {
			again = false
			for k, cs := range consumers {
				for _, c := range cs {
					if live[l.region[c]] && !needed[k] {
						needed[k], again = true, true
					}
				}
				if r := l.region[l.first[l.plan.Edges[k[0]].FromChain]+k[1]]; needed[k] && !live[r] {
					live[r], again = true, true
				}
			}
		}
		n := Need(l, func(r int32) bool { return done[r] })
		for i := range live {
			if n.Region(int32(i)) != live[i] {
				t.Fatalf("region %d of\n%s\nlive: %t, by definition %t", i, text(l.plan.Regions), n.Region(int32(i)), live[i])
			}
		}
		for _, e := range l.plan.Edges {
			for i := range l.plan.Chains[e.FromChain].Parallelism {
				if e.Exchange == blocking && n.Partition(e.Index, i) != needed[[2]int32{e.Index, i}] {
					t.Fatalf("result %d of edge %d, regions\n%s\nneeded: %t", i, e.Index, text(l.plan.Regions), n.Partition(e.Index, i))
				}
			}
		}
	})
}

func TestPlansWhoseRegionsAreNoneAreRefused(t *testing.T) {
	stream := func(p *jobpb.Plan) {
		p.Edges[0].Exchange = pipelined
		for _, r := range p.Regions {
			r.InputEdges = nil
		}
	}
	for name, c := range map[string]struct {
		exchange    jobpb.ExchangeKind
		partitioner jobpb.Partitioner
		change      func(*jobpb.Plan)
		says        string
	}{
		"a stream from region to region": {blocking, hashed, stream, "PIPELINED edge 0"},
		"a lane from region to region":   {blocking, forward, stream, "PIPELINED edge 0"},
		"readers before what they read": {blocking, hashed, func(p *jobpb.Plan) {
			for i, r := range p.Regions {
				r.Index = int32(len(p.Regions) - 1 - i)
			}
		}, "comes later"},
		"a reader that does not say so": {blocking, hashed, func(p *jobpb.Plan) { p.Regions[2].InputEdges = nil }, "region 2 reads edges [0], not []"},
		"a reader that reads nothing":   {blocking, global, func(p *jobpb.Plan) { p.Regions[3].InputEdges = []int32{0} }, "region 3 reads edges [], not [0]"},
		"a lane's end before its begin": {blocking, forward, func(p *jobpb.Plan) { p.Regions[1].Index, p.Regions[3].Index = 3, 1 }, "comes later"},
		"a global edge read too early":  {blocking, global, func(p *jobpb.Plan) { p.Regions[1].Index, p.Regions[2].Index = 2, 1 }, "comes later"},
	} {
		p := planOf(chains(2, 2), numbered([]*jobpb.Edge{edge(0, 1, c.partitioner, c.exchange)}), nil)
		if _, err := NewLayout(p); err != nil {
			t.Fatalf("%s, before: %v", name, err)
		}
		c.change(p)
		if _, err := NewLayout(p); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNamesAreBounded(t *testing.T) {
	cs := chains(9999, 3)
	cs[0].Name, cs[1].Name = strings.Repeat("ä→", 40), "out"
	l, err := NewLayout(planOf(cs, numbered([]*jobpb.Edge{edge(0, 1, hashed, blocking)}), nil))
	if err != nil {
		t.Fatal(err)
	}
	var odd []int32
	var refs []*jobpb.PartitionRef
	for i := int32(1); i < 9999; i += 2 {
		odd = append(odd, i)
		refs = append(refs, &jobpb.PartitionRef{Producer: 9999 - i}, &jobpb.PartitionRef{Producer: 9999 - i})
	}
	for _, got := range []string{l.SubtaskNames(odd), l.ResultNames(refs)} {
		if len(got) > 400 || !strings.Contains(got, "more") || !utf8.ValidString(got) {
			t.Errorf("%d bytes: %s", len(got), got)
		}
	}
	if got, want := l.SubtaskNames([]int32{10001, 9999, 10000}), "out[0-2]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := l.ResultNames(nil), ""; got != want {
		t.Errorf("%q", got)
	}
}

// wide are plans of 10,000 subtasks that exchange records with 10,000 others.
var wide = map[string]func() ([]*jobpb.Chain, []*jobpb.Edge, []bool){
	"pipelined": func() ([]*jobpb.Chain, []*jobpb.Edge, []bool) {
		return chains(10_000, 10_000), numbered([]*jobpb.Edge{edge(0, 1, hashed, pipelined)}), []bool{true, false}
	},
	"blocking": func() ([]*jobpb.Chain, []*jobpb.Edge, []bool) {
		return chains(10_000, 10_000), numbered([]*jobpb.Edge{edge(0, 1, hashed, blocking)}), nil
	},
	"diamond": func() ([]*jobpb.Chain, []*jobpb.Edge, []bool) {
		return chains(10_000, 10_000), numbered([]*jobpb.Edge{edge(0, 1, hashed, pipelined), edge(0, 1, hashed, blocking)}), nil
	},
}

// There are 100,000,000 channels; a table of them, however small its entries, would take more than what is allowed here.
func TestChannelsAreNeverMaterialised(t *testing.T) {
	for name, shape := range wide {
		cs, es, whole := shape()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p := planOf(cs, es, whole)
		l, err := NewLayout(p)
		if err != nil {
			t.Fatal(err)
		}
		n := Need(l, func(int32) bool { return false })
		runtime.ReadMemStats(&after)
		if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 32<<20 {
			t.Errorf("%s: %d bytes for %d subtasks", name, bytes, l.Size())
		}
		if !n.Region(0) {
			t.Error("nothing is needed")
		}
	}
}

func BenchmarkTenThousandByTenThousand(b *testing.B) {
	for name, shape := range wide {
		cs, es, whole := shape()
		b.Run("regions/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if rs := Build(cs, es, whole); len(rs) != 1 && len(rs) != 20_000 {
					b.Fatal(len(rs))
				}
			}
		})
		p := planOf(cs, es, whole)
		b.Run("layout/"+name, func(b *testing.B) {
			for b.Loop() {
				if _, err := NewLayout(p); err != nil {
					b.Fatal(err)
				}
			}
		})
		l, err := NewLayout(p)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("needs/"+name, func(b *testing.B) {
			for b.Loop() {
				Need(l, func(int32) bool { return false })
			}
		})
	}
}
