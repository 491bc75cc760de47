package window_test

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	win "github.com/sluiceio/sluice/flow/window"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/operator/window"
	"github.com/sluiceio/sluice/worker/task"
)

// refired is a result with the number of its firing.
type refired struct {
	Key  int64
	Win  win.Window
	Pane int
	Sum  int64
}

func lateSums(lateness int64) window.Aggregation[int64, event, int64, refired] {
	return window.Aggregation[int64, event, int64, refired]{
		Key:      func(e event) int64 { return e.Key },
		Add:      func(acc *int64, e event) { *acc += e.N },
		Merge:    func(a, b int64) int64 { return a + b },
		Result:   func(k int64, f window.Firing, acc *int64) refired { return refired{k, f.Window, f.Pane, *acc} },
		Lateness: element.Time(lateness),
	}
}

// lateModel says what a stream with allowed lateness emits, and how many records are late.
func lateModel(windows func(element.Time) []win.Window, lateness element.Time, items []item) (all []refired, late int64) {
	type cell struct {
		Key int64
		Win win.Window
	}
	sum, fired := map[cell]int64{}, map[cell]int{}
	wm := element.MinTime
	fire := func(to element.Time) {
		var now []refired
		for c, n := range sum {
			if last := c.Win.Last(); last > wm && last <= to {
				now = append(now, refired{c.Key, c.Win, 0, n})
				fired[c] = 1
			}
		}
		sort(now)
		all, wm = append(all, now...), to
	}
	for _, it := range items {
		if it.Watermark {
			fire(it.At)
			continue
		}
		ws := windows(it.At)
		open := slices.DeleteFunc(slices.Clone(ws), func(w win.Window) bool { return w.Last()+lateness <= wm })
		if len(ws) > 0 && len(open) == 0 {
			late++
		}
		var now []refired
		for _, w := range open {
			c := cell{it.Value.Key, w}
			sum[c] += it.Value.N
			if w.Last() <= wm {
				now = append(now, refired{c.Key, w, fired[c], sum[c]})
				fired[c]++
			}
		}
		sort(now)
		all = append(all, now...)
	}
	fire(element.MaxTime)
	return all, late
}

func sort(rs []refired) {
	slices.SortFunc(rs, func(a, b refired) int {
		return cmp.Or(cmp.Compare(a.Win.Start, b.Win.Start), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Pane, b.Pane))
	})
}

func checkLateness(t *testing.T, rt *rapid.T, stage task.StageOf[event, refired], windows func(element.Time) []win.Window, lateness int64) {
	items := drawItems(rt)
	want, late := lateModel(windows, element.Time(lateness), items)
	h := operatortest.New(t, stage)
	var got []refired
	take := func() {
		var now []refired
		for _, o := range h.Out() {
			if o.At != o.Value.Win.Last() {
				rt.Fatalf("%v at %v", o.Value, o.At)
			}
			now = append(now, o.Value)
		}
		sort(now)
		got = append(got, now...)
	}
	for _, it := range items {
		if it.Watermark {
			h.Watermark(t, it.At)
		} else {
			h.Push(t, it.Value, it.At)
		}
		take()
	}
	h.Watermark(t, element.MaxTime)
	take()
	if !slices.Equal(got, want) {
		rt.Fatalf("got  %v\nwant %v", got, want)
	}
	if h.Runtime.Counters.Late != late {
		rt.Fatalf("%d late records, want %d", h.Runtime.Counters.Late, late)
	}
}

func TestLateRecordsMakeTumblingWindowsFireAgain(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		spec := win.Tumbling{Size: element.Time(rapid.Int64Range(1, 20).Draw(rt, "size_us"))}
		lateness := rapid.Int64Range(0, 30).Draw(rt, "lateness_us")
		checkLateness(t, rt, window.Tumbling(spec, lateSums(lateness)),
			func(at element.Time) []win.Window { return []win.Window{spec.Assign(at)} }, lateness)
	})
}

func TestLateRecordsMakeSlidingWindowsFireAgain(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		spec := drawSliding(rt)
		lateness := rapid.Int64Range(0, 30).Draw(rt, "lateness_us")
		checkLateness(t, rt, window.Sliding(spec, lateSums(lateness)), func(at element.Time) (ws []win.Window) {
			w, ok := spec.First(at)
			for ; ok && w.Contains(at); w = spec.Next(w) {
				ws = append(ws, w)
			}
			return ws
		}, lateness)
	})
}

func TestAWindowIsForgottenWhenItsLatenessIsOver(t *testing.T) {
	sliding, err := win.NewSliding(micros(10), micros(5), 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, stage := range map[string]task.StageOf[event, refired]{
		"tumbling": window.Tumbling(win.Tumbling{Size: 10}, lateSums(20)),
		"sliding":  window.Sliding(sliding, lateSums(20)),
	} {
		t.Run(name, func(t *testing.T) {
			h := operatortest.New(t, stage)
			for k := range int64(50_000) {
				h.Push(t, event{k / 5, 1}, element.Time(k%5*10+1))
			}
			h.Watermark(t, 28) // the oldest window ends at 10, and takes records until 29
			full := h.StateBytes()
			h.Watermark(t, 80)
			if got := h.StateBytes(); got > full/2 {
				t.Errorf("%d bytes of %d are left", got, full)
			}
			h.Push(t, event{1, 1}, 5)
			if h.Runtime.Counters.Late != 1 {
				t.Errorf("%d late records", h.Runtime.Counters.Late)
			}
		})
	}
}
