package pace

import (
	"context"
	"time"
)

// Pace is what one subtask has delivered since its first record. Its zero value begins with the first Take.
type Pace struct {
	begun time.Time
	given int64
}

// Take returns how many records may be delivered now at a rate per second, at most want; it waits until there is at least
// one. Rate 0 is full speed. ok is false if ctx is done first.
func (p *Pace) Take(ctx context.Context, perSecond float64, want int) (n int, ok bool) {
	if perSecond == 0 {
		return want, ctx.Err() == nil
	}
	if p.begun.IsZero() {
		p.begun = time.Now()
	}
	for {
		due := int64(time.Since(p.begun).Seconds()*perSecond) + 1
		if n := min(int64(want), due-p.given); n > 0 {
			p.given += n
			return int(n), true
		}
		next := p.begun.Add(time.Duration(float64(p.given) / perSecond * float64(time.Second)))
		timer := time.NewTimer(max(time.Millisecond, time.Until(next)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return 0, false
		}
	}
}

// GiveBack returns what was taken at a rate and not delivered.
func (p *Pace) GiveBack(perSecond float64, n int) {
	if perSecond > 0 {
		p.given -= int64(n)
	}
}
