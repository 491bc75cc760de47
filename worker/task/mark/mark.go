package mark

import (
	"iter"

	"github.com/sluiceio/sluice/flow/element"
)

// Merger is the one rule by which watermarks meet, used for the channels of a gate, the gates of a subtask and the
// splits of a source: the minimum over the inputs that are neither idle nor ended.
//
// An ended input leaves the minimum instead of counting as +∞: otherwise one finished input beside idle ones would
// push the clock to the end of time, and everything after it would be late. The outcome never falls, also when an
// idle input wakes up behind it.
type Merger struct {
	ins   []input
	live  []int32 // inputs that have not ended
	stale bool    // the minimum has to be computed again

	min  element.Time // of the active inputs, when computed last
	out  element.Time // last watermark said
	idle bool         // Idle was said last
	end  element.Time // smallest time that an input ended with
	over bool         // End was said
}

type input struct {
	at    element.Time
	state State
}

// State of an input.
type State uint8

// The states.
const (
	Active State = iota // in the minimum
	Idle                // out of it until it is woken or set
	Ended               // out of it for ever
)

// New makes a merger of n active inputs that have promised nothing yet.
func New(n int) *Merger {
	m := &Merger{min: element.MinTime, out: element.MinTime, end: element.MaxTime, stale: true}
	for range n {
		m.Add()
	}
	return m
}

// Add appends an active input without a promise.
func (m *Merger) Add() {
	m.live = append(m.live, int32(len(m.ins)))
	m.ins = append(m.ins, input{at: element.MinTime})
	m.stale = true
}

// Set takes the watermark t of input i, which becomes active. A time that falls is ignored.
func (m *Merger) Set(i int, t element.Time) {
	in := &m.ins[i]
	if in.state == Ended {
		return
	}
	if in.state == Idle || in.at <= m.min {
		m.stale = true
	}
	in.state = Active
	in.at = max(in.at, t)
}

// Wake makes input i active, and reports whether it was idle.
func (m *Merger) Wake(i int) bool {
	in := &m.ins[i]
	if in.state != Idle {
		return false
	}
	in.state = Active
	m.stale = true
	return true
}

// Rest takes input i out of the minimum until it is woken or set.
func (m *Merger) Rest(i int) {
	if in := &m.ins[i]; in.state == Active {
		in.state = Idle
		m.stale = true
	}
}

// Finish takes input i out for ever; t is its last watermark.
func (m *Merger) Finish(i int, t element.Time) {
	in := &m.ins[i]
	if in.state == Ended {
		return
	}
	in.state = Ended
	m.end = min(m.end, t)
	m.stale = true
	for k, l := range m.live {
		if int(l) == i {
			m.live[k] = m.live[len(m.live)-1]
			m.live = m.live[:len(m.live)-1]
			return
		}
	}
}

// Next is what has to be said downstream because of the changes since the last call, if anything.
func (m *Merger) Next() (element.Event, bool) {
	if !m.stale {
		return element.Event{}, false
	}
	m.stale = false
	if len(m.live) == 0 {
		if m.over {
			return element.Event{}, false
		}
		m.over = true
		if m.end < element.MaxTime {
			m.end = max(m.end, m.out)
		}
		return element.Event{Kind: element.End, Time: m.end}, true
	}
	least, active := element.MaxTime, false
	for _, i := range m.live {
		if in := &m.ins[i]; in.state == Active {
			least, active = min(least, in.at), true
		}
	}
	if !active {
		if m.idle {
			return element.Event{}, false
		}
		m.idle = true
		return element.Event{Kind: element.Idle}, true
	}
	m.min = least
	if least <= m.out && !m.idle {
		return element.Event{}, false
	}
	m.idle = false
	m.out = max(m.out, least)
	return element.Event{Kind: element.Watermark, Time: m.out}, true
}

// Active yields the inputs that are in the minimum. The loop may Rest them.
func (m *Merger) Active() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, i := range m.live {
			if m.ins[i].state == Active && !yield(int(i)) {
				return
			}
		}
	}
}

// Len is the number of inputs, the ended ones included.
func (m *Merger) Len() int { return len(m.ins) }

// At is the last watermark of input i, and its state.
func (m *Merger) At(i int) (element.Time, State) { return m.ins[i].at, m.ins[i].state }

// Holder is the input that holds the clock: of the active ones whose number is first or above, one with the lowest watermark,
// and the first of those; -1: none is active.
func (m *Merger) Holder(first int) int {
	holder := -1
	for _, i := range m.live {
		i := int(i)
		if i < first || m.ins[i].state != Active {
			continue
		}
		if holder < 0 || m.ins[i].at < m.ins[holder].at || m.ins[i].at == m.ins[holder].at && i < holder {
			holder = i
		}
	}
	return holder
}

// Newest is the largest watermark that any input has had, whatever became of it.
func (m *Merger) Newest() element.Time {
	newest := element.MinTime
	for i := range m.ins {
		newest = max(newest, m.ins[i].at)
	}
	return newest
}

// Restore makes t the last watermark that was said: none below it is said again.
func (m *Merger) Restore(t element.Time) { m.out = max(m.out, t) }

// Said is the last watermark that Next has returned, and whether idleness was said after it.
func (m *Merger) Said() (at element.Time, idle bool) { return m.out, m.idle }
