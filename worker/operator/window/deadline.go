package window

import (
	"cmp"
	"slices"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/window"
	"github.com/sluiceio/sluice/worker/state/timer"
)

// deadlines is what an operator with the windows of each key in a map knows of their times: when triggers are to be asked, and
// when windows are forgotten.
type deadlines struct {
	times
	event *timer.Timer
	proc  *timer.Timer

	until element.Time // that the sweep goes to
	ctx   TriggerCtx
	met   []spot // scratch: windows of the key
	notes []int64
}

// spot is a window of the current key, and when something is to be done about it.
type spot struct {
	win          window.Window
	id           element.Time
	event, clock element.Time // deadlines of the trigger
	at           element.Time
	end          bool // it is over then
}

// over is when a window is forgotten; never: not before the end of time.
func (d *deadlines) over(w window.Window) element.Time {
	switch {
	case w.End == element.MaxTime:
		return never
	case d.timing == ByClock:
		return d.last(w) + 1
	}
	return d.overAt(w)
}

// arm sets the timers of the key to what is to be done about a window with these deadlines, if that is earlier than anything
// else.
func (d *deadlines) arm(w window.Window, event, clock element.Time) {
	if over := d.over(w); d.timing == ByClock {
		clock = min(clock, over)
	} else {
		event = min(event, over)
	}
	if event != never {
		if at, ok := d.event.At(); !ok || event < at {
			d.event.Set(event)
		}
	}
	if clock != never {
		if at, ok := d.proc.At(); !ok || clock < at {
			d.proc.Set(clock)
			d.await(clock)
		}
	}
}

// look notes what is due at t about a window, by one of the two clocks.
func (d *deadlines) look(t element.Time, on Timing, s spot) {
	s.at = s.event
	if on == ByClock {
		s.at = s.clock
	}
	if s.at <= t && s.at != never {
		d.met = append(d.met, s)
	}
	if on != d.timing {
		return
	}
	if s.at, s.end = d.over(s.win), true; s.at <= t && s.at != never {
		d.met = append(d.met, s)
	}
}

// inOrder sorts what is due by time. What is due at one time is done in the order of the windows, and a window ends last.
func (d *deadlines) inOrder() {
	slices.SortFunc(d.met, inTime)
}

func inTime(a, b spot) int {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.win.Start, b.win.Start), compareEnd(a, b))
}

func compareEnd(a, b spot) int {
	switch {
	case a.end == b.end:
		return 0
	case b.end:
		return -1
	}
	return 1
}

// settled is a deadline that a trigger has set at the deadline at. At the end of the input no time passes any more: whatever waits
// comes to the end of its window then, if that is ahead, or a trigger that waits again and again would never come to one.
func (d *deadlines) settled(deadline, at, end element.Time) element.Time {
	switch {
	case !d.ending || deadline == never:
		return deadline
	case at < end && end < never:
		return end
	}
	return never
}

// rounds counts the deadlines that triggers set during a visit for a time that has come, to notice that there is no end to it.
type rounds struct{ first, again int }

// insert puts the next deadline of a window that a visit has just called among those from i on, if it comes up to t.
func (d *deadlines) insert(i int, t element.Time, on Timing, r *rounds, s spot) error {
	before := d.met[i-1].at
	s.at = s.event
	if on == ByClock {
		s.at = s.clock
	}
	if s.at > t || s.at == never {
		return nil
	}
	if s.at <= before {
		if r.again++; timer.Endless(r.first, r.again) {
			return timer.ErrEndless
		}
	}
	at, _ := slices.BinarySearchFunc(d.met[i:], s, inTime)
	d.met = slices.Insert(d.met, i+at, s)
	return nil
}
