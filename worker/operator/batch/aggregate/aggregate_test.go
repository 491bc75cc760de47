package aggregate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/worker/operator/keyed"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/spill"
	"github.com/sluiceio/sluice/worker/task"
)

type event struct {
	Key  string
	Seq  int64
	N    float64
	Text string
}

type result struct {
	Key  string
	Text string
	N    int64
	At   element.Time
}

type budgeted interface{ budget() *spill.Budget }

func (o *operator[K, In, Acc]) budget() *spill.Budget { return o.mem.Budget }

// play aggregates what comes, and checks what must never be exceeded or left behind. slack is what an accumulator may have
// beyond its record.
func play[Out any](t testing.TB, memory, slack int64, stage task.StageOf[event, Out], in []event) (out []Out, counters task.Counters) {
	rt := task.NewRuntime(t.Context(), operatortest.Name)
	area, err := spill.NewArea(spill.Config{FS: vfs.NewMem(), Dir: "spill", Compression: spill.S2})
	if err != nil {
		t.Fatal(err)
	}
	rt.Batch = task.Batch{Memory: memory, Spill: area}
	push, op, err := stage(rt, func(r Out) { out = append(out, stamp(r, rt.At)) })
	if err != nil {
		t.Fatal(err)
	}
	largest := int64(0)
	for _, e := range in {
		largest = max(largest, int64(len(e.Text)+len(e.Key)))
		rt.At = element.Time(e.Seq)
		push(e)
		if rt.At != element.Time(e.Seq) {
			t.Fatalf("the operator left the event time at %v", rt.At)
		}
	}
	if err := op.OnWatermark(element.MaxTime); err != nil {
		t.Fatal(err)
	}
	if err := rt.Err(); err != nil {
		t.Fatal(err)
	}
	b := op.(budgeted).budget()
	if memory > 0 && b.Peak() > memory+largest+slack {
		t.Fatalf("%d bytes were taken of %d, the largest record has %d", b.Peak(), memory, largest)
	}
	if files := area.Totals().Files; files != 0 {
		t.Errorf("%d files are still open at the end", files)
	}
	if err := op.Close(); err != nil {
		t.Fatal(err)
	}
	if b.Used() != 0 {
		t.Errorf("%d bytes are still taken after Close", b.Used())
	}
	return out, rt.Counters
}

func stamp[Out any](v Out, at element.Time) Out {
	if r, ok := any(&v).(*result); ok {
		r.At = at
	}
	return v
}

func draw(t *rapid.T) []event {
	keys := rapid.SampledFrom([]int{1, 5, 300, 100_000}).Draw(t, "keys")
	n := rapid.SampledFrom([]int{0, 1, 3, 100, 1000, 4000}).Draw(t, "records")
	text := rapid.SampledFrom([]int{0, 20, 300}).Draw(t, "text")
	hot := rapid.SampledFrom([]int{0, 50}).Draw(t, "hot")
	seed := rapid.Uint64().Draw(t, "seed")
	next := func() int {
		seed = seed*6364136223846793005 + 1442695040888963407
		return int(seed >> 33)
	}
	var in []event
	for i := range n {
		k := next() % keys
		if next()%100 < hot {
			k = 0
		}
		in = append(in, event{
			Key: fmt.Sprintf("key %d", k), Seq: int64(i), N: []float64{1, math.NaN(), -2.5}[next()%3],
			Text: strings.Repeat("t", next()%(text+1)),
		})
	}
	return in
}

func byKey(a, b result) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Text, b.Text)) }

func same(t testing.TB, got, want []result) {
	t.Helper()
	slices.SortFunc(got, byKey)
	slices.SortFunc(want, byKey)
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("result %d is %.200v, want %.200v", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d results, want %d", len(got), len(want))
	}
}

