package window_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	win "github.com/sluiceio/sluice/flow/window"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/operator/window"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/task"
)

// looksPerRecord is how many sessions and nodes are looked at per record, when a key has n open sessions, each of two records, which
// come in no order, and all end at once; and after that, when they end one by one.
func looksPerRecord(t *testing.T, n int) (atOnce, oneByOne float64) {
	const gap = element.Time(1000)
	for _, step := range []int{n, 1} {
		h := operatortest.New(t, sessions(win.Session{Gap: gap}, lateSums(0)))
		rng := rand.New(rand.NewPCG(1, 2))
		for _, i := range rng.Perm(2 * n) {
			h.Push(t, event{1, 1}, element.Time(i/2)*10*gap+element.Time(i%2)*gap/2)
		}
		for i := step; i <= n; i += step {
			h.Watermark(t, element.Time(i)*10*gap)
		}
		if got := len(h.Out()); got != n {
			t.Fatalf("%d sessions, want %d", got, n)
		}
		per := float64(window.Looks(h.Operator)) / float64(2*n)
		if atOnce == 0 {
			atOnce = per
		} else {
			oneByOne = per
		}
	}
	return atOnce, oneByOne
}

// TestACrowdOfSessionsCostsAboutTheSamePerRecord: a bounded input ends all of its sessions at once, and there may be as many of them
// as there are records. Counted is what is looked at, not time; a look at all sessions for each record would be thousands.
func TestACrowdOfSessionsCostsAboutTheSamePerRecord(t *testing.T) {
	const most = 60
	for _, n := range []int{100, 1000, 10_000} {
		a, b := looksPerRecord(t, n)
		t.Logf("%d sessions: %.1f looks per record when they end at once, %.1f one by one", n, a, b)
		if max(a, b) > most {
			t.Errorf("%d sessions: %.1f and %.1f looks per record, want at most %d", n, a, b, most)
		}
	}
}

// crowdItems is a stream of few keys with hundreds of sessions in no order, late records, and few watermarks.
func crowdItems(seed uint64, records int) (items []item) {
	rng := rand.New(rand.NewPCG(seed, 0))
	wm, span := int64(0), int64(records)*15
	for i := range records {
		if i > records/3 && rng.IntN(records/6) == 0 {
			wm += rng.Int64N(span / 3)
			items = append(items, item{At: element.Time(wm), Watermark: true})
			continue
		}
		items = append(items, item{Value: event{rng.Int64N(2), 2 + rng.Int64N(7)}, At: element.Time(rng.Int64N(span))})
	}
	return items
}

// renewing fires when 7 µs of event time have passed since it was called, again and again until the window ends.
func renewing() window.Trigger[int64, event] {
	return window.Trigger[int64, event]{
		OnElement: func(c *window.TriggerCtx, w window.Win[int64], _ event) window.Fire {
			c.SetEventTimer(max(c.Watermark(), w.Start) + 7)
			return window.Continue
		},
		OnEvent: func(c *window.TriggerCtx, _ window.Win[int64], at element.Time) window.Fire {
			if c.Watermark() != at {
				panic("the watermark is not that of the deadline")
			}
			c.SetEventTimer(at + 7)
			return window.FireNow
		},
		OnClock: func(*window.TriggerCtx, window.Win[int64], element.Time) window.Fire { return window.Continue },
		OnMerge: func(*window.TriggerCtx, window.Win[int64], []int64) {},
	}
}

// TestTriggersFireInACrowdAsTheyDoAlone: what is emitted does not depend on whether sessions have a key in common.
func TestTriggersFireInACrowdAsTheyDoAlone(t *testing.T) {
	const gap, apart = 20, 100
	for name, trigger := range map[string]window.Trigger[int64, event]{
		"at the end": window.AtEnd[int64, event](window.ByEvent),
		"purging":    window.Purging(window.AtEnd[int64, event](window.ByEvent)),
		"early":      window.Early[int64, event](window.ByEvent, 7*time.Microsecond),
		"renewing":   renewing(),
	} {
		t.Run(name, func(t *testing.T) {
			for _, lateness := range []int64{0, 450} {
				rng := rand.New(rand.NewPCG(3, uint64(lateness)))
				windows := window.Windows{Session: &win.Session{Gap: gap}}
				one := operatortest.New(t, window.Aggregated(windows, trigger, lateSums(lateness)))
				each := operatortest.New(t, window.Aggregated(windows, trigger, lateSums(lateness)))
				same := func(when string) {
					t.Helper()
					var got, want []refired
					for _, o := range one.Out() {
						got = append(got, o.Value)
					}
					for _, o := range each.Out() {
						o.Value.Key = 0
						want = append(want, o.Value)
					}
					sort(got)
					sort(want)
					if !slices.Equal(got, want) {
						t.Fatalf("%s, lateness %d: a crowd emits\n%v\nand alone they emit\n%v", when, lateness, got, want)
					}
				}
				at := element.Time(0)
				for i := range 2000 {
					if i > 400 && i%100 == 0 {
						at += element.Time(rng.Int64N(1500))
						one.Watermark(t, at)
						each.Watermark(t, at)
						same("watermark")
					}
					session := rng.Int64N(200)
					when := element.Time(session*apart + rng.Int64N(apart-gap-1))
					one.Push(t, event{0, 1}, when)
					each.Push(t, event{session, 1}, when)
					same("record")
				}
				one.End(t)
				each.End(t)
				same("end")
			}
		})
	}
}

