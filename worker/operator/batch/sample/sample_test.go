package sample

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/worker/operator/batch/sort"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/spill"
	"github.com/sluiceio/sluice/worker/task"
)

type rec struct {
	Key  int64
	Seq  int64
	Text string
}

func key(r rec) int64 { return r.Key }

// samples draws those of several subtasks.
func samples(t *testing.T, in [][]rec) (out []Sample[int64]) {
	for i, records := range in {
		rt := task.NewRuntime(t.Context(), operatortest.Name)
		rt.Task.Subtask = i
		h, err := operatortest.BuildIn(t, rt, Keys(key))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			h.Push(t, r, 5)
		}
		h.End(t)
		for _, s := range h.Out() {
			out = append(out, s.Value)
		}
	}
	return out
}

func bounds(t *testing.T, o sort.Order[int64], ss []Sample[int64]) Bounds[int64] {
	h := operatortest.New(t, Quantiles(o))
	for _, s := range ss {
		h.Push(t, s, element.MaxTime)
	}
	h.End(t)
	out := h.Out()
	if len(out) != 1 {
		t.Fatalf("%d bounds", len(out))
	}
	return out[0].Value
}

type routed struct {
	push   task.Push[rec]
	bounds task.Push[Bounds[int64]]
	rt     *task.Runtime
	op     task.Operator
	out    []Ranged[rec]
	at     []element.Time
}

func newRouted(t testing.TB, memory int64, o sort.Order[int64]) *routed {
	r := &routed{rt: task.NewRuntime(t.Context(), operatortest.Name)}
	area, err := spill.NewArea(spill.Config{FS: vfs.NewMem(), Dir: "spill", Compression: spill.Zstd})
	if err != nil {
		t.Fatal(err)
	}
	r.rt.Batch = task.Batch{Memory: memory, Spill: area}
	first, second := Router(key, o, nil)
	emit := func(v Ranged[rec]) {
		r.out = append(r.out, v)
		r.at = append(r.at, r.rt.At)
	}
	if r.bounds, r.op, err = first(r.rt, emit); err != nil {
		t.Fatal(err)
	}
	if r.push, _, err = second(r.rt, emit); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.op.Close(); err != nil {
			t.Error(err)
		}
		if open := area.Totals().Files; open != 0 {
			t.Errorf("%d files are open after Close", open)
		}
	})
	return r
}

func TestRangesAreATotalOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		keys := rapid.SampledFrom([]int64{1, 7, 1 << 40}).Draw(rt, "keys")
		o := rapid.SampledFrom([]sort.Order[int64]{sort.Ascending[int64](), sort.Descending[int64](), {Compare: cmp.Compare[int64]}}).Draw(rt, "order")
		in := rapid.SliceOfN(rapid.SliceOfN(rapid.Map(rapid.Int64Range(-keys, keys), func(k int64) rec { return rec{Key: k} }), 0, 300), 1, 4).Draw(rt, "records")
		ss := samples(t, in)
		b := bounds(t, o, ss)
		r := newRouted(t, 0, o)
		r.bounds(b)
		var all []rec
		for _, records := range in {
			for _, x := range records {
				all = append(all, x)
				r.push(x)
			}
		}
		if err := r.rt.Err(); err != nil || len(r.out) != len(all) {
			rt.Fatalf("%d records of %d, error %v", len(r.out), len(all), err)
		}
		slices.SortFunc(r.out, func(x, y Ranged[rec]) int { return o.Compare(x.Value.Key, y.Value.Key) })
		for i := range r.out {
			if i > 0 && (r.out[i].Range < r.out[i-1].Range || r.out[i].Value.Key == r.out[i-1].Value.Key && r.out[i].Range != r.out[i-1].Range) {
				rt.Fatalf("%v comes before %v", r.out[i-1], r.out[i])
			}
			for _, p := range []int{1, 2, 7, 500} {
				if to := Route(r.out[i], p); to < 0 || to >= p {
					rt.Fatalf("record goes to %d of %d", to, p)
				}
			}
		}
	})
}

