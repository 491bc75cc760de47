package flow_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/flowtest"
)

// vertex is one operator of a random graph on bounded input: how a job says it, and all of its records by a plain
// computation.
type vertex struct {
	name string
	wire func(p *flow.Pipeline, at []flow.Stream[rec]) flow.Stream[rec]
	recs []rec
	// sorted: its records come in the order of their values.
	sorted bool
	read   bool
}

// mostRecords keeps joins of joins small.
const mostRecords = 400

func drawDAG(t *rapid.T) []*vertex {
	var g []*vertex
	for i := range rapid.IntRange(1, 2).Draw(t, "sources") {
		var recs []rec
		for range rapid.IntRange(0, 25).Draw(t, "records") {
			recs = append(recs, rec{rapid.Int64Range(0, 5).Draw(t, "key"), rapid.Int64Range(-9, 9).Draw(t, "val")})
		}
		id := fmt.Sprint("in", i)
		g = append(g, &vertex{name: id, recs: recs, wire: func(p *flow.Pipeline, _ []flow.Stream[rec]) flow.Stream[rec] { return p.Of(id, recs...) }})
	}
	for range rapid.IntRange(1, 6).Draw(t, "operators") {
		v := drawVertex(t, g)
		if len(v.recs) <= mostRecords {
			g = append(g, v)
		}
	}
	return g
}

func drawVertex(t *rapid.T, g []*vertex) *vertex {
	i := rapid.IntRange(0, len(g)-1).Draw(t, "input")
	j := rapid.IntRange(0, len(g)-1).Draw(t, "other input")
	in, other := g[i], g[j]
	x := flow.Exchange(rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "exchange"))
	one := func(name string, recs []rec, wire func(flow.Stream[rec]) flow.Stream[rec]) *vertex {
		in.read = true
		return &vertex{name: fmt.Sprintf("%s(%d)", name, i), recs: recs, wire: func(_ *flow.Pipeline, at []flow.Stream[rec]) flow.Stream[rec] { return wire(at[i]) }}
	}
	keyed := func(s flow.Stream[rec]) flow.KeyedStream[int64, rec] { return s.KeyBy(rec.ByKey).Exchange(x) }
	unkeyed := func(kv flow.KV[int64, int64]) rec { return rec{kv.Key, kv.Value} }
	switch rapid.IntRange(0, 12).Draw(t, "operator") {
	case 0:
		return one("map", mapped(in.recs, rekeyed), func(s flow.Stream[rec]) flow.Stream[rec] { return s.Map(rekeyed) })
	case 1:
		return one("filter", slices.DeleteFunc(slices.Clone(in.recs), func(r rec) bool { return r.Val%3 == 0 }), func(s flow.Stream[rec]) flow.Stream[rec] {
			return s.Filter(func(r rec) bool { return r.Val%3 != 0 })
		})
	case 2:
		return one("rebalance", in.recs, func(s flow.Stream[rec]) flow.Stream[rec] {
			return s.Rebalance().Exchange(x).Filter(func(rec) bool { return true })
		})
	case 3:
		return one("partition", in.recs, func(s flow.Stream[rec]) flow.Stream[rec] {
			return s.PartitionBy(func(r rec, n int) int { return int(r.Key) % n }).Filter(func(rec) bool { return true })
		})
	case 4:
		return one("sum", perKey(in.recs, func(vals []int64) []int64 { return []int64{total(vals)} }), func(s flow.Stream[rec]) flow.Stream[rec] {
			return flow.Sum(keyed(s), func(r rec) int64 { return r.Val }).Map(unkeyed)
		})
	case 5:
		return one("count", perKey(in.recs, func(vals []int64) []int64 { return []int64{int64(len(vals))} }), func(s flow.Stream[rec]) flow.Stream[rec] {
			return keyed(s).Count().Map(unkeyed)
		})
	case 6:
		return one("max", perKey(in.recs, func(vals []int64) []int64 { return []int64{slices.Max(vals)} }), func(s flow.Stream[rec]) flow.Stream[rec] {
			return flow.Max(keyed(s), func(r rec) int64 { return r.Val }).Map(unkeyed)
		})
	case 7:
		distinct := slices.Clone(in.recs)
		slices.SortFunc(distinct, byValue)
		return one("distinct", slices.Compact(distinct), flow.Distinct[rec])
	case 8:
		return one("first of each key", perKey(in.recs, func(vals []int64) []int64 {
			slices.Sort(vals)
			return vals[:min(2, len(vals))]
		}), func(s flow.Stream[rec]) flow.Stream[rec] {
			return flow.TopNByKey(keyed(s), 2, byValue).Map(func(r flow.Ranked[rec]) rec { return r.Value })
		})
	case 9:
		sorted := slices.SortedFunc(slices.Values(in.recs), byValue)
		return one("first", sorted[:min(3, len(sorted))], func(s flow.Stream[rec]) flow.Stream[rec] {
			return flow.TopN(s, 3, byValue).Map(func(r flow.Ranked[rec]) rec { return r.Value })
		})
	case 10:
		v := one("sort", in.recs, func(s flow.Stream[rec]) flow.Stream[rec] { return flow.SortBy(s, func(r rec) int64 { return r.Val }) })
		v.sorted = true
		return v
	case 11:
		in.read, other.read = true, true
		return &vertex{name: fmt.Sprintf("union(%d,%d)", i, j), recs: slices.Concat(in.recs, other.recs),
			wire: func(_ *flow.Pipeline, at []flow.Stream[rec]) flow.Stream[rec] { return at[i].Union(at[j]) }}
	}
	return drawJoin(t, g, i, j, x)
}

