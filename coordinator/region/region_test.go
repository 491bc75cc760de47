package region

import (
	"fmt"
	"slices"
	"strings"
	"testing"

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
		if len(r.Inputs) > 0 {
			s += fmt.Sprint(" <", r.Inputs)
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
		{"a blocking diamond merges", []int32{2, 2}, []*jobpb.Edge{edge(0, 1, forward, pipelined), edge(0, 1, hashed, blocking)}, nil, "0: 0[0+2] 1[0+2]"},
		{"readers come after what they read, whatever their number", []int32{1, 1}, []*jobpb.Edge{edge(1, 0, hashed, blocking)}, nil, "0: 1[0+1]; 1: 0[0+1] <[0]"},
	} {
		if got := text(Build(chains(c.ps...), c.edges, c.whole)); got != c.want {
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
	return cs, es, whole
}

// reference materialises every channel: the slow, obvious definition.
func reference(cs []*jobpb.Chain, es []*jobpb.Edge, whole []bool) (same func(a, b [2]int32) bool, reads map[[2]int32][][2]int32) {
	var all [][2]int32
	for c := range cs {
		for i := range cs[c].Parallelism {
			all = append(all, [2]int32{int32(c), i})
		}
	}
	reach := map[[2][2]int32]bool{} // a needs b at the same time, or before: both ways for pipelined
	join := func(a, b [2]int32) { reach[[2][2]int32{a, b}], reach[[2][2]int32{b, a}] = true, true }
	reads = map[[2]int32][][2]int32{}
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
					reads[b] = append(reads[b], a)
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
			for _, in := range r.Inputs {
				if in >= r.Index {
					t.Fatalf("region %d reads from region %d, which comes after it", r.Index, in)
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
				for _, b := range reads[a] {
					if of[b] != r && !slices.Contains(rs[r].Inputs, of[b]) {
						t.Fatalf("region %d reads from region %d and does not say so", r, of[b])
					}
				}
			}
		}
	})
}

func BenchmarkTenThousandSubtasksAllToAll(b *testing.B) {
	cs := chains(2500, 2500, 2500, 2500)
	es := []*jobpb.Edge{edge(0, 1, hashed, pipelined), edge(1, 2, hashed, pipelined), edge(2, 3, forward, pipelined)}
	for b.Loop() {
		if rs := Build(cs, es, []bool{true, false, false, false}); len(rs) != 1 {
			b.Fatal(len(rs))
		}
	}
}
