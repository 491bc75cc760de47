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
// as there are records.
func TestACrowdOfSessionsCostsAboutTheSamePerRecord(t *testing.T) {
	for _, n := range []int{100, 1000, 10_000, 50_000} {
		start := time.Now()
		a, b := looksPerRecord(t, n)
		t.Logf("%d sessions: %.1f, %.1f %v", n, a, b, time.Since(start)/time.Duration(n))
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
