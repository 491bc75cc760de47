package supply

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/coordinator/placement"
	"github.com/sluiceio/sluice/coordinator/region"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// plan makes chains with a parallelism each and edges between them.
func plan(t interface{ Fatalf(string, ...any) }, widths []int32, edges []*jobpb.Edge) *region.Layout {
	p := &jobpb.Plan{Graph: &jobpb.Graph{}}
	for i, n := range widths {
		p.Chains = append(p.Chains, &jobpb.Chain{Index: int32(i), Operators: []int32{int32(i)}, Parallelism: n})
		p.Graph.Operators = append(p.Graph.Operators, &jobpb.Operator{Id: fmt.Sprint("o", i), Kind: "map"})
	}
	for i, e := range edges {
		e.Index, e.FromOperator, e.ToOperator = int32(i), e.FromChain, e.ToChain
		p.Edges = append(p.Edges, e)
	}
	p.Regions = region.Build(p.Chains, p.Edges, nil)
	l, err := region.NewLayout(p)
	if err != nil {
		t.Fatalf("layout: %v", err)
	}
	return l
}

func edgeOf(from, to int32, p jobpb.Partitioner, x jobpb.ExchangeKind) *jobpb.Edge {
	return &jobpb.Edge{FromChain: from, ToChain: to, Partitioner: p, Exchange: x}
}

const (
	hash      = jobpb.Partitioner_PARTITIONER_HASH
	forward   = jobpb.Partitioner_PARTITIONER_FORWARD
	rescale   = jobpb.Partitioner_PARTITIONER_RESCALE
	global    = jobpb.Partitioner_PARTITIONER_GLOBAL
	blocking  = jobpb.ExchangeKind_EXCHANGE_BLOCKING
	pipelined = jobpb.ExchangeKind_EXCHANGE_PIPELINED
)

// model is what a Supply answers, by definition.
type model struct {
	l      *region.Layout
	of     map[[2]int32]Holding
	status []jobpb.RegionStatus
}

// reads calls f with each pair over which region r reads.
func (m *model) reads(r int32, f func(edge, producer, consumer int32)) {
	for _, e := range m.l.Plan().Edges {
		if e.Exchange != blocking {
			continue
		}
		first := m.l.First(e.ToChain)
		for c := range m.l.Plan().Chains[e.ToChain].Parallelism {
			if m.l.Of(int(first+c)) != r {
				continue
			}
			from := m.l.Producers(e.Index, c)
			for i := range from.Count {
				f(e.Index, from.First+i-m.l.First(e.FromChain), c)
			}
		}
	}
}

func (m *model) ready(r int32) bool {
	if s := m.status[r]; s != jobpb.RegionStatus_REGION_CREATED && s != jobpb.RegionStatus_REGION_RESTARTING {
		return false
	}
	ready := true
	m.reads(r, func(edge, producer, _ int32) {
		e := m.l.Plan().Edges[edge]
		if m.l.Of(int(m.l.First(e.FromChain)+producer)) != r && m.of[[2]int32{edge, producer}].Condition != Stored {
			ready = false
		}
	})
	return ready
}

func (m *model) bytes(edge, consumer int32) (list []placement.Bytes) {
	e := m.l.Plan().Edges[edge]
	from, parts := m.l.Producers(edge, consumer), int64(1)
	if e.Partitioner == hash {
		parts = int64(m.l.Plan().Chains[e.ToChain].Parallelism)
	}
	for i := range from.Count {
		h := m.of[[2]int32{edge, from.First + i - m.l.First(e.FromChain)}]
		if h.Condition == Stored && h.Bytes > 0 {
			list = placement.Merge(list, []placement.Bytes{{Worker: h.Worker, Count: h.Bytes}})
		}
	}
	for i := range list {
		list[i].Count = (list[i].Count + parts - 1) / parts
	}
	slices.SortFunc(list, func(a, b placement.Bytes) int { return int(a.Worker[1]) - int(b.Worker[1]) })
	return list
}

// check compares everything that can be asked.
func (m *model) check(t *rapid.T, s *Supply) {
	var want, waiting []int32
	for r := range m.status {
		if m.ready(int32(r)) {
			want = append(want, int32(r))
		}
		if s.Waits(int32(r)) {
			waiting = append(waiting, int32(r))
		}
	}
	if got := slices.Collect(s.Ready()); !slices.Equal(got, want) {
		t.Fatalf("ready %v, want %v", got, want)
	}
	if got := slices.Collect(s.Waiting()); !slices.Equal(got, waiting) {
		t.Fatalf("waiting %v, want %v", got, waiting)
	}
	var count [Lost + 1]int
	for _, e := range m.l.Plan().Edges {
		if e.Exchange != blocking {
			continue
		}
		for p := range m.l.Plan().Chains[e.FromChain].Parallelism {
			count[m.of[[2]int32{e.Index, p}].Condition]++
		}
		for c := range m.l.Plan().Chains[e.ToChain].Parallelism {
			if got, want := s.Bytes(e.Index, c), m.bytes(e.Index, c); !slices.Equal(got, want) {
				t.Fatalf("edge %d consumer %d: bytes %v, want %v", e.Index, c, got, want)
			}
		}
	}
	for c, n := range count {
		if got := s.Count(Condition(c)); got != n {
			t.Fatalf("%d results in condition %d, want %d", got, c, n)
		}
	}
}

