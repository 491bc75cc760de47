package task

import (
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/worker/task/mark"
)

// head drives a chain: a source, or the gates of the edges that lead to it. It belongs to the loop of its subtask.
type head interface {
	// step handles at most limit records, and at most one batch of one input. What it says about events goes down the
	// chain before it returns.
	step(limit int) (progress, error)
	// assigned takes splits.
	assigned(a *taskpb.AssignSplits) error
	// onTime does what was due at or before now, and returns when it wants to be called again; zero: not by the clock.
	onTime(now time.Time) (next time.Time, err error)
	// position describes the record in flight.
	position() string
	// close gives up the inputs; nil: they have ended.
	close(err error) error
	// received is the number of records, and of their encoded bytes, taken from the inputs.
	received() (records, bytes int64)
}

// progress is what a step has found.
type progress struct {
	state state
	// records handled in this step.
	records int
	// waited is the part of the step that was spent in waiting for input.
	waited time.Duration
	// empty: the input had nothing, so whatever is buffered would wait for its next record.
	empty bool
}

type state uint8

const (
	// working: there may be more at once.
	working state = iota
	// starved: nothing until a notification, a letter or a deadline.
	starved
	// ended: the inputs have ended, and the chain has finished.
	ended
)

// gateHead reads the edges that lead to a chain.
type gateHead struct {
	chain   *chain
	gates   []gate
	marks   *mark.Merger // over the gates
	current int          // gate in turn
	total   int64
}

// gate is the reading end of one edge, erased.
type gate interface {
	// step handles at most limit records of one batch, or one event of a channel. ev is what the gate as a whole has to
	// say because of it. idle: there was nothing.
	step(limit int) (records int, ev element.Event, idle bool, err error)
	position() string
	stats() shuffle.GateStats
	// close gives it up; nil: it has ended.
	close(err error)
}

// closedGate has no channels: nothing will come.
type closedGate struct{ said bool }

func (g *closedGate) step(int) (int, element.Event, bool, error) {
	if g.said {
		return 0, element.Event{}, true, nil
	}
	g.said = true
	return 0, element.Event{Kind: element.End, Time: element.MaxTime}, false, nil
}

func (g *closedGate) position() string         { return "" }
func (g *closedGate) stats() shuffle.GateStats { return shuffle.GateStats{} }
func (g *closedGate) close(error)              {}

func (h *gateHead) step(limit int) (progress, error) {
	for range h.gates {
		i := h.current
		n, ev, idle, err := h.gates[i].step(limit)
		h.total += int64(n)
		if err != nil {
			return progress{}, err
		}
		if ev.Kind != element.None {
			done, err := h.event(i, ev)
			if done || err != nil {
				return progress{state: ended, records: n}, err
			}
		}
		h.current++
		if h.current == len(h.gates) {
			h.current = 0
		}
		if !idle {
			return progress{state: working, records: n}, nil
		}
	}
	return progress{state: starved}, nil
}

// event takes what gate i has said; done: all gates have ended, and so has the chain.
func (h *gateHead) event(i int, ev element.Event) (done bool, err error) {
	switch ev.Kind {
	case element.Watermark:
		h.marks.Set(i, ev.Time)
	case element.Idle:
		h.marks.Rest(i)
	case element.End:
		h.marks.Finish(i, ev.Time)
	}
	out, ok := h.marks.Next()
	if !ok {
		return false, nil
	}
	return out.Kind == element.End, h.chain.control(out)
}

func (h *gateHead) assigned(*taskpb.AssignSplits) error     { return nil } // splits are for sources
func (h *gateHead) onTime(time.Time) (t time.Time, _ error) { return t, nil }
func (h *gateHead) position() string                        { return h.gates[h.current].position() }

func (h *gateHead) received() (records, bytes int64) {
	for _, g := range h.gates {
		bytes += g.stats().Bytes
	}
	return h.total, bytes
}

func (h *gateHead) close(err error) error {
	for _, g := range h.gates {
		g.close(err)
	}
	return nil
}
