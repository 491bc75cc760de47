package window_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/window"
	"pgregory.net/rapid"
)

// merge takes w into disjoint sessions, as an operator does.
func merge(sessions []window.Window, w window.Window) []window.Window {
	rest := sessions[:0:0]
	for _, s := range sessions {
		if s.Meets(w) {
			w = w.Cover(s)
		} else {
			rest = append(rest, s)
		}
	}
	return append(rest, w)
}

func TestSessionsAreChainsOfStepsOfAtMostTheGap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gap := rapid.Int64Range(1, 50).Draw(t, "gap_us")
		s, err := window.NewSession(time.Duration(gap) * time.Microsecond)
		if err != nil {
			t.Fatal(err)
		}
		times := rapid.SliceOfN(rapid.Int64Range(-200, 200), 1, 40).Draw(t, "times")
		var got []window.Window
		for _, at := range times {
			got = merge(got, s.Assign(element.Time(at)))
		}
		slices.SortFunc(got, func(a, b window.Window) int { return int(a.Start - b.Start) })
		slices.Sort(times)
		var want []window.Window
		for i, at := range times {
			if i == 0 || at-times[i-1] > gap {
				want = append(want, window.Window{Start: element.Time(at)})
			}
			want[len(want)-1].End = element.Time(at + gap)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("gap %d, times %v: %v, want %v", gap, times, got, want)
		}
	})
}

func TestASessionAtTheEndOfTimeIsCut(t *testing.T) {
	s, _ := window.NewSession(time.Hour)
	if w := s.Assign(element.MaxTime - 1); !w.Contains(element.MaxTime - 1) {
		t.Errorf("the session is %v", w)
	}
	if _, err := window.NewSession(0); err == nil {
		t.Error("a gap of 0 was taken")
	}
}