// TestCrowdsSurviveRestoresRewindsAndLackOfMemory plays streams that make a crowd of a key and end it again.
func TestCrowdsSurviveRestoresRewindsAndLackOfMemory(t *testing.T) {
	session := win.Session{Gap: 8}
	windows := window.Windows{Session: &session}
	for name, stage := range map[string]func() task.StageOf[event, string]{
		"aggregated": func() task.StageOf[event, string] {
			return window.Aggregated(windows, window.AtEnd[int64, event](window.ByEvent), asText(15, window.ByEvent))
		},
		"listed": func() task.StageOf[event, string] {
			return window.Gathered(windows, window.Early[int64, event](window.ByEvent, 7*time.Microsecond), listed(0, window.ByEvent))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var script []operatortest.Event[event]
			for _, it := range crowdItems(5, 150) {
				e := operatortest.Event[event]{Value: event{it.Value.Key, it.Value.N}, At: it.At}
				if it.Watermark {
					e = operatortest.Event[event]{Kind: operatortest.Mark, At: it.At}
				}
				script = append(script, e)
			}
			operatortest.Survives(t, stage, byKey, script)
		})
	}
}

func TestAnOrderFindsNeighboursAsASortedListDoes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := task.NewRuntime(t.Context(), operatortest.Name)
		d, err := state.NewDirectory[int64](h.Options("windows", nil))
		if err != nil {
			t.Fatal(err)
		}
		x, err := window.NewOrder(d)
		if err != nil {
			t.Fatal(err)
		}
		d.Seek(7, 7)
		gap := element.Time(rapid.SampledFrom([]int64{1, 2, 3, 1000, 1 << 20, 1<<62 + 5}).Draw(rt, "gap"))
		x.Begin(gap)
		times := rapid.OneOf(rapid.Int64Range(-300, 300), rapid.Int64Range(-1e7, 1e7), rapid.Int64(), rapid.SampledFrom([]int64{math.MinInt64 + 1, math.MaxInt64 - 1}))
		var ids []element.Time // sorted
		for range rapid.IntRange(0, 80).Draw(rt, "steps") {
			at := element.Time(times.Draw(rt, "at"))
			i, _ := slices.BinarySearch(ids, at)
			switch {
			case rapid.IntRange(0, 3).Draw(rt, "remove") == 0 && i < len(ids):
				x.Remove(ids[i])
				ids = slices.Delete(ids, i, i+1)
			case (i == 0 || uint64(at-ids[i-1]) > uint64(gap)) && (i == len(ids) || uint64(ids[i]-at) > uint64(gap)):
				x.Insert(at)
				ids = slices.Insert(ids, i, at)
			}
			at = element.Time(times.Draw(rt, "look"))
			i, found := slices.BinarySearch(ids, at)
			after := i
			if found {
				after++
			}
			if id, ok := x.After(at); ok != (after < len(ids)) || ok && id != ids[after] {
				rt.Fatalf("after %d: %d, %v; there are %d", at, id, ok, ids)
			}
			if id, ok := x.UpTo(at); ok != (after > 0) || ok && id != ids[after-1] {
				rt.Fatalf("up to %d: %d, %v; there are %d", at, id, ok, ids)
			}
		}
		for _, id := range ids {
			x.Remove(id)
		}
		if n := x.Nodes(); n != 1 {
			rt.Fatalf("%d nodes are left of an order without sessions, want one, that of the unit", n)
		}
	})
}
