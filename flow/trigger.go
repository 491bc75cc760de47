package flow

import (
	"fmt"
	"time"

	winop "github.com/sluiceio/sluice/worker/operator/window"
)

// Fire is what a trigger decides about a window.
type Fire uint8

const (
	// Continue does nothing.
	Continue = Fire(winop.Continue)
	// FireNow emits the result of what the window holds, which stays there.
	FireNow = Fire(winop.FireNow)
	// Purge empties the window.
	Purge = Fire(winop.Purge)
	// FireAndPurge emits the result and empties the window.
	FireAndPurge = Fire(winop.FireAndPurge)
)

// Trigger decides when the windows of a key fire, instead of once at their end. It is shared by all subtasks of a process and
// must not change itself: what it has to remember stands in TriggerCtx. A window is forgotten at its end and the allowed
// lateness, whether it has fired or not; a global one never is.
type Trigger[K comparable, T any] interface {
	// OnElement is called for each record that a window takes, after the record was added.
	OnElement(c *TriggerCtx, w Win[K], v T) Fire
	// OnEventTime is called when the watermark has reached the deadline of SetEventTimer.
	OnEventTime(c *TriggerCtx, w Win[K], at Time) Fire
	// OnProcTime is called when the clock has reached the deadline of SetProcTimer.
	OnProcTime(c *TriggerCtx, w Win[K], at time.Time) Fire
	// OnMerge is called when sessions have become one, before OnElement. notes are theirs, in the order of time; deadlines and note
	// of c are those of the first.
	OnMerge(c *TriggerCtx, w Win[K], notes []int64)
}

// TriggerCtx is what a trigger knows of a window of a key, and what it keeps about it. It is valid during one call.
type TriggerCtx winop.TriggerCtx

func (c *TriggerCtx) ctx() *winop.TriggerCtx { return (*winop.TriggerCtx)(c) }

// Watermark is how far event time has come; for windows by the clock, how far that has.
func (c *TriggerCtx) Watermark() Time { return c.ctx().Watermark() }

// Now is the clock of the machine, read once per batch of records.
func (c *TriggerCtx) Now() time.Time { return c.ctx().Now().Std() }

// SetEventTimer sets the deadline by event time, in place of the one before. There is one per key and window.
func (c *TriggerCtx) SetEventTimer(at Time) { c.ctx().SetEventTimer(at) }

// ClearEventTimer takes it.
func (c *TriggerCtx) ClearEventTimer() { c.ctx().ClearEventTimer() }

// SetProcTimer sets the deadline by the clock, in place of the one before. There is one per key and window.
func (c *TriggerCtx) SetProcTimer(at time.Time) { c.ctx().SetProcTimer(At(at)) }

// ClearProcTimer takes it.
func (c *TriggerCtx) ClearProcTimer() { c.ctx().ClearProcTimer() }

// Note is what the trigger keeps per key and window; 0 at first.
func (c *TriggerCtx) Note() int64 { return c.ctx().Note() }

// SetNote replaces it.
func (c *TriggerCtx) SetNote(n int64) { c.ctx().SetNote(n) }

// Trigger replaces the rule that windows fire once at their end, and for each late record after it. With a trigger a record of
// overlapping windows is kept, or added, in each of them.
func (w WindowedStream[K, T]) Trigger[_ OnCall](t Trigger[K, T]) WindowedStream[K, T] {
	w.fires = fmt.Sprintf("trigger %T", t)
	w.trigger = func(winop.Timing) winop.Trigger[K, T] { return triggerOf(t) }
	return w
}

func triggerOf[K comparable, T any](t Trigger[K, T]) winop.Trigger[K, T] {
	win := func(w winop.Win[K]) Win[K] { return Win[K]{w.Key, w.Window, w.Pane} }
	return winop.Trigger[K, T]{
		OnElement: func(c *winop.TriggerCtx, w winop.Win[K], v T) winop.Fire {
			return winop.Fire(t.OnElement((*TriggerCtx)(c), win(w), v))
		},
		OnEvent: func(c *winop.TriggerCtx, w winop.Win[K], at Time) winop.Fire {
			return winop.Fire(t.OnEventTime((*TriggerCtx)(c), win(w), at))
		},
		OnClock: func(c *winop.TriggerCtx, w winop.Win[K], at Time) winop.Fire {
			return winop.Fire(t.OnProcTime((*TriggerCtx)(c), win(w), at.Std()))
		},
		OnMerge: func(c *winop.TriggerCtx, w winop.Win[K], notes []int64) { t.OnMerge((*TriggerCtx)(c), win(w), notes) },
	}
}

// earlyFires is the rule of EarlyEvery, for people.
const earlyFires = "early"

// EarlyEvery has windows fire every d of the clock, with what has come so far, if anything has come since; and at their end
// as they would without it.
func (w WindowedStream[K, T]) EarlyEvery[_ OnCall](d time.Duration) WindowedStream[K, T] {
	if d < time.Microsecond {
		w.k.s.end.p.fault("E018", caller(), fmt.Sprintf("windows fire early every %v", d), "use a duration of at least a microsecond")
	}
	w.fires = earlyFires
	w.trigger = func(by winop.Timing) winop.Trigger[K, T] { return winop.Early[K, T](by, d) }
	return w
}

// EveryCount has windows fire whenever n records have come since the last time, with all that they hold, and not at their end.
func (w WindowedStream[K, T]) EveryCount[_ OnCall](n int64) WindowedStream[K, T] {
	return counting(w, n, winop.Count[K, T](n))
}

// BatchesOf has windows fire whenever they hold n records, and empties them. A rest smaller than that is not emitted.
func (w WindowedStream[K, T]) BatchesOf[_ OnCall](n int64) WindowedStream[K, T] {
	return counting(w, n, winop.Purging(winop.Count[K, T](n)))
}

func counting[K comparable, T any](w WindowedStream[K, T], n int64, t winop.Trigger[K, T]) WindowedStream[K, T] {
	if n < 1 {
		w.k.s.end.p.fault("E018", caller(), fmt.Sprintf("windows fire at every %d records", n), "use a number of at least 1")
	}
	w.fires = fmt.Sprintf("every %d records", n)
	w.trigger = func(winop.Timing) winop.Trigger[K, T] { return t }
	return w
}
