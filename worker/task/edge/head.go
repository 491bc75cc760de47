package edge

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/shuffle/stored"
	"github.com/sluiceio/sluice/worker/task/chain"
	"github.com/sluiceio/sluice/worker/task/fault"
	"github.com/sluiceio/sluice/worker/task/mark"
)

// Input is one input of the operator at the head of a chain.
type Input struct {
	Gate Gate
	// Stored: it is read from files, so its records wait, and the order in which it is read is the reader's to choose.
	Stored bool
	// Phase and Gated as in jobpb.Input.
	Phase int32
	Gated bool
}

// Head reads the edges that lead to a chain.
//
// Live inputs are read in turn, whenever they have something. Stored ones are read one after the other, by phase and
// then in the order of the operator's inputs: so a subtask that has no others gives the same result whenever it runs,
// whichever of its producers finished first. An input that is gated, stored or not, is not looked at before all inputs
// of lower phases have ended here.
type Head struct {
	chain  *chain.Chain
	inputs []Input
	ended  []bool
	marks  *mark.Merger // over the inputs
	stored []int        // stored inputs that have not ended, in the order of reading
	turns  []int        // inputs that are read now
	at     int          // in turns
	total  int64

	gated  int32 // lowest phase of a gated input
	loaded bool
	// load is called when the inputs in front of the gates have ended.
	load func()
	checkpoints
}

// noGate is a phase that no gated input has.
const noGate = 1<<31 - 1

// NewHead reads inputs, which stand in the order of the operator's, for c. load is called when the inputs in front of
// gated ones have ended, once, perhaps at once; never if none is gated.
func NewHead(c *chain.Chain, inputs []Input, load func()) *Head {
	h := &Head{chain: c, inputs: inputs, ended: make([]bool, len(inputs)), marks: mark.New(len(inputs)), gated: noGate, load: load}
	for i, in := range inputs {
		if in.Stored {
			h.stored = append(h.stored, i)
		}
		if in.Gated {
			h.gated = min(h.gated, in.Phase)
		}
	}
	slices.SortStableFunc(h.stored, func(a, b int) int { return cmp.Compare(inputs[a].Phase, inputs[b].Phase) })
	h.plan()
	return h
}

// plan decides which inputs are read from now on.
func (h *Head) plan() {
	h.turns, h.at = h.turns[:0], 0
	for i := range h.inputs {
		if !h.inputs[i].Stored && !h.ended[i] && (h.open(i) || h.peeks(i)) {
			h.turns = append(h.turns, i)
		}
	}
	if len(h.stored) > 0 && h.open(h.stored[0]) {
		h.turns = append(h.turns, h.stored[0])
	}
	if !h.loaded && h.gated != noGate && h.reached(h.gated) {
		h.loaded = true
		h.load()
	}
}

// open reports whether nothing stands in front of an input any more.
func (h *Head) open(input int) bool {
	return !h.inputs[input].Gated || h.reached(h.inputs[input].Phase)
}

// reached reports whether all inputs of lower phases have ended.
func (h *Head) reached(phase int32) bool {
	for i := range h.inputs {
		if h.inputs[i].Phase < phase && !h.ended[i] {
			return false
		}
	}
	return true
}

// Step reads the next input that has something.
func (h *Head) Step(limit int) (chain.Progress, error) {
	if i, ev := h.overdue(); ev.Kind != element.None {
		done, err := h.event(i, ev)
		if done || err != nil {
			return chain.Progress{State: chain.Ended}, err
		}
	}
	for range h.turns {
		i := h.turns[h.at]
		peeks, most := h.gated != noGate && h.peeks(i), limit
		if peeks {
			most = 0
		}
		n, ev, idle, err := h.inputs[i].Gate.Step(most)
		h.total += int64(n)
		if err != nil {
			return chain.Progress{}, h.withOthers(h.blame(err))
		}
		if h.at++; h.at == len(h.turns) {
			h.at = 0
		}
		if peeks && ev.Kind != element.None {
			h.later(i, ev)
			ev = element.Event{}
		}
		done := false
		if ev.Kind != element.None {
			if done, err = h.event(i, ev); err != nil {
				return chain.Progress{State: chain.Ended, Records: n}, err
			}
		}
		if err := h.arrived(i); err != nil {
			return chain.Progress{}, err
		}
		if done {
			return chain.Progress{State: chain.Ended, Records: n}, nil
		}
		if !idle {
			return chain.Progress{State: chain.Working, Records: n}, nil
		}
	}
	return chain.Progress{State: chain.Starved}, nil
}

