package task

import "github.com/sluiceio/sluice/flow/element"

// merger is the one rule by which watermarks meet, used for the channels of a gate, the gates of a subtask and the
// splits of a source: the minimum over the inputs that are neither idle nor ended.
//
// An ended input leaves the minimum instead of counting as +∞: otherwise one finished input beside idle ones would
// push the clock to the end of time, and everything after it would be late. The outcome never falls, also when an
// idle input wakes up behind it.
type merger struct {
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
	state inputState
}

type inputState uint8

const (
	inputActive inputState = iota
	inputIdle
	inputEnded
)

// newMerger has n active inputs that have promised nothing yet.
func newMerger(n int) *merger {
	m := &merger{min: element.MinTime, out: element.MinTime, end: element.MaxTime}
	for range n {
		m.add()
	}
	return m
}

// add appends an active input without a promise.
func (m *merger) add() {
	m.live = append(m.live, int32(len(m.ins)))
	m.ins = append(m.ins, input{at: element.MinTime})
	m.stale = true
}

// set takes the watermark t of input i, which becomes active. A time that falls is ignored.
func (m *merger) set(i int, t element.Time) {
	in := &m.ins[i]
	if in.state == inputEnded {
		return
	}
	if in.state == inputIdle || in.at <= m.min {
		m.stale = true
	}
	in.state = inputActive
	in.at = max(in.at, t)
}

// touch makes input i active: it has a record.
func (m *merger) touch(i int) {
	if in := &m.ins[i]; in.state == inputIdle {
		in.state = inputActive
		m.stale = true
	}
}

// rest takes input i out of the minimum until it is touched or set.
func (m *merger) rest(i int) {
	if in := &m.ins[i]; in.state == inputActive {
		in.state = inputIdle
		m.stale = true
	}
}

// finish takes input i out for ever; t is its last watermark.
func (m *merger) finish(i int, t element.Time) {
	in := &m.ins[i]
	if in.state == inputEnded {
		return
	}
	in.state = inputEnded
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

// next is what has to be said downstream because of the changes since the last call, if anything.
func (m *merger) next() (element.Event, bool) {
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
		if in := &m.ins[i]; in.state == inputActive {
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
