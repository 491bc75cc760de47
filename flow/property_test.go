package flow_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/flowtest"
	"github.com/sluiceio/sluice/flow/window"
)

// rec is the record of random pipelines.
type rec struct{ Key, Val int64 }

func (r rec) ByKey() int64 { return r.Key }

// stamped is a record of the plain computation.
type stamped struct {
	Rec rec
	At  flow.Time
}

// step is one random operator: how a job says it, and what a plain computation makes of all records.
type step struct {
	name  string
	wire  func(flow.Stream[rec]) flow.Stream[rec]
	plain func([]stamped) []stamped
}

// each makes the plain form of an operator that looks at one record at a time.
func each(f func(stamped) []stamped) func([]stamped) []stamped {
	return func(in []stamped) []stamped {
		var out []stamped
		for _, s := range in {
			out = append(out, f(s)...)
		}
		return out
	}
}

// grouped makes the plain form of an aggregation: f gets the values of a key and of whatever else groups.
func grouped(group func(stamped) (by [3]int64, at flow.Time), f func(vals []int64) int64) func([]stamped) []stamped {
	return func(in []stamped) []stamped {
		vals, times := map[[3]int64][]int64{}, map[[3]int64]flow.Time{}
		for _, s := range in {
			g, at := group(s)
			vals[g], times[g] = append(vals[g], s.Rec.Val), at
		}
		var out []stamped
		for g, vs := range vals {
			out = append(out, stamped{rec{g[0], f(vs)}, times[g]})
		}
		return out
	}
}

func byKeyAtTheEnd(s stamped) ([3]int64, flow.Time) { return [3]int64{s.Rec.Key}, flow.MaxTime }

func total(vs []int64) (sum int64) {
	for _, v := range vs {
		sum += v
	}
	return sum
}

func number(vs []int64) int64 { return int64(len(vs)) }

func squares(vs []int64) (sum int64) {
	for _, v := range vs {
		sum += v * v
	}
	return sum
}

func drawStep(t *rapid.T) step {
	par := rapid.IntRange(1, 4).Draw(t, "parallelism")
	switch rapid.IntRange(0, 11).Draw(t, "operator") {
	case 0:
		a := rapid.Int64Range(-3, 3).Draw(t, "a")
		return step{"map", func(s flow.Stream[rec]) flow.Stream[rec] {
			return s.Map(func(r rec) rec { return rec{r.Key, r.Val + a} })
		}, each(func(s stamped) []stamped { return []stamped{{rec{s.Rec.Key, s.Rec.Val + a}, s.At}} })}
	case 1:
		m := rapid.Int64Range(2, 5).Draw(t, "modulus")
		return step{"filter", func(s flow.Stream[rec]) flow.Stream[rec] {
			return s.Filter(func(r rec) bool { return r.Val%m != 0 }).Parallelism(par)
		}, each(func(s stamped) []stamped {
			if s.Rec.Val%m == 0 {
				return nil
			}
			return []stamped{s}
		})}
	case 2:
		return step{"flatmap", func(s flow.Stream[rec]) flow.Stream[rec] {
			return s.FlatMap(func(r rec, emit func(rec)) {
				for i := range r.Val & 3 {
					emit(rec{r.Key + i, r.Val})
				}
			})
		}, each(func(s stamped) (out []stamped) {
			for i := range s.Rec.Val & 3 {
				out = append(out, stamped{rec{s.Rec.Key + i, s.Rec.Val}, s.At})
			}
			return out
		})}
	case 3:
		return step{"rebalance", func(s flow.Stream[rec]) flow.Stream[rec] { return s.Rebalance().Peek(func(rec) {}).Parallelism(par) }, each(func(s stamped) []stamped { return []stamped{s} })}
	case 4:
		return step{"rescale", func(s flow.Stream[rec]) flow.Stream[rec] { return s.Rescale().Peek(func(rec) {}).Parallelism(par) }, each(func(s stamped) []stamped { return []stamped{s} })}
	case 5:
		return step{"broadcast to one", func(s flow.Stream[rec]) flow.Stream[rec] { return s.Broadcast().Peek(func(rec) {}).Parallelism(1) }, each(func(s stamped) []stamped { return []stamped{s} })}
	case 6:
		return step{"union", func(s flow.Stream[rec]) flow.Stream[rec] {
			return s.Union(s.Map(func(r rec) rec { return rec{r.Key + 1, -r.Val} })).Parallelism(par)
		}, each(func(s stamped) []stamped { return []stamped{s, {rec{s.Rec.Key + 1, -s.Rec.Val}, s.At}} })}
	case 7:
		return drawSplit(par)
	}
	return drawKeyed(t, par)
}

