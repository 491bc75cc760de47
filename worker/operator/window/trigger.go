package window

import (
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/window"
)

// Fire is what a trigger has decided.
type Fire uint8

const (
	// Continue does nothing.
	Continue Fire = 0
	// FireNow emits the result of what the window holds, which stays there.
	FireNow Fire = 1
	// Purge empties the window.
	Purge Fire = 2
	// FireAndPurge emits, and empties the window.
	FireAndPurge = FireNow | Purge
)

// Win is a window of one key.
type Win[K comparable] struct {
	Key K
	window.Window
	Pane int // how often it has fired
}

// Trigger decides when windows fire. Its functions are shared by all subtasks of a process.
type Trigger[K comparable, In any] struct {
	OnElement func(c *TriggerCtx, w Win[K], v In) Fire
	// OnEvent is called when the watermark has reached the deadline that SetEventTimer has set, OnClock likewise.
	OnEvent func(c *TriggerCtx, w Win[K], at element.Time) Fire
	OnClock func(c *TriggerCtx, w Win[K], at element.Time) Fire
	// OnMerge is called when w has come of sessions whose notes these are. Deadlines other than those of the first are gone.
	OnMerge func(c *TriggerCtx, w Win[K], notes []int64)

	// atEnd: it has one deadline, at the end of the window, until it has fired then.
	atEnd bool
}

// TriggerCtx is what a trigger knows of a window, and keeps about it.
type TriggerCtx struct {
	event, clock element.Time // deadlines; never: there is none
	note         int64
	last         element.Time // instant that decides about the window
	now          element.Time // that the windows of the key have come to
	time         func() element.Time
}

// never is a deadline that is none.
const never = element.MaxTime

// Watermark is how far event time has come; for windows by the clock, how far that has.
func (c *TriggerCtx) Watermark() element.Time { return c.now }

// Now is the clock of the machine, read once per batch of records.
func (c *TriggerCtx) Now() element.Time { return c.time() }

// SetEventTimer has the trigger called when the watermark reaches at, in place of the deadline before.
func (c *TriggerCtx) SetEventTimer(at element.Time) { c.event = min(at, never-1) }

// ClearEventTimer takes the deadline.
func (c *TriggerCtx) ClearEventTimer() { c.event = never }

// SetProcTimer has the trigger called when the clock reaches at, in place of the deadline before.
func (c *TriggerCtx) SetProcTimer(at element.Time) { c.clock = min(at, never-1) }

// ClearProcTimer takes the deadline.
func (c *TriggerCtx) ClearProcTimer() { c.clock = never }

// Note is what the trigger keeps per key and window; 0 at first.
func (c *TriggerCtx) Note() int64 { return c.note }

// SetNote replaces it.
func (c *TriggerCtx) SetNote(n int64) { c.note = n }

// AtEnd fires a window at its end, and again for each late record that is allowed.
func AtEnd[K comparable, In any](by Timing) Trigger[K, In] {
	return Trigger[K, In]{
		OnElement: func(c *TriggerCtx, _ Win[K], _ In) Fire {
			if c.last <= c.now {
				return FireNow
			}
			c.awaitEnd(by)
			return Continue
		},
		OnEvent: func(*TriggerCtx, Win[K], element.Time) Fire { return FireNow },
		OnClock: func(*TriggerCtx, Win[K], element.Time) Fire { return FireNow },
		OnMerge: func(*TriggerCtx, Win[K], []int64) {},
		atEnd:   true,
	}
}

// awaitEnd sets the deadline at the end of the window.
func (c *TriggerCtx) awaitEnd(by Timing) {
	if by == ByEvent {
		c.SetEventTimer(c.last)
	} else {
		c.SetProcTimer(c.last + 1)
	}
}

// Early is AtEnd, and fires what has come so far once every period, by the clock, if anything has come since.
func Early[K comparable, In any](by Timing, period time.Duration) Trigger[K, In] {
	const news = 1 // the note: something has come since the last firing
	end := AtEnd[K, In](by)
	onElement := func(c *TriggerCtx, w Win[K], v In) Fire {
		clock := c.clock
		act := end.OnElement(c, w, v)
		if act != Continue {
			return act
		}
		due := c.Now().Add(period)
		if c.note == news {
			due = clock
		}
		c.note = news
		if by == ByClock {
			due = min(due, c.last+1)
		}
		c.SetProcTimer(due)
		return Continue
	}
	return Trigger[K, In]{
		OnElement: onElement,
		OnEvent: func(c *TriggerCtx, w Win[K], at element.Time) Fire {
			c.note = 0
			c.ClearProcTimer()
			return FireNow
		},
		OnClock: func(c *TriggerCtx, w Win[K], at element.Time) Fire {
			c.note = 0
			if by == ByClock && at <= c.last {
				c.awaitEnd(by)
			}
			return FireNow
		},
		OnMerge: func(c *TriggerCtx, _ Win[K], notes []int64) {
			c.note = 0 // the next record, which has made them merge, waits anew
		},
	}
}

// Count fires a window each time that n records have come since.
func Count[K comparable, In any](n int64) Trigger[K, In] {
	return Trigger[K, In]{
		OnElement: func(c *TriggerCtx, _ Win[K], _ In) Fire {
			if c.note++; c.note < n {
				return Continue
			}
			c.note = 0
			return FireNow
		},
		OnEvent: func(*TriggerCtx, Win[K], element.Time) Fire { return Continue },
		OnClock: func(*TriggerCtx, Win[K], element.Time) Fire { return Continue },
		OnMerge: func(c *TriggerCtx, _ Win[K], notes []int64) {
			c.note = 0
			for _, m := range notes {
				c.note += m
			}
		},
	}
}

// Purging is t, and empties windows whenever they fire.
func Purging[K comparable, In any](t Trigger[K, In]) Trigger[K, In] {
	purge := func(f Fire) Fire {
		if f&FireNow != 0 {
			f |= Purge
		}
		return f
	}
	return Trigger[K, In]{
		OnElement: func(c *TriggerCtx, w Win[K], v In) Fire { return purge(t.OnElement(c, w, v)) },
		OnEvent:   func(c *TriggerCtx, w Win[K], at element.Time) Fire { return purge(t.OnEvent(c, w, at)) },
		OnClock:   func(c *TriggerCtx, w Win[K], at element.Time) Fire { return purge(t.OnClock(c, w, at)) },
		OnMerge:   t.OnMerge,
	}
}
