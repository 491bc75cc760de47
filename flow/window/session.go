package window

import (
	"fmt"
	"time"

	"github.com/sluiceio/sluice/flow/element"
)

// Session windows gather what is no more than Gap apart, in microseconds: a record at t opens [t, t + Gap), and windows
// that intersect or touch are one. So two records are in one session if and only if a chain of records leads from one to
// the other in steps of at most Gap.
type Session struct{ Gap element.Time }

// NewSession checks the gap, which is cut to microseconds.
func NewSession(gap time.Duration) (Session, error) {
	if gap < time.Microsecond {
		return Session{}, fmt.Errorf("session gap is %v, it must be at least 1µs", gap)
	}
	return Session{element.Time(gap.Microseconds())}, nil
}

// Assign is the window that a record at t opens.
func (s Session) Assign(t element.Time) Window {
	end := t + s.Gap
	if end < t {
		end = element.MaxTime
	}
	return Window{t, end}
}

// Meets reports whether two windows intersect or touch.
func (w Window) Meets(o Window) bool { return w.Start <= o.End && o.Start <= w.End }

// Cover is the smallest window that holds both.
func (w Window) Cover(o Window) Window { return Window{min(w.Start, o.Start), max(w.End, o.End)} }
