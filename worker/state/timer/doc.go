// Package timer is what calls an operator back for a key: deadlines by event time or by the clock, named, one per key and
// name (Timer) or several (Timers), in order, durable.
//
// Deadlines are states of the directory, so barriers, deltas, rewinds, eviction and rescaling are those of every state.
// Beside them is an index by time, which is a function of the deadlines: it is rebuilt from them when they are imported,
// and takes part in rewinds. It may hold entries whose deadline has changed since; what comes up is compared with the
// deadline. A deadline that is postponed keeps its entry, which moves on when it comes up, so that a timer that is
// postponed by every record costs no entry per record. Evicting a key takes no entry out of the index; entries of times
// far ahead go to the overflow as whole buckets.
//
//	s := timer.New(dir)                             // per operator and subtask
//	idle, err := s.Event("idle", func(at element.Time) error { … })
//	…
//	idle.Set(at)                                    // for the current key, in a callback
//	…
//	err = s.AdvanceEvents(watermark, rt.Stopped)    // in OnWatermark: fires what is due, with its key current
//
// Order: by (time, key group, order of setting). A timer that is set by a callback at or before the time of the sweep
// fires in the same sweep. A callback's own deadline is gone when it is called.
//
// Never here: what time it is, and who waits for the next deadline (NextProc tells it).
//
// Concurrency: everything belongs to the goroutine of one subtask.
package timer