// halves sends records with odd values to a side output.
type halves struct{}

var odd = flow.NewTag[rec]("odd")

func (halves) Open(*flow.OpSetup[rec]) error { return nil }
func (halves) Process(c *flow.OpCtx[rec], r rec) error {
	if r.Val&1 != 0 {
		c.Side(odd, r)
		return nil
	}
	c.EmitAt(r, after(c.Timestamp()))
	return nil
}

// after is the next event time. Nothing is after MaxTime, the time of final values: one more would be the past.
func after(t flow.Time) flow.Time {
	if t == flow.MaxTime {
		return t
	}
	return t + 1
}

func drawSplit(par int) step {
	return step{"side output", func(s flow.Stream[rec]) flow.Stream[rec] {
		h := s.Process(func() halves { return halves{} }).Parallelism(par)
		return h.Union(h.SideOutput(odd).Map(func(r rec) rec { return rec{r.Key, r.Val + 1} }))
	}, each(func(s stamped) []stamped {
		if s.Rec.Val&1 != 0 {
			return []stamped{{rec{s.Rec.Key, s.Rec.Val + 1}, s.At}}
		}
		return []stamped{{s.Rec, after(s.At)}}
	})}
}

// summer keeps a sum, and the values themselves, per key.
type summer struct {
	sum  flow.ValueState[int64]
	list flow.ListState[int64]
}

func (p *summer) Open(s *flow.Setup[int64, rec]) error {
	p.sum, p.list = s.Value[int64]("sum"), s.List[int64]("list")
	s.OnEnd(func(c *flow.Ctx[int64, rec]) error {
		check := int64(0)
		for v := range p.list.All() {
			check += v
		}
		if check != p.sum.Get() {
			return fmt.Errorf("key %d: sum %d, list %d", c.Key(), p.sum.Get(), check)
		}
		c.Emit(rec{c.Key(), check})
		return nil
	})
	return nil
}

func (p *summer) Process(_ *flow.Ctx[int64, rec], r rec) error {
	*p.sum.Ref() += r.Val
	p.list.Append(r.Val)
	return nil
}

