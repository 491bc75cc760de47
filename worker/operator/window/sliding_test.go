package window_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/bench/ratio"
	"github.com/sluiceio/sluice/flow/element"
	win "github.com/sluiceio/sluice/flow/window"
	"github.com/sluiceio/sluice/internal/invariant"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/operator/window"
)

func drawSliding(t *rapid.T) win.Sliding {
	size := rapid.Int64Range(1, 30).Draw(t, "size_us")
	slide := rapid.Int64Range(1, 12).Draw(t, "slide_us")
	s, err := win.NewSliding(micros(size), micros(slide), micros(rapid.Int64Range(0, 12).Draw(t, "offset_us")))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mergingSums() window.Aggregation[int64, event, int64, result] {
	a := sums()
	a.Merge = func(a, b int64) int64 { return a + b }
	return a
}

// slidingModel keeps every window of every key.
func slidingModel(spec win.Sliding) func([]item, bool) []out {
	return func(items []item, end bool) []out {
		sum := map[result]int64{}
		wm := element.MinTime
		var fired []out
		fire := func(to element.Time) {
			fired = nil
			for k, n := range sum {
				if k.Win.Last() <= to {
					fired = append(fired, out{Value: result{k.Key, k.Win, n}, At: k.Win.Last()})
					delete(sum, k)
				}
			}
			wm = to
		}
		for _, it := range items {
			fired = nil
			if it.Watermark {
				fire(it.At)
				continue
			}
			w, ok := spec.First(it.At)
			for ; ok && w.Contains(it.At); w = spec.Next(w) {
				if w.Last() > wm {
					sum[result{Key: it.Value.Key, Win: w}] += it.Value.N
				}
			}
		}
		if end {
			fire(element.MaxTime)
		}
		return fired
	}
}

func TestSlidingSumsConform(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		spec := drawSliding(rt)
		operatortest.Conform(t, window.Sliding(spec, mergingSums()), drawItems(rt), slidingModel(spec), anyOrder)
	})
}

// TestAccumulatorsWithSlicesAreNotShared: what a merge keeps or changes must not show in another window.
func TestAccumulatorsWithSlicesAreNotShared(t *testing.T) {
	type list struct{ N []int64 }
	type lists struct {
		Key int64
		Win win.Window
		N   string
	}
	agg := window.Aggregation[int64, event, list, lists]{
		Key:   func(e event) int64 { return e.Key },
		Add:   func(acc *list, e event) { acc.N = append(acc.N, e.N) },
		Merge: func(a, b list) list { a.N = append(a.N, b.N...); clear(b.N); return a },
		Clone: func(l list) (list, error) { return list{slices.Clone(l.N)}, nil },
		Result: func(k int64, f window.Firing, acc *list) lists {
			return lists{k, f.Window, fmt.Sprint(slices.Sorted(slices.Values(acc.N)))}
		},
	}
	rapid.Check(t, func(rt *rapid.T) {
		spec := drawSliding(rt)
		h := operatortest.New(t, window.Sliding(spec, agg))
		want := map[lists][]int64{}
		wm := element.MinTime
		for _, it := range drawItems(rt) {
			if it.Watermark {
				h.Watermark(t, it.At)
				wm = it.At
				continue
			}
			h.Push(t, it.Value, it.At)
			w, ok := spec.First(it.At)
			for ; ok && w.Contains(it.At); w = spec.Next(w) {
				if k := (lists{Key: it.Value.Key, Win: w}); w.Last() > wm {
					want[k] = append(want[k], it.Value.N)
				}
			}
		}
		h.Watermark(t, element.MaxTime)
		got := h.Out()
		if len(got) != len(want) {
			rt.Fatalf("%d windows, want %d", len(got), len(want))
		}
		for _, o := range got {
			n := want[lists{Key: o.Value.Key, Win: o.Value.Win}]
			slices.Sort(n)
			if o.Value.N != fmt.Sprint(n) {
				rt.Fatalf("%v, want %v", o.Value, n)
			}
		}
	})
}

func TestSlidingStateIsGoneWhenEverythingHasFired(t *testing.T) {
	spec, err := win.NewSliding(micros(100), micros(10), 0)
	if err != nil {
		t.Fatal(err)
	}
	h := operatortest.New(t, window.Sliding(spec, mergingSums()))
	before := h.StateBytes()
	for i := range int64(10_000) {
		h.Push(t, event{i, 1}, element.Time(i%500))
	}
	full := h.StateBytes()
	h.Watermark(t, 10_000)
	if after := h.StateBytes(); full < 50*before || after > full/10 {
		t.Errorf("%d bytes before, %d full, %d after", before, full, after)
	}
}

func TestAKeyInOnePaneCostsOneAccumulator(t *testing.T) {
	spec, err := win.NewSliding(micros(1000), micros(1), 0)
	if err != nil {
		t.Fatal(err)
	}
	h := operatortest.New(t, window.Sliding(spec, mergingSums()))
	const keys = 20_000
	for i := range int64(keys) {
		h.Push(t, event{i, 1}, element.Time(i%1000))
	}
	h.Watermark(t, 500)
	if bytes := h.StateBytes(); bytes > keys*400 {
		t.Errorf("%d bytes for each of %d keys", bytes/keys, keys)
	}
}

// ring is a sliding window of so many slides that is full and goes on: ten records per key and slide, then it fires.
type ring struct {
	h  *operatortest.Harness[event, result]
	at element.Time
}

const (
	ringKeys   = 10_000
	ringPerKey = 10
	ringSlide  = 1_000_000
)

func newRing(tb testing.TB, slides int64) *ring {
	spec, err := win.NewSliding(micros(slides*ringSlide), micros(ringSlide), 0)
	if err != nil {
		tb.Fatal(err)
	}
	r := &ring{h: operatortest.New(tb, window.Sliding(spec, mergingSums()))}
	r.h.Discard()
	for range slides {
		r.turn(tb)
	}
	return r
}

func (r *ring) turn(tb testing.TB) {
	for i := range ringKeys * ringPerKey {
		r.h.Push(tb, event{int64(i % ringKeys), 1}, r.at+element.Time(i))
	}
	r.at += ringSlide
	r.h.Watermark(tb, r.at-1)
}

func (r *ring) work(tb testing.TB) ratio.Work {
	return func(n int) {
		for range n {
			r.turn(tb)
		}
	}
}

func TestSpeedSlidingWindowsCostTheSameAtAnySize(t *testing.T) {
	long := int64(600)
	if invariant.Enabled {
		long = 6 // times mean nothing then
	}
	rings := map[int64]*ring{}
	for _, slides := range []int64{2, 60, long} {
		rings[slides] = newRing(t, slides)
	}
	for _, pair := range [][2]int64{{2, 60}, {2, long}, {60, long}, {60, 2}, {long, 2}, {long, 60}} {
		t.Run(fmt.Sprintf("%d slides against %d", pair[1], pair[0]), func(t *testing.T) {
			ratio.AtMost(t, 1.5, ratio.CPU, rings[pair[0]].work(t), rings[pair[1]].work(t))
		})
	}
}

func BenchmarkSlidingSlide(b *testing.B) {
	for _, slides := range []int64{2, 60, 600} {
		b.Run(fmt.Sprintf("%d slides", slides), func(b *testing.B) {
			r := newRing(b, slides)
			b.ReportAllocs()
			b.ResetTimer()
			r.work(b)(b.N)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(ringKeys*ringPerKey), "ns/record")
		})
	}
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
