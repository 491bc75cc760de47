package window_test

import (
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/window"
	"pgregory.net/rapid"
)

func drawSliding(t *rapid.T) window.Sliding {
	s, err := window.NewSliding(
		time.Duration(rapid.Int64Range(1, 1<<20).Draw(t, "size_us"))*time.Microsecond,
		time.Duration(rapid.Int64Range(1, 1<<20).Draw(t, "slide_us"))*time.Microsecond,
		time.Duration(rapid.Int64Range(-1<<22, 1<<22).Draw(t, "offset_us"))*time.Microsecond)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSlidingWindowsOfATimeAreThoseThatContainIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSliding(t)
		at := element.Time(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "at"))
		first, ok := s.First(at)
		last, some := s.Last(at)
		if ok != some {
			t.Fatalf("first %v %t, last %v %t", first, ok, last, some)
		}
		if (last.Start-s.Offset)%s.Slide != 0 || last.End-last.Start != s.Size {
			t.Fatalf("%v is no window of %+v", last, s)
		}
		if !ok {
			if next := s.Next(last); last.Contains(at) || next.Contains(at) || next.Start <= at {
				t.Fatalf("%d lies between %v and %v", at, last, next)
			}
			return
		}
		if !first.Contains(at) || !last.Contains(at) {
			t.Fatalf("%d is not in %v and %v", at, first, last)
		}
		if older := (window.Window{Start: first.Start - s.Slide, End: first.End - s.Slide}); older.Contains(at) {
			t.Fatalf("%d is in %v before the first, %v", at, older, first)
		}
		if newer := s.Next(last); newer.Contains(at) {
			t.Fatalf("%d is in %v after the last, %v", at, newer, last)
		}
	})
}

func TestNoSlidingWindowCutsAPane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSliding(t)
		at := element.Time(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "at"))
		pane := s.Pane(at)
		if !pane.Contains(at) || pane.End-pane.Start != s.PaneSize() || s.Size%s.PaneSize() != 0 {
			t.Fatalf("pane %v of %d, panes of %d", pane, at, s.PaneSize())
		}
		for _, same := range []element.Time{pane.Start, pane.Last()} {
			a, in := s.First(at)
			b, too := s.First(same)
			c, _ := s.Last(at)
			d, _ := s.Last(same)
			if in != too || in && (a != b || c != d) {
				t.Fatalf("%d and %d share the pane %v, and are in [%v %v] and [%v %v]", at, same, pane, a, c, b, d)
			}
		}
	})
}

func TestSlidingWindowsAtTheLimitsOfTimeContainIt(t *testing.T) {
	s, err := window.NewSliding(time.Hour, time.Minute, 7*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []element.Time{element.MinTime, element.MinTime + 1, element.MaxTime - 1} {
		first, ok := s.First(at)
		last, _ := s.Last(at)
		if !ok || !first.Contains(at) || !last.Contains(at) || !s.Pane(at).Contains(at) {
			t.Errorf("%d is in %v to %v, %t", at, first, last, ok)
		}
	}
}

func TestSlidingDurationsMustBePositive(t *testing.T) {
	for _, d := range [][2]time.Duration{{0, time.Second}, {time.Second, 0}, {-time.Second, time.Second}, {time.Second, -1}} {
		if _, err := window.NewSliding(d[0], d[1], 0); err == nil {
			t.Errorf("size %v, slide %v were taken", d[0], d[1])
		}
	}
}

// Whoever walks through the windows of a time meets each once, and comes to an end, also at the limits of time.
func TestTheWindowsOfATimeAreWalkedThroughAtTheLimitsToo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSliding(t)
		at := element.MinTime + 1 + element.Time(rapid.Int64Range(0, 1<<22).Draw(t, "low"))
		if rapid.Bool().Draw(t, "end") {
			at = element.MaxTime - 1 - element.Time(rapid.Int64Range(0, 1<<22).Draw(t, "high"))
		}
		w, ok := s.First(at)
		last, _ := s.Last(at)
		for n := 0; ok && w.Contains(at); n++ {
			next := s.Next(w)
			if w != last && (next.Start <= w.Start || next.End <= w.End) || w == last && next.Contains(at) {
				t.Fatalf("%d: after %v comes %v, the last is %v", at, w, next, last)
			}
			if w.Start != element.MinTime && w.End != element.MaxTime && (w.End-w.Start != s.Size || (w.Start%s.Slide-s.Offset)%s.Slide != 0) {
				t.Fatalf("%d: %v is no window of %+v", at, w, s)
			}
			if pane := s.Pane(at); pane.Start < w.Start || pane.End > w.End {
				t.Fatalf("%v cuts the pane %v", w, pane)
			}
			w = next
		}
	})
}
