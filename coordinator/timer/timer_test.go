package timer

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTimersAreDueInOrderOfTheirTimesThenOfTheirSetting(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var q Queue[int]
		zero := time.UnixMicro(0)
		var want []Timer[int]
		for i := range rapid.IntRange(0, 20).Draw(r, "timers") {
			at := zero.Add(time.Duration(rapid.IntRange(0, 5).Draw(r, "at")))
			q.Set(at, i, "")
			want = append(want, Timer[int]{At: at, Kind: i})
		}
		slices.SortStableFunc(want, func(a, b Timer[int]) int { return a.At.Compare(b.At) })
		now := zero.Add(3)
		for _, w := range want {
			if next, ok := q.Next(); !ok || !next.Equal(w.At) {
				r.Fatalf("the next is at %v, want %v", next, w.At)
			}
			got, due := q.Due(now)
			if due != !w.At.After(now) {
				r.Fatalf("the timer at %v is due at %v: %t", w.At, now, due)
			}
			if !due {
				return
			}
			if !got.At.Equal(w.At) || got.Kind != w.Kind {
				r.Fatalf("timer %d, want %d", got.Kind, w.Kind)
			}
		}
		if _, ok := q.Next(); ok {
			r.Fatal("a timer is left")
		}
	})
}

func TestPausesDoubleUpToTheLongest(t *testing.T) {
	var p Pace
	now := time.UnixMicro(0)
	for i, want := range []time.Duration{1, 2, 4, 5, 5} {
		if !p.Due(now, 1, 5) {
			t.Fatalf("repetition %d is not due", i)
		}
		if p.Due(now, 1, 5) {
			t.Fatalf("repetition %d is due twice", i)
		}
		if got := p.Next().Sub(now); got != want {
			t.Errorf("pause %d is %v, want %v", i, got, want)
		}
		now = p.Next()
	}
}