// count has accumulators of a fixed size, lists has growing ones that depend on the order of arrival.
func count() task.StageOf[event, result] {
	return Final(keyed.Aggregation[string, event, int64, result]{
		Key: func(e event) string { return e.Key }, State: "acc",
		First:  func(event) int64 { return 1 },
		Add:    func(n int64, _ event) int64 { return n + 1 },
		Result: func(k string, n int64) result { return result{Key: k, N: n} },
	})
}

func lists() task.StageOf[event, result] {
	return Final(keyed.Aggregation[string, event, []int64, result]{
		Key: func(e event) string { return e.Key }, State: "acc",
		First: func(e event) []int64 { return []int64{e.Seq} },
		Add:   func(l []int64, e event) []int64 { return append(l, e.Seq) },
		Result: func(k string, l []int64) result {
			return result{Key: k, N: int64(len(l)), Text: fmt.Sprint(l)}
		},
	})
}

func texts() task.StageOf[event, result] {
	return Final(keyed.Aggregation[string, event, string, result]{
		Key: func(e event) string { return e.Key }, State: "acc",
		First:  func(e event) string { return e.Text },
		Add:    func(s string, e event) string { return s[:min(len(s), 1000)] + e.Text },
		Result: func(k, s string) result { return result{Key: k, Text: s} },
	})
}

// models of the three.
func model(in []event, f func(k string, es []event) result) []result {
	groups := map[string][]event{}
	for _, e := range in {
		groups[e.Key] = append(groups[e.Key], e)
	}
	var out []result
	for k, es := range groups {
		r := f(k, es)
		r.At = element.MaxTime
		out = append(out, r)
	}
	return out
}

func countModel(k string, es []event) result { return result{Key: k, N: int64(len(es))} }

func listModel(k string, es []event) result {
	var l []int64
	for _, e := range es {
		l = append(l, e.Seq)
	}
	return result{Key: k, N: int64(len(l)), Text: fmt.Sprint(l)}
}

func textModel(k string, es []event) result {
	s := es[0].Text
	for _, e := range es[1:] {
		s = s[:min(len(s), 1000)] + e.Text
	}
	return result{Key: k, Text: s}
}

func TestAggregatesAreThoseOfAMapInAnyMemory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		in := draw(rt)
		memory := rapid.SampledFrom([]int64{0, 64 << 10, 80 << 10, 250 << 10}).Draw(rt, "memory")
		got, _ := play(t, memory, 100, count(), in)
		same(t, got, model(in, countModel))
		// Many lists of few numbers: none of them is large.
		got, _ = play(t, memory, 40_000, lists(), in)
		same(t, got, model(in, listModel))
		got, _ = play(t, memory, 1100, texts(), in)
		same(t, got, model(in, textModel))
	})
}

func TestDistinctKeepsTheFirstOfEachKeyInAnyMemory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		in := draw(rt)
		memory := rapid.SampledFrom([]int64{0, 64 << 10, 250 << 10}).Draw(rt, "memory")
		r := task.NewRuntime(t.Context(), operatortest.Name)
		area, err := spill.NewArea(spill.Config{FS: vfs.NewMem(), Dir: "spill"})
		if err != nil {
			t.Fatal(err)
		}
		r.Batch = task.Batch{Memory: memory, Spill: area}
		got := map[int64]element.Time{}
		push, op, err := Distinct(func(e event) string { return e.Key }, nil)(r, func(e event) { got[e.Seq] = r.At })
		if err != nil {
			t.Fatal(err)
		}
		want, seen := map[int64]element.Time{}, map[string]bool{}
		for _, e := range in {
			r.At = element.Time(e.Seq * 3)
			if !seen[e.Key] {
				seen[e.Key] = true
				want[e.Seq] = r.At
			}
			push(e)
		}
		if err := op.OnWatermark(element.MaxTime); err != nil {
			t.Fatal(err)
		}
		if err := op.Close(); err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%d records, want %d", len(got), len(want))
		}
		for seq, at := range want {
			if got[seq] != at {
				t.Fatalf("record %d came at %v, want %v", seq, got[seq], at)
			}
		}
	})
}