func drawPlan(r *rapid.T) *region.Layout {
	var widths []int32
	for range rapid.IntRange(1, 5).Draw(r, "chains") {
		widths = append(widths, rapid.Int32Range(1, 4).Draw(r, "parallelism"))
	}
	var edges []*jobpb.Edge
	for to := 1; to < len(widths); to++ {
		for range rapid.IntRange(0, 3).Draw(r, "inputs") {
			from := rapid.IntRange(0, to-1).Draw(r, "from")
			p := rapid.SampledFrom([]jobpb.Partitioner{hash, rescale, global, forward}).Draw(r, "partitioner")
			if p == forward && widths[from] != widths[to] {
				p = rescale
			}
			edges = append(edges, edgeOf(int32(from), int32(to), p, rapid.SampledFrom([]jobpb.ExchangeKind{blocking, blocking, pipelined}).Draw(r, "exchange")))
		}
	}
	return plan(r, widths, edges)
}

// Counters answer what looking at every pair would. A region that waits has produced nothing itself, as in the facts.
func TestCountersAgreeWithTheDefinition(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		l := drawPlan(r)
		s := New(l)
		m := &model{l: l, of: map[[2]int32]Holding{}, status: make([]jobpb.RegionStatus, len(l.Plan().Regions))}
		for range rapid.IntRange(0, 60).Draw(r, "steps") {
			i := rapid.Int32Range(0, int32(len(m.status)-1)).Draw(r, "region")
			m.status[i] = rapid.SampledFrom([]jobpb.RegionStatus{
				jobpb.RegionStatus_REGION_CREATED, jobpb.RegionStatus_REGION_RUNNING, jobpb.RegionStatus_REGION_FINISHED, jobpb.RegionStatus_REGION_RESTARTING,
			}).Draw(r, "status")
			s.Region(i, m.status[i])
			for _, sub := range l.Plan().Regions[i].Subtasks {
				for _, e := range l.Out(sub.Chain) {
					for k := range sub.Count {
						h := Holding{}
						if !s.Waits(i) && rapid.Bool().Draw(r, "finished") {
							h = Holding{rapid.SampledFrom([]Condition{Stored, Away, Lost}).Draw(r, "condition"), fmt.Sprint("w", rapid.IntRange(0, 2).Draw(r, "worker")), rapid.Int64Range(0, 3).Draw(r, "bytes")}
						}
						m.of[[2]int32{e, sub.First + k}] = h
						s.Put(e, sub.First+k, h)
					}
				}
			}
			m.check(r, s)
		}
	})
}

// The promise: an edge of 10,000 × 10,000 subtasks costs a constant per result, and once a step per consumer.
func TestAShuffleCostsNoPairs(t *testing.T) {
	const n = 10_000
	l := plan(t, []int32{n, n}, []*jobpb.Edge{edgeOf(0, 1, hash, blocking)})
	s := New(l)
	if len(l.Plan().Regions) != 2*n {
		t.Fatalf("%d regions", len(l.Plan().Regions))
	}
	for r := range int32(2 * n) {
		s.Region(r, jobpb.RegionStatus_REGION_CREATED)
	}
	before := s.Visits()
	for p := range int32(n - 1) {
		s.Put(0, p, Holding{Condition: Stored, Worker: "w", Bytes: 1})
	}
	if cost := s.Visits() - before; cost > 2*n {
		t.Errorf("%d steps for %d results of which none completes the edge", cost, n-1)
	}
	if r := s.ready.next(n); r >= 0 {
		t.Errorf("region %d is ready although a result is missing", r)
	}
	before = s.Visits()
	s.Put(0, n-1, Holding{Condition: Stored, Worker: "w", Bytes: 1})
	if cost := s.Visits() - before; cost > 2*n {
		t.Errorf("%d steps to complete the edge", cost)
	}
	if ready := slices.Collect(s.Ready()); len(ready) != 2*n {
		t.Errorf("%d of %d regions are ready", len(ready), 2*n)
	}
}

func BenchmarkPut(b *testing.B) {
	const n = 10_000
	s := New(plan(b, []int32{n, n}, []*jobpb.Edge{edgeOf(0, 1, hash, blocking)}))
	s.Put(0, 0, Holding{Condition: Stored})
	b.ReportAllocs()
	for i := range b.N {
		p := int32(i%(n-2)) + 2
		c := Stored
		if i/(n-2)%2 == 1 {
			c = Absent
		}
		s.Put(0, p, Holding{Condition: c})
	}
}
