package file

import (
	"context"
	"time"
)

// pace spreads a subtask's records over time. The zero pace is full speed.
type pace struct {
	perSecond int
	begun     time.Time
	given     int64
}

func newPace(perSecond int) pace { return pace{perSecond: perSecond} }

// take returns how many records may be delivered now, at most want; it waits until there is at least one.
func (p *pace) take(ctx context.Context, want int) (int, error) {
	if p.perSecond == 0 {
		return want, ctx.Err()
	}
	if p.begun.IsZero() {
		p.begun = time.Now()
	}
	for {
		due := int64(time.Since(p.begun).Seconds()*float64(p.perSecond)) + 1
		if n := min(int64(want), due-p.given); n > 0 {
			p.given += n
			return int(n), nil
		}
		next := p.begun.Add(time.Duration(float64(p.given) / float64(p.perSecond) * float64(time.Second)))
		timer := time.NewTimer(max(time.Millisecond, time.Until(next)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return 0, ctx.Err()
		}
	}
}

// giveBack returns what was taken and not delivered.
func (p *pace) giveBack(n int) {
	if p.perSecond > 0 {
		p.given -= int64(n)
	}
}
