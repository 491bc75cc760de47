package keyed_test

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/keyed"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
)

type event struct{ Key, N int64 }

type result struct{ Key, Max, Count int64 }

type acc struct{ Max, Count int64 }

func maxima() keyed.Aggregation[int64, event, acc, result] {
	return keyed.Aggregation[int64, event, acc, result]{
		Key:    func(e event) int64 { return e.Key },
		State:  "acc",
		First:  func(e event) acc { return acc{e.N, 1} },
		Add:    func(a acc, e event) acc { return acc{max(a.Max, e.N), a.Count + 1} },
		Result: func(k int64, a acc) result { return result{k, a.Max, a.Count} },
	}
}

type (
	item = operatortest.Item[event]
	out  = operatortest.Stamped[result]
)

func drawItems(t *rapid.T) []item {
	var items []item
	wm := int64(0)
	for range rapid.IntRange(0, 60).Draw(t, "items") {
		if rapid.IntRange(0, 9).Draw(t, "watermark") == 0 {
			wm++
			items = append(items, item{At: element.Time(wm), Watermark: true})
			continue
		}
		items = append(items, item{
			Value: event{rapid.Int64Range(-3, 3).Draw(t, "key"), rapid.Int64Range(-9, 9).Draw(t, "n")},
			At:    element.Time(rapid.Int64().Draw(t, "at")),
		})
	}
	return items
}

// totals is the state of every key after the items.
func totals(items []item) map[int64]result {
	m := map[int64]result{}
	for _, it := range items {
		if it.Watermark {
			continue
		}
		r, known := m[it.Value.Key]
		if !known {
			r = result{it.Value.Key, it.Value.N, 0}
		}
		m[it.Value.Key] = result{r.Key, max(r.Max, it.Value.N), r.Count + 1}
	}
	return m
}

func TestUpdatesFollowEachRecord(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		operatortest.Conform(t, keyed.Updates(maxima()), drawItems(rt), func(items []item, end bool) []out {
			if end || items[len(items)-1].Watermark {
				return nil
			}
			last := items[len(items)-1]
			return []out{{Value: totals(items)[last.Value.Key], At: last.At}}
		})
	})
}

func lists(clone func([]int64) ([]int64, error)) keyed.Aggregation[int64, event, []int64, []int64] {
	return keyed.Aggregation[int64, event, []int64, []int64]{
		Key:   func(e event) int64 { return e.Key },
		State: "acc",
		First: func(e event) []int64 { return []int64{e.N} },
		Add: func(a []int64, e event) []int64 {
			a[0] += e.N // in place
			return a
		},
		Result: func(_ int64, a []int64) []int64 { return a },
		Clone:  clone,
	}
}

func TestUpdatesDoNotChangeAfterTheyWereEmitted(t *testing.T) {
	h := operatortest.New(t, keyed.Updates(lists(func(a []int64) ([]int64, error) { return append([]int64(nil), a...), nil })))
	h.Push(t, event{1, 5}, 0)
	h.Push(t, event{1, 2}, 0)
	if got := h.Out(); got[0].Value[0] != 5 || got[1].Value[0] != 7 {
		t.Errorf("emitted %v, want 5 and 7", got)
	}
}

func TestAnAccumulatorThatCannotBeCopiedFailsTheAttempt(t *testing.T) {
	broken := errors.New("broken")
	h := operatortest.New(t, keyed.Updates(lists(func([]int64) ([]int64, error) { return nil, broken })))
	h.Push(t, event{1, 5}, 0)
	if err := h.Runtime.Err(); !errors.Is(err, broken) || len(h.Out()) != 0 {
		t.Errorf("error is %v", err)
	}
}

func TestRollingAllocatesNothingPerRecord(t *testing.T) {
	operatortest.NoAllocation(t, operatortest.New(t, keyed.Updates(maxima())), 5000, func(i int) (event, element.Time) {
		return event{int64(i % 1000), int64(i)}, element.Time(i)
	})
}

func TestStateIsMeasured(t *testing.T) {
	h := operatortest.New(t, keyed.Updates(maxima()))
	for k := range int64(1000) {
		h.Push(t, event{k, 1}, 0)
	}
	h.Watermark(t, 1)
	if h.StateBytes() < 1000*24 {
		t.Errorf("%d bytes for 1000 keys", h.StateBytes())
	}
}

func TestAKeyThatCannotBeHashedIsNotBuilt(t *testing.T) {
	_, err := operatortest.Build(t, keyed.Updates(keyed.Aggregation[float64, float64, float64, float64]{
		Key: func(v float64) float64 { return v }, State: "acc",
	}))
	if err == nil {
		t.Error("a float became a key")
	}
}

func TestArithmeticIsThatOfTheLanguage(t *testing.T) {
	key, n := func(e event) int64 { return e.Key }, func(e event) int64 { return e.N }
	for name, c := range map[string]struct {
		a    keyed.Aggregation[int64, event, int64, result]
		fold func(acc, n int64) int64
	}{
		"sum": {keyed.Sum(key, n, plain), func(acc, n int64) int64 { return acc + n }},
		"min": {keyed.Min(key, n, plain), func(acc, n int64) int64 { return min(acc, n) }},
		"max": {keyed.Max(key, n, plain), func(acc, n int64) int64 { return max(acc, n) }},
	} {
		c.a.State = "acc"
		rapid.Check(t, func(rt *rapid.T) {
			operatortest.Conform(t, keyed.Updates(c.a), drawItems(rt), func(items []item, end bool) []out {
				if end || items[len(items)-1].Watermark {
					return nil
				}
				last, known, acc := items[len(items)-1], false, int64(0)
				for _, it := range items {
					switch {
					case it.Watermark || it.Value.Key != last.Value.Key:
					case !known:
						known, acc = true, it.Value.N
					default:
						acc = c.fold(acc, it.Value.N)
					}
				}
				return []out{{Value: plain(last.Value.Key, acc), At: last.At}}
			})
		})
		if t.Failed() {
			t.Log(name)
		}
	}
	nan := keyed.Min(key, func(event) float64 { return math.NaN() }, func(int64, float64) int { return 0 })
	if got := nan.Add(1, event{}); got == got {
		t.Errorf("the least of 1 and NaN is %v", got)
	}
}

func plain(k, n int64) result { return result{Key: k, Max: n} }
