package window

import (
	"fmt"
	"time"

	"github.com/sluiceio/sluice/flow/element"
)

// Sliding windows are Size long, and one begins every Slide; one of them at Offset. All are in microseconds.
//
// Time is cut into panes, the longest spans that no window cuts: a record belongs to one pane, a window is a run of panes,
// so what a record costs does not depend on how many windows it is in.
type Sliding struct {
	Size, Slide, Offset element.Time
	pane                Tumbling
}

// NewSliding checks the durations, which are cut to microseconds. A slide longer than the size leaves gaps: records that
// fall into one belong to no window.
func NewSliding(size, slide, offset time.Duration) (Sliding, error) {
	if size < time.Microsecond || slide < time.Microsecond {
		return Sliding{}, fmt.Errorf("window size is %v and slide %v, both must be at least 1µs", size, slide)
	}
	s := Sliding{Size: element.Time(size.Microseconds()), Slide: element.Time(slide.Microseconds())}
	s.Offset = floorMod(element.Time(offset.Microseconds()), s.Slide)
	s.pane = Tumbling{Size: gcd(s.Size, s.Slide)}
	s.pane.Offset = floorMod(s.Offset, s.pane.Size)
	return s, nil
}

func gcd(a, b element.Time) element.Time {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Pane is the pane of t.
func (s Sliding) Pane(t element.Time) Window { return s.pane.Assign(t) }

// PaneSize is the length of a pane in microseconds.
func (s Sliding) PaneSize() element.Time { return s.pane.Size }

// Last is the newest window that holds t, and whether there is one.
func (s Sliding) Last(t element.Time) (Window, bool) {
	start := t - s.into(t)
	if start > t { // beyond the first instant
		start = element.MinTime
	}
	if beyond := start - (element.MaxTime - s.Size); start > 0 && beyond > 0 { // an older one reaches the last instant, too
		start -= beyond / s.Slide * s.Slide
	}
	w := s.at(start)
	return w, w.Contains(t)
}

// into is by how much the last window that begins at or before t has begun before it.
func (s Sliding) into(t element.Time) element.Time {
	return floorMod(floorMod(t, s.Slide)-s.Offset, s.Slide)
}

// First is the oldest window that holds t, and whether there is one.
func (s Sliding) First(t element.Time) (Window, bool) {
	last, ok := s.Last(t)
	if !ok || last.Start == element.MinTime {
		return last, ok
	}
	n := (s.Size - 1 - (t - last.Start)) / s.Slide // so many older windows reach beyond t
	start := last.Start - n*s.Slide
	if start > last.Start { // beyond the first instant
		start = element.MinTime
	}
	return s.at(start), true
}

// Next is the window after w. After the last one there is an empty one at the end of time.
func (s Sliding) Next(w Window) Window {
	switch w.Start {
	case element.MaxTime:
		return w
	case element.MinTime:
		return s.at(w.Start + (s.Slide - s.into(w.Start)))
	}
	if w.End == element.MaxTime || w.Start > element.MaxTime-s.Slide {
		return Window{element.MaxTime, element.MaxTime}
	}
	return s.at(w.Start + s.Slide)
}

// From is the window that begins at start.
func (s Sliding) From(start element.Time) Window { return s.at(start) }

// at is the window that begins at start. One that reaches beyond a limit of time is cut there: a time that has no number cannot
// be waited for. Of those that begin before the first instant there is the last one, of those that end behind the last instant
// the first one, so that no two begin or end together.
func (s Sliding) at(start element.Time) Window {
	if start == element.MinTime {
		return Window{start, start + max(0, s.Size-s.into(start))}
	}
	end := start + s.Size
	if end < start {
		end = element.MaxTime
	}
	return Window{start, end}
}
