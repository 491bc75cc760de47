package source

import "time"

// ear is a clock that stands still while nobody listens to the source: idleness is time in which a split could have been heard
// and was not. While a source waits for its consumers, for a gate or for its group, or user code takes long, records may lie
// there; a split that became idle meanwhile would let the clock pass them by.
type ear struct {
	lost   time.Duration // not listened, before closed
	closed time.Time     // when listening ended; zero: somebody listens
}

// now is the time of this clock at t.
func (e *ear) now(t time.Time) time.Time {
	if !e.closed.IsZero() && e.closed.Before(t) {
		t = e.closed
	}
	return t.Add(-e.lost)
}

// close says that nobody listens from t on.
func (e *ear) close(t time.Time) {
	if e.closed.IsZero() {
		e.closed = t
	}
}

// open says that somebody listens from t on.
func (e *ear) open(t time.Time) {
	if !e.closed.IsZero() {
		e.lost += max(0, t.Sub(e.closed))
		e.closed = time.Time{}
	}
}
