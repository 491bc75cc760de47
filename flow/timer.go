package flow

import (
	"time"

	"github.com/sluiceio/sluice/worker/operator/process"
	"github.com/sluiceio/sluice/worker/state/timer"
)

// EventTimer declares a timer by event time: one deadline per key. f is called for the key when the watermark has reached the
// deadline, after all records up to it; what it emits has the time of the deadline. The timers of an operator fire in the order
// of their deadlines; one that is set by f, at or below the watermark, fires in the same sweep. An error of f fails the attempt,
// whatever OnError says.
//
// At the end of bounded input time comes to the newest record, and then it ends (Ctx.Watermark is MaxTime): every deadline is
// reached, and one that f sets then is not, so that a timer which sets itself again ends with its input. What is left to do
// belongs into OnEnd.
func (s *Setup[K, Out]) EventTimer(name string, f func(c *Ctx[K, Out], at Time) error) EventTimer {
	return EventTimer{s.set().EventTimer(name, func(c *process.KeyCtx[K, Out], at Time) error { return f((*Ctx[K, Out])(c), at) })}
}

// EventTimers declares a set of timers by event time: several deadlines per key. f is called as that of EventTimer.
func (s *Setup[K, Out]) EventTimers(name string, f func(c *Ctx[K, Out], at Time) error) EventTimers {
	return EventTimers{s.set().EventTimers(name, func(c *process.KeyCtx[K, Out], at Time) error { return f((*Ctx[K, Out])(c), at) })}
}

// ProcTimer declares a timer by the clock of the machine: one deadline per key. f is called at the deadline or soon after,
// between records. What it emits has the earliest event time that is not late, the watermark and a microsecond; without
// watermarks it has the time of the deadline. A deadline that f sets is a millisecond ahead at least; one that a record sets may
// have passed, and is called at once. Deadlines that are not reached before the end of bounded input are dropped.
func (s *Setup[K, Out]) ProcTimer(name string, f func(c *Ctx[K, Out], at time.Time) error) ProcTimer {
	return ProcTimer{s.set().ProcTimer(name, func(c *process.KeyCtx[K, Out], at time.Time) error { return f((*Ctx[K, Out])(c), at) })}
}

// EventTimer is one deadline per key, by event time. It addresses the key of the record in flight.
type EventTimer struct{ t *timer.Timer }

// Set sets the deadline, in place of the one before. One that the watermark has passed is called at the next watermark.
func (t EventTimer) Set(at Time) { t.t.Set(at) }

// Clear takes the deadline, if there is one.
func (t EventTimer) Clear() { t.t.Clear() }

// At is the deadline and whether there is one.
func (t EventTimer) At() (at Time, ok bool) { return t.t.At() }

// EventTimers are several deadlines per key, by event time. They address the key of the record in flight.
type EventTimers struct{ t *timer.Timers }

// Add adds a deadline; one that is there stays.
func (t EventTimers) Add(at Time) { t.t.Add(at) }

// Remove takes a deadline, if it is there.
func (t EventTimers) Remove(at Time) { t.t.Remove(at) }

// Has reports whether there is this deadline.
func (t EventTimers) Has(at Time) bool { return t.t.Has(at) }

// Len is the number of deadlines.
func (t EventTimers) Len() int { return t.t.Len() }

// Clear takes all deadlines.
func (t EventTimers) Clear() { t.t.Clear() }

// ProcTimer is one deadline per key, by the clock of the machine. It addresses the key of the record in flight.
type ProcTimer struct{ t *process.ProcTimer }

// Set sets the deadline, in place of the one before.
func (t ProcTimer) Set(at time.Time) { t.t.Set(at) }

// SetIn is Set for d from now on.
func (t ProcTimer) SetIn(d time.Duration) { t.t.SetIn(d) }

// Clear takes the deadline, if there is one.
func (t ProcTimer) Clear() { t.t.Clear() }

// At is the deadline and whether there is one.
func (t ProcTimer) At() (at time.Time, ok bool) { return t.t.At() }