// withOthers adds to the loss of a stored result what else cannot be read of the inputs that have not ended: one failure, and
// so one restart, for all that is lost at the same time.
func (h *Head) withOthers(err error) error {
	lost, ok := errors.AsType[*stored.LostError](err)
	if !ok {
		return err
	}
	known := map[stored.Name]bool{lost.Name: true}
	all := &stored.LostError{Name: lost.Name, Cause: lost.Cause}
	for i, in := range h.inputs {
		if !in.Stored || h.ended[i] {
			continue
		}
		for _, n := range in.Gate.Unreadable() {
			if !known[n] {
				known[n] = true
				all.Also = append(all.Also, n)
			}
		}
	}
	return all
}

// blame names the operator whose input cannot be decoded by the user's own codec; other errors have a place of their own.
func (h *Head) blame(err error) error {
	if _, ok := errors.AsType[*codec.CustomError](err); ok {
		return fault.Of(err, fault.CodeUser, h.chain.Head())
	}
	return err
}

// event takes what input i has said; done: all inputs have ended, and so has the chain.
func (h *Head) event(i int, ev element.Event) (done bool, err error) {
	switch ev.Kind {
	case element.Watermark:
		h.marks.Set(i, ev.Time)
	case element.Idle:
		h.marks.Rest(i)
	case element.End:
		if err := h.end(i, ev.Time); err != nil {
			return false, err
		}
	}
	out, ok := h.marks.Next()
	if !ok {
		return false, nil
	}
	if out.Kind != element.End {
		return false, h.chain.Control(out)
	}
	if out.Time == element.MaxTime {
		if err := h.catchUp(); err != nil {
			return false, err
		}
	}
	return true, h.chain.Control(out)
}

// catchUp lets time come to the newest promise of any channel, before it ends. Each source comes to its newest record at its end;
// the minimum of channels that end one after the other depends on which one is last, and what timers set for times of records
// would.
func (h *Head) catchUp() error {
	newest := element.MinTime
	for i := range h.inputs {
		newest = max(newest, h.inputs[i].Gate.Newest())
	}
	if said, _ := h.marks.Said(); newest <= said {
		return nil
	}
	return h.chain.Control(element.Event{Kind: element.Watermark, Time: newest})
}

func (h *Head) end(i int, at element.Time) error {
	h.marks.Finish(i, at)
	h.ended[i] = true
	h.stored = slices.DeleteFunc(h.stored, func(s int) bool { return s == i })
	if err := h.chain.InputEnd(i, len(h.inputs)); err != nil {
		return err
	}
	h.plan() // not before: who is told that this subtask has loaded may rely on its operator knowing it
	return nil
}

// Assigned does nothing: splits are for sources.
func (h *Head) Assigned(*taskpb.AssignSplits) error { return nil }

// OnTime does nothing.
func (h *Head) OnTime(time.Time) (t time.Time, _ error) { return t, nil }

// Position is that of the input in turn.
func (h *Head) Position() string {
	if h.at >= len(h.turns) {
		return ""
	}
	return h.inputs[h.turns[h.at]].Gate.Position()
}

// Received sums up the gates.
func (h *Head) Received() chain.Received {
	r := chain.Received{Records: h.total}
	for i := range h.inputs {
		g := h.inputs[i].Gate.Received()
		r.Bytes += g.Bytes
		r.Stored += g.Stored
	}
	return r
}

// Clock implements chain.Head.
func (h *Head) Clock(c *taskpb.Clock) {
	_, c.Idle = h.marks.Said()
	for i := range h.inputs {
		in := h.inputs[i].Gate.Clock()
		at, state := h.marks.At(i)
		in.WatermarkUs, in.State = int64(at), clockState(state)
		c.Inputs = append(c.Inputs, in)
	}
}

func clockState(s mark.State) taskpb.ClockState {
	switch s {
	case mark.Idle:
		return taskpb.ClockState_CLOCK_IDLE
	case mark.Ended:
		return taskpb.ClockState_CLOCK_ENDED
	}
	return taskpb.ClockState_CLOCK_ACTIVE
}

// Close gives up every gate.
func (h *Head) Close(err error) error {
	for i := range h.inputs {
		h.inputs[i].Gate.Close(err)
	}
	return nil
}
