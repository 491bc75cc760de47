package window_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	win "github.com/sluiceio/sluice/flow/window"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/operator/window"
)

type event struct {
	Key int64
	N   int64
}

// result is what the aggregation emits: the sum of N per key and window.
type result struct {
	Key int64
	Win win.Window
	Sum int64
}

func sums() window.Aggregation[int64, event, int64, result] {
	return window.Aggregation[int64, event, int64, result]{
		Key: func(e event) int64 { return e.Key },
		Add: func(acc *int64, e event) { *acc += e.N },
		Result: func(k int64, f window.Firing, acc *int64) result {
			return result{k, f.Window, *acc}
		},
	}
}

type (
	item = operatortest.Item[event]
	out  = operatortest.Stamped[result]
)

// drawItems is a stream with disorder, late records and growing watermarks.
func drawItems(t *rapid.T) []item {
	var items []item
	wm := int64(-40)
	for range rapid.IntRange(0, 60).Draw(t, "items") {
		if rapid.IntRange(0, 5).Draw(t, "watermark") == 0 {
			wm += rapid.Int64Range(1, 30).Draw(t, "step")
			items = append(items, item{At: element.Time(wm), Watermark: true})
			continue
		}
		items = append(items, item{
			Value: event{rapid.Int64Range(0, 5).Draw(t, "key"), rapid.Int64Range(1, 9).Draw(t, "n")},
			At:    element.Time(wm + rapid.Int64Range(-30, 60).Draw(t, "lead")),
		})
	}
	return items
}

// model computes from all items so far what the last one makes fire.
func model(spec win.Tumbling) func([]item, bool) []out {
	return func(items []item, end bool) []out {
		sum := map[result]int64{} // by key and window, Sum 0
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
			if w := spec.Assign(it.At); w.Last() > wm {
				sum[result{Key: it.Value.Key, Win: w}] += it.Value.N
			}
		}
		if end {
			fire(element.MaxTime)
		}
		return fired
	}
}

var anyOrder = cmpopts.SortSlices(func(a, b out) bool {
	return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Value.Key, b.Value.Key)) < 0
})

func TestTumblingSumsConform(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		spec := win.Tumbling{
			Size:   element.Time(rapid.Int64Range(1, 20).Draw(rt, "size_us")),
			Offset: 0,
		}
		spec.Offset = element.Time(rapid.Int64Range(0, int64(spec.Size)-1).Draw(rt, "offset_us"))
		operatortest.Conform(t, window.Tumbling(spec, sums()), drawItems(rt), model(spec), anyOrder)
	})
}

func TestWindowsFireInOrderOfTimeAtTheirLastInstant(t *testing.T) {
	h := operatortest.New(t, window.Tumbling(win.Tumbling{Size: 10}, sums()))
	for _, at := range []element.Time{25, 5, -3, 15} {
		h.Push(t, event{1, int64(at)}, at)
	}
	h.Watermark(t, 8)
	if got := h.Out(); len(got) != 1 || got[0].At != -1 {
		t.Fatalf("at 8 fired %v, want the window that ends at 0", got)
	}
	h.Watermark(t, 9) // the last instant of [0, 10)
	h.Watermark(t, 29)
	var at []element.Time
	for _, o := range h.Out() {
		at = append(at, o.At)
	}
	if !slices.Equal(at, []element.Time{9, 19, 29}) {
		t.Errorf("results have times %v, want 9, 19, 29", at)
	}
}

func TestLateRecordsAreCountedAndDropped(t *testing.T) {
	h := operatortest.New(t, window.Tumbling(win.Tumbling{Size: 10}, sums()))
	h.Push(t, event{1, 1}, 3)
	h.Watermark(t, 12)
	h.Out()
	h.Push(t, event{1, 1}, 9)  // its window has fired
	h.Push(t, event{1, 1}, 11) // behind the watermark, and its window is open
	h.End(t)
	want := []out{{Value: result{1, win.Window{Start: 10, End: 20}, 1}, At: 19}}
	if d := gocmp.Diff(want, h.Out()); d != "" {
		t.Error(d)
	}
	if h.Runtime.Counters.Late != 1 {
		t.Errorf("%d late records, want 1", h.Runtime.Counters.Late)
	}
}

func TestAWindowOfManyKeysStopsWhenTheAttemptDoes(t *testing.T) {
	operatortest.StopsEmitting(t, window.Tumbling(win.Tumbling{Size: 10}, sums()), func(push func(event, element.Time)) {
		for k := range int64(100) {
			push(event{k, 1}, element.Time(k%20))
		}
	})
}

func TestAccumulatorsBeginWithNew(t *testing.T) {
	agg := sums()
	agg.New = func() int64 { return 100 }
	h := operatortest.New(t, window.Tumbling(win.Tumbling{Size: 10}, agg))
	h.Push(t, event{1, 1}, 1)
	h.Push(t, event{1, 2}, 2)
	h.End(t)
	if got := h.Out(); len(got) != 1 || got[0].Value.Sum != 103 {
		t.Errorf("got %v", got)
	}
}

func TestStateIsMeasuredAndGivenBack(t *testing.T) {
	h := operatortest.New(t, window.Tumbling(win.Tumbling{Size: 10}, sums()))
	for k := range int64(10_000) {
		h.Push(t, event{k, 1}, element.Time(k%100))
	}
	if got := h.StateBytes(); got < 10_000*24 {
		t.Errorf("%d bytes for 10,000 keys", got)
	}
	h.End(t)
	h.Close(t)
	if got := h.StateBytes(); got != 0 {
		t.Errorf("%d bytes are left", got)
	}
}

func TestTumblingAllocatesNothingPerRecord(t *testing.T) {
	h := operatortest.New(t, window.Tumbling(win.Tumbling{Size: element.Time(time.Hour.Microseconds())}, sums()))
	operatortest.NoAllocation(t, h, 5000, func(i int) (event, element.Time) {
		return event{int64(i % 1000), 1}, element.Time(i)
	})
}