func drawKeyed(t *rapid.T, par int) step {
	spec := window.Tumbling{Size: flow.Time(rapid.Int64Range(1, 40).Draw(t, "size_us"))}
	offset := rapid.Int64Range(0, int64(spec.Size)-1).Draw(t, "offset_us")
	spec.Offset = flow.Time(offset)
	tumbling := flow.Tumbling(time.Duration(spec.Size) * time.Microsecond).Offset(time.Duration(offset) * time.Microsecond)
	byWindow := func(s stamped) ([3]int64, flow.Time) {
		w := spec.Assign(s.At)
		return [3]int64{s.Rec.Key, int64(w.Start), int64(w.End)}, w.Last()
	}
	toRec := func(w flow.Windowed[int64, int64]) rec { return rec{w.Key, w.Value} }
	kv := func(k flow.KV[int64, int64]) rec { return rec{k.Key, k.Value} }
	switch rapid.IntRange(0, 5).Draw(t, "aggregation") {
	case 0:
		return step{"reduce", func(s flow.Stream[rec]) flow.Stream[rec] {
			return s.KeyBy(rec.ByKey).Reduce(func(a, b rec) rec { return rec{a.Key, a.Val + b.Val} }).Parallelism(par)
		}, grouped(byKeyAtTheEnd, total)}
	case 1:
		return step{"count", func(s flow.Stream[rec]) flow.Stream[rec] { return s.KeyBy(rec.ByKey).Count().Parallelism(par).Map(kv) },
			grouped(byKeyAtTheEnd, number)}
	case 2:
		return step{"fold", func(s flow.Stream[rec]) flow.Stream[rec] {
			return s.KeyBy(rec.ByKey).Fold(func() int64 { return 0 }, func(a int64, r rec) int64 { return a + r.Val*r.Val }).Parallelism(par).Map(kv)
		}, grouped(byKeyAtTheEnd, squares)}
	case 3:
		return step{"keyed process", func(s flow.Stream[rec]) flow.Stream[rec] {
			return s.KeyBy(rec.ByKey).Process(func() *summer { return &summer{} }).Parallelism(par)
		}, grouped(byKeyAtTheEnd, total)}
	case 4:
		return step{"window count", func(s flow.Stream[rec]) flow.Stream[rec] {
			return s.KeyBy(rec.ByKey).Window(tumbling).Count().Parallelism(par).Map(toRec)
		}, grouped(byWindow, number)}
	}
	return step{"window fold", func(s flow.Stream[rec]) flow.Stream[rec] {
		return s.KeyBy(rec.ByKey).Window(tumbling).
			Fold(func() []int64 { return nil }, func(a []int64, r rec) []int64 { return append(a, r.Val) },
				func(a, b []int64) []int64 { return append(a, b...) }).Parallelism(par).
			Map(func(w flow.Windowed[int64, []int64]) rec { return rec{w.Key, squares(w.Value)} })
	}, grouped(byWindow, squares)}
}

// timed is a source of several splits, each a stretch of event time with disorder inside.
type timed [][]stamped

func (s timed) Bounded() bool { return true }
func (s timed) OpenEnumerator(context.Context, int, []byte) (flow.Enumerator, error) {
	return &timedSplits{n: len(s)}, nil
}
func (s timed) OpenReader(context.Context, *flow.Task) (flow.Reader[stamped], error) {
	return &timedReader{src: s}, nil
}

type timedSplits struct{ next, n int }

func (e *timedSplits) Next(context.Context) ([]flow.Split, error) {
	if e.next == e.n {
		return nil, io.EOF
	}
	e.next++
	return []flow.Split{{ID: fmt.Sprint(e.next - 1), Data: binary.AppendUvarint(nil, uint64(e.next-1))}}, nil
}
func (e *timedSplits) Snapshot(element.CheckpointID) ([]byte, error) { return nil, nil }
func (e *timedSplits) Close() error                                  { return nil }

type timedReader struct {
	src  timed
	open []int // split numbers by SplitIndex
	cur  int
	next int
}

func (r *timedReader) Assign(splits []flow.Split) error {
	for _, s := range splits {
		n, _ := binary.Uvarint(s.Data)
		r.open = append(r.open, int(n))
	}
	return nil
}

func (r *timedReader) Poll(_ context.Context, out *flow.Records[stamped]) error {
	for r.cur < len(r.open) {
		vs := r.src[r.open[r.cur]]
		for ; r.next < len(vs); r.next++ {
			if out.Full() {
				return nil
			}
			out.Add(connector.SplitIndex(r.cur), vs[r.next], 0, int64(r.next))
		}
		out.Finish(connector.SplitIndex(r.cur))
		r.cur, r.next = r.cur+1, 0
	}
	return io.EOF
}
func (r *timedReader) Describe(s connector.SplitIndex, pos int64) string {
	return fmt.Sprint(s, ":", pos)
}
func (r *timedReader) Snapshot(element.CheckpointID) ([]flow.Split, error)   { return nil, nil }
func (r *timedReader) Committed(context.Context, element.CheckpointID) error { return nil }
func (r *timedReader) Close() error                                          { return nil }

