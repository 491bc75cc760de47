package timer

import "time"

// Pace repeats a message: at once, and then after pauses that double.
type Pace struct {
	pause time.Duration
	next  time.Time
}

// Due reports whether it is time again, and moves on if so.
func (p *Pace) Due(now time.Time, first, most time.Duration) bool {
	if now.Before(p.next) {
		return false
	}
	p.pause = min(max(first, 2*p.pause), most)
	p.next = now.Add(p.pause)
	return true
}

// Next is when it is time again.
func (p *Pace) Next() time.Time { return p.next }