func drawJoin(t *rapid.T, g []*vertex, i, j int, x flow.Exchange) *vertex {
	l, r := g[i], g[j]
	l.read, r.read = true, true
	kind := rapid.SampledFrom([]string{"join", "leftjoin", "fulljoin"}).Draw(t, "join")
	options := map[string][]flow.JoinOption{"": nil, "build left": {flow.BuildLeft()}, "build right": {flow.BuildRight()}, "broadcast": {flow.BroadcastRight()}}
	how := rapid.SampledFrom([]string{"", "build left", "build right", "broadcast"}).Draw(t, "how")
	if kind == "fulljoin" && how == "broadcast" {
		how = ""
	}
	pair := func(a, b flow.Opt[rec]) rec {
		return rec{a.Or(b.Value).Key, 3*a.Or(rec{Val: 50}).Val - b.Or(rec{Val: 70}).Val}
	}
	return &vertex{
		name: fmt.Sprintf("%s(%d,%d) %s", kind, i, j, how), recs: nestedLoops(kind, l.recs, r.recs, pair),
		wire: func(_ *flow.Pipeline, at []flow.Stream[rec]) flow.Stream[rec] {
			left, right := at[i].KeyBy(rec.ByKey).Exchange(x), at[j].KeyBy(rec.ByKey)
			switch kind {
			case "leftjoin":
				return left.LeftJoin(right, func(a rec, b flow.Opt[rec], emit func(rec)) { emit(pair(flow.Some(a), b)) }, options[how]...)
			case "fulljoin":
				return left.FullJoin(right, func(a, b flow.Opt[rec], emit func(rec)) { emit(pair(a, b)) }, options[how]...)
			}
			return left.Join(right, func(a, b rec, emit func(rec)) { emit(pair(flow.Some(a), flow.Some(b))) }, options[how]...)
		},
	}
}

func nestedLoops(kind string, ls, rs []rec, pair func(a, b flow.Opt[rec]) rec) (out []rec) {
	matched := make([]bool, len(rs))
	for _, l := range ls {
		alone := true
		for k, r := range rs {
			if l.Key == r.Key {
				alone, matched[k] = false, true
				out = append(out, pair(flow.Some(l), flow.Some(r)))
			}
		}
		if alone && kind != "join" {
			out = append(out, pair(flow.Some(l), flow.Opt[rec]{}))
		}
	}
	for k, r := range rs {
		if !matched[k] && kind == "fulljoin" {
			out = append(out, pair(flow.Opt[rec]{}, flow.Some(r)))
		}
	}
	return out
}

func byValue(a, b rec) int { return cmp.Or(cmp.Compare(a.Val, b.Val), cmp.Compare(a.Key, b.Key)) }
func rekeyed(r rec) rec    { return rec{(r.Key + r.Val + 90) % 4, r.Val + 1} }

func mapped(in []rec, f func(rec) rec) (out []rec) {
	for _, r := range in {
		out = append(out, f(r))
	}
	return out
}

func perKey(in []rec, f func(vals []int64) []int64) (out []rec) {
	vals := map[int64][]int64{}
	for _, r := range in {
		vals[r.Key] = append(vals[r.Key], r.Val)
	}
	for k, vs := range vals {
		for _, v := range f(vs) {
			out = append(out, rec{k, v})
		}
	}
	return out
}

// TestOneJobOneResult runs random graphs in every mode, with every schedule, at every parallelism: the
// result is that of a plain computation, and what is sorted comes in order.
func TestOneJobOneResult(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := drawDAG(rt)
		var outs []*flowtest.Collected[rec]
		build := func(p *flow.Pipeline, _ *flow.NoConfig) error {
			var at []flow.Stream[rec]
			for i, v := range g {
				s := v.wire(p, at)
				at = append(at, s)
				if !v.read {
					s.To("out"+strconv.Itoa(i), drop[rec]())
				}
			}
			return nil
		}
		options := []flowtest.Option{flowtest.Cores(rapid.IntRange(1, 4).Draw(rt, "cores"))}
		mo := rapid.SampledFrom([]string{"auto", "streaming", "batch"}).Draw(rt, "mode")
		sc := rapid.SampledFrom([]string{"region", "eager", "lazy"}).Draw(rt, "schedule")
		println(mo, sc)
		options = append(options, flowtest.Setting("mode", mo), flowtest.Setting("schedule", sc))
		var names []string
		for i, v := range g {
			names = append(names, v.name)
			if !v.read {
				outs = append(outs, flowtest.Sink[rec]("out"+strconv.Itoa(i)))
				options = append(options, outs[len(outs)-1])
			}
		}
		println("RUN", strings.Join(names, ", "))
		flowtest.Run(rt2t{t, rt}, &flow.NoConfig{}, build, options...)
		for _, v := range g {
			if v.read {
				continue
			}
			got := slices.Clone(outs[0].Values())
			outs = outs[1:]
			if v.sorted && !slices.IsSortedFunc(got, func(a, b rec) int { return cmp.Compare(a.Val, b.Val) }) {
				rt.Fatalf("%s: %s is not in order: %v", strings.Join(names, ", "), v.name, got)
			}
			want := slices.SortedFunc(slices.Values(v.recs), byValue)
			slices.SortFunc(got, byValue)
			if !slices.Equal(want, got) {
				rt.Fatalf("%s: %s (-plain +job)\n%s", strings.Join(names, ", "), v.name, gocmp.Diff(want, got))
			}
		}
	})
}