const disorder = 15 // microseconds

func drawInput(t *rapid.T) timed {
	var src timed
	now := int64(-50)
	for range rapid.IntRange(0, 5).Draw(t, "splits") {
		var split []stamped
		for range rapid.IntRange(0, 40).Draw(t, "records") {
			now += rapid.Int64Range(0, 6).Draw(t, "step")
			split = append(split, stamped{
				rec{rapid.Int64Range(0, 7).Draw(t, "key"), rapid.Int64Range(-9, 9).Draw(t, "val")},
				flow.Time(now - rapid.Int64Range(0, disorder).Draw(t, "disorder")),
			})
		}
		src = append(src, split)
		now += disorder // the next split begins behind every time of this one
	}
	return src
}

func TestRandomPipelinesEqualThePlainComputation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { checkPipeline(t, rt, drawInput(rt), rapid.IntRange(1, 5).Draw(rt, "steps")) })
}

// TestLargeInputsEqualThePlainComputation fills batches and channels: records go out before all have come in.
func TestLargeInputsEqualThePlainComputation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		var src timed
		now := int64(0)
		for range rapid.IntRange(1, 4).Draw(rt, "splits") {
			var split []stamped
			for range rapid.IntRange(0, 4000).Draw(rt, "records") {
				now += rnd.Int64N(2)
				split = append(split, stamped{rec{rnd.Int64N(300), rnd.Int64N(19) - 9}, flow.Time(now - rnd.Int64N(disorder+1))})
			}
			src = append(src, split)
			now += disorder
		}
		checkPipeline(t, rt, src, rapid.IntRange(1, 3).Draw(rt, "steps"))
	})
}

func checkPipeline(t *testing.T, rt *rapid.T, input timed, length int) {
	var steps []step
	for range length {
		steps = append(steps, drawStep(rt))
	}
	sinks := rapid.IntRange(1, 3).Draw(rt, "sinks")
	build := func(p *flow.Pipeline, _ *flow.NoConfig) error {
		s := p.From("in", input, flow.EventTime(func(s stamped) flow.Time { return s.At }, flow.OutOfOrder(disorder*time.Microsecond))).
			Map(func(s stamped) rec { return s.Rec })
		for _, st := range steps {
			s = st.wire(s)
		}
		s.To("out", drop[rec]()).Parallelism(sinks)
		return nil
	}
	out := flowtest.Sink[rec]("out")
	flowtest.Run(rt2t{t, rt}, &flow.NoConfig{}, build, out, flowtest.Cores(rapid.IntRange(1, 4).Draw(rt, "cores")))

	want := slices.Concat(input...)
	var names []string
	for _, st := range steps {
		want = st.plain(want)
		names = append(names, st.name)
	}
	var got []stamped
	times := out.Times()
	for i, r := range out.Values() {
		got = append(got, stamped{r, times[i]})
	}
	order := func(a, b stamped) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Rec.Key, b.Rec.Key), cmp.Compare(a.Rec.Val, b.Rec.Val))
	}
	slices.SortFunc(want, order)
	slices.SortFunc(got, order)
	if !slices.Equal(want, got) {
		rt.Fatalf("%v: (-plain +job)\n%s", names, gocmp.Diff(want, got))
	}
}

// rt2t lets a job run with the context of the test and fail the property.
type rt2t struct {
	testing.TB
	rt *rapid.T
}

func (r rt2t) Helper()           { r.rt.Helper() }
func (r rt2t) Fatal(args ...any) { r.rt.Fatal(args...) }
func (r rt2t) Error(args ...any) { r.rt.Error(args...) }
