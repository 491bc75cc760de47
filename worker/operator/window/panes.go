package window

import (
	"slices"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/window"
)

// panes are the starts of those panes of sliding windows that hold something, in the order of time.
type panes struct {
	times
	spec   window.Sliding
	starts []element.Time
}

// find is where a pane that begins at start stands, or would.
func (p *panes) find(start element.Time) (int, bool) { return slices.BinarySearch(p.starts, start) }

// within is which panes a window has: from lo up to, without, hi.
func (p *panes) within(w window.Window) (lo, hi int) {
	lo, _ = p.find(w.Start)
	hi, _ = p.find(w.End)
	return lo, hi
}

// paneOver is when no window needs a pane any more.
func (p *panes) paneOver(start element.Time) element.Time {
	last, _ := p.spec.Last(start)
	return p.overAt(last)
}

// fromOver is when the window that begins at start takes no record any more.
func (p *panes) fromOver(start element.Time) element.Time { return p.overAt(p.spec.From(start)) }

// expectOldest has sweep called when the oldest pane is not needed any more.
func (p *panes) expectOldest() {
	if len(p.starts) > 0 {
		p.expect(p.paneOver(p.starts[0]))
	}
}

// expectPane has sweep called when something is to be done about a pane.
func (p *panes) expectPane(start element.Time) {
	if w, ok := p.spec.First(start); ok {
		p.expect(max(w.Last(), p.swept+1))
	}
}

// nextWindow is the oldest window that has panes and ends after done.
func (p *panes) nextWindow(done element.Time) (window.Window, bool) {
	for _, start := range p.starts {
		w, _ := p.spec.First(start)
		if w.Last() <= done {
			w = after(p.spec, w, done)
		}
		if w.Contains(start) {
			return w, true
		}
	}
	return window.Window{}, false
}

// after is the first window behind w whose last instant is above t. Differences of times may not fit, those of their bits
// always do.
func after(spec window.Sliding, w window.Window, t element.Time) window.Window {
	if w.Start == element.MinTime { // it may be shorter
		if w = spec.Next(w); w.Last() > t {
			return w
		}
	}
	missed := (uint64(t)-uint64(w.Last()))/uint64(spec.Slide) + 1
	return spec.From(element.Time(uint64(w.Start) + missed*uint64(spec.Slide)))
}

// slides is what an operator that puts windows together from panes knows of their times.
type slides struct {
	panes

	// cur is the pane of the last record: most records follow one of the same pane. cur.Start > cur.End: none.
	cur      window.Window
	last     window.Window // the newest window that holds it
	oldest   element.Time  // last instant of the oldest window that holds it
	curTaken bool          // the pane has been taken in: what is added makes its key stale

	next  window.Window // the next one to fire, while any has to
	waits bool          // there are panes from next on
	taken element.Time  // panes below this start are in the queues
}

// seek makes the pane of at the current one. It is false if no window holds it.
func (s *slides) seek(at element.Time) bool {
	s.forgetPane()
	last, ok := s.spec.Last(at)
	if !ok {
		return false
	}
	oldest, _ := s.spec.First(at)
	s.cur, s.last, s.oldest = s.spec.Pane(at), last, oldest.Last()
	return true
}

// forgetPane has no current pane.
func (s *slides) forgetPane() {
	s.cur = window.Window{Start: element.MaxTime, End: element.MinTime}
}

// notice has the windows fire that hold a pane and wait.
func (s *slides) notice(start element.Time) {
	last, _ := s.spec.Last(start)
	if last.Last() > s.horizon() {
		if first := s.firstWaiting(start); !s.waits || first.Start < s.next.Start {
			s.wait(first)
		}
	}
	s.expect(s.overAt(last))
}

// wait makes w the next window to fire: nothing older waits, and no pane from its start on has been taken in.
func (s *slides) wait(w window.Window) {
	if !s.waits {
		s.taken = w.Start
	}
	s.next, s.waits, s.taken = w, true, min(s.taken, w.Start)
	s.expect(w.Last())
}

// firstWaiting is the oldest window that holds at and has not fired.
func (s *slides) firstWaiting(at element.Time) window.Window {
	w, _ := s.spec.First(at)
	now := s.horizon()
	if w.Last() > now {
		return w
	}
	return after(s.spec, w, now)
}

// slide moves on to the next window that has panes.
func (s *slides) slide() {
	before := s.next.Start
	s.next = s.spec.Next(s.next)
	if s.next.Start <= before { // beyond the end of time
		s.waits = false
		return
	}
	i, _ := s.find(s.next.Start)
	s.waits = i < len(s.starts)
	if s.waits && s.starts[i] >= s.next.End {
		s.next, _ = s.spec.First(s.starts[i])
	}
}

// spent is the number of panes, the oldest ones, that no window needs at time t.
func (s *slides) spent(t element.Time) (n int) {
	for n < len(s.starts) && (!s.waits || s.starts[n] < s.next.Start) && s.paneOver(s.starts[n]) <= t {
		n++
	}
	return n
}

// expectNext has sweep called for what comes next.
func (s *slides) expectNext() {
	if s.waits {
		s.expect(s.next.Last())
	}
	s.expectOldest()
}