func TestRangesAreOfAboutOneSize(t *testing.T) {
	in := make([][]rec, 3)
	seed := uint64(3)
	for i := range 60_000 { // the subtasks have 3, 9 and 48 thousand: their samples do not weigh the same
		seed = seed*6364136223846793005 + 1442695040888963407
		s := []int{2, 2, 2, 2, 1, 0}[min(5, i%6)]
		if i%20 != 0 && s == 0 {
			s = 2
		}
		in[s] = append(in[s], rec{Key: int64(seed>>40) + int64(s)<<24})
	}
	b := bounds(t, sort.Ascending[int64](), samples(t, in))
	r := newRouted(t, 0, sort.Ascending[int64]())
	r.bounds(b)
	for _, records := range in {
		for _, x := range records {
			r.push(x)
		}
	}
	const p = 8
	var n [p]int
	for _, x := range r.out {
		n[Route(x, p)]++
	}
	for i, got := range n {
		if mean := len(r.out) / p; got < mean*3/4 || got > mean*5/4 {
			t.Errorf("subtask %d gets %d records, the mean is %d", i, got, mean)
		}
	}
}

func TestSamplesAndQuantilesAreTheSameInEveryAttempt(t *testing.T) {
	in := make([][]rec, 2)
	for i := range 20_000 {
		in[i%2] = append(in[i%2], rec{Key: int64(i*7919) % 65537})
	}
	a, b := samples(t, in), samples(t, in)
	for i := range a {
		if !slices.Equal(a[i].Keys, b[i].Keys) || a[i].Seen != 10_000 || len(a[i].Keys) != Size {
			t.Errorf("the samples of subtask %d differ, or have another size than expected", i)
		}
	}
	if slices.Equal(a[0].Keys[:10], a[1].Keys[:10]) {
		t.Error("two subtasks drew the same sample")
	}
	o := sort.Ascending[int64]()
	if x, y := bounds(t, o, a), bounds(t, o, []Sample[int64]{b[1], b[0]}); !slices.Equal(x.Keys, y.Keys) {
		t.Error("quantiles depend on the order of samples")
	}
}

func TestRecordsBeforeTheBoundsAreKeptInOrder(t *testing.T) {
	for name, memory := range map[string]int64{"in memory": 0, "on disk": 64 << 10} {
		t.Run(name, func(t *testing.T) {
			r := newRouted(t, memory, sort.Ascending[int64]())
			const early, records = 2000, 3000
			for i := range records {
				if i == early {
					r.rt.At = element.MinTime
					r.bounds(Bounds[int64]{Keys: []int64{1000, 2000}})
					if r.rt.At != element.MinTime {
						t.Fatal("the operator left another event time")
					}
				}
				r.rt.At = element.Time(i)
				r.push(rec{Key: int64(i), Seq: int64(i), Text: strings.Repeat("x", 50)})
			}
			if err := r.rt.Err(); err != nil || len(r.out) != records {
				t.Fatalf("%d records, error %v", len(r.out), err)
			}
			for i, x := range r.out {
				if x.Value.Seq != int64(i) || r.at[i] != element.Time(i) {
					t.Fatalf("record %d is %v at %v", i, x, r.at[i])
				}
			}
			if spilled := r.rt.Counters.Spilled > 0; spilled != (memory > 0) {
				t.Errorf("spilled: %v", spilled)
			}
		})
	}
}

func TestMissingOrRepeatedBoundsFailTheAttempt(t *testing.T) {
	r := newRouted(t, 0, sort.Ascending[int64]())
	if err := r.op.(task.InputEnder).OnInputEnd(0); err == nil {
		t.Error("the input of bounds ended without bounds")
	}
	r = newRouted(t, 0, sort.Ascending[int64]())
	r.bounds(Bounds[int64]{})
	r.bounds(Bounds[int64]{})
	if r.rt.Err() == nil {
		t.Error("bounds came twice")
	}
}

func TestUnwrapHandsRecordsOn(t *testing.T) {
	h := operatortest.New(t, Unwrap(sort.Sorted(sort.Spec[int64, rec]{Key: key, Order: sort.Ascending[int64]()})))
	h.Push(t, Ranged[rec]{Range: 1, Value: rec{Key: 4}}, 1)
	h.Push(t, Ranged[rec]{Range: 1, Value: rec{Key: 3}}, 2)
	h.End(t)
	if out := h.Out(); len(out) != 2 || out[0].Value.Key != 3 || out[0].At != 2 {
		t.Errorf("emitted %v", out)
	}
}
