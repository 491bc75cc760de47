package edge

import (
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/shuffle/stored"
	"github.com/sluiceio/sluice/worker/task/barrier"
	"github.com/sluiceio/sluice/worker/task/mark"
)

// checkpoints is what a head does for them.
type checkpoints struct {
	aligner *barrier.Aligner // over the live channels of all inputs; nil: the subtask takes no part
	base    []int            // by input: number of its first channel
	freeze  func(id element.CheckpointID, since time.Time) error
	since   time.Time // when the alignment under way began
	from    *snapshotpb.SubtaskState
	// behind are what inputs have said that are not open yet, by input: their barriers pass, what else they say waits.
	behind []element.Event
}

// OnAligned implements chain.Head.
func (h *Head) OnAligned(freeze func(element.CheckpointID, time.Time) error) {
	channels := 0
	h.base = make([]int, len(h.inputs))
	for i, in := range h.inputs {
		h.base[i] = channels
		channels += in.Gate.Channels()
	}
	h.aligner, h.freeze, h.behind = barrier.New(channels), freeze, make([]element.Event, len(h.inputs))
	h.plan()
}

// Trigger implements chain.Head.
func (h *Head) Trigger(id element.CheckpointID) error { return h.obey(nil, 0, h.aligner.Trigger(id)) }

// Abort implements chain.Head.
func (h *Head) Abort(id element.CheckpointID) {
	if s := h.aligner.Abort(id); s.Resume {
		h.resume()
	}
}

// Completed implements chain.Head.
func (h *Head) Completed(element.CheckpointID) {}

// arrived looks for a barrier or an end that the last step of input i has brought.
func (h *Head) arrived(i int) error {
	if h.aligner == nil {
		return nil
	}
	g := h.inputs[i].Gate
	switch ch, ev := g.Arrived(); ev.Kind {
	case element.Barrier:
		return h.obey(g, ch, h.aligner.Barrier(h.base[i]+ch, ev.Checkpoint))
	case element.End:
		return h.obey(g, ch, h.aligner.End(h.base[i]+ch))
	}
	return nil
}

func (h *Head) obey(g Gate, ch int, s barrier.Step) error {
	if s.Began {
		h.since = time.Now()
	}
	if s.Resume {
		h.resume()
	}
	if s.Hold {
		g.Hold(ch)
	}
	if s.Freeze == 0 {
		return nil
	}
	since := h.since
	h.since = time.Time{}
	return h.freeze(s.Freeze, since)
}

func (h *Head) resume() {
	for i := range h.inputs {
		h.inputs[i].Gate.Resume()
	}
}

// peeks reports whether an input that is not open is looked at for barriers: whoever feeds it emits nothing before the gate opens.
func (h *Head) peeks(input int) bool {
	return h.aligner != nil && !h.inputs[input].Stored && !h.ended[input] && h.behind[input].Kind != element.End && !h.open(input)
}

// later keeps what an input says that is not open yet. It is said when the input is.
func (h *Head) later(i int, ev element.Event) {
	if h.behind[i].Kind == element.Watermark && ev.Kind == element.Idle {
		return // it takes nothing back of what was promised
	}
	h.behind[i] = ev
}

// overdue is an open input that has said something while it was not.
func (h *Head) overdue() (input int, ev element.Event) {
	for i, ev := range h.behind {
		if ev.Kind != element.None && h.open(i) {
			h.behind[i] = element.Event{}
			return i, ev
		}
	}
	return 0, element.Event{}
}

// Save implements chain.Head.
func (h *Head) Save(_ element.CheckpointID, s *snapshotpb.SubtaskState) error {
	said, _ := h.marks.Said()
	s.WatermarkUs, s.Loaded = int64(said), h.loaded
	for i, in := range h.inputs {
		at, state := h.marks.At(i)
		s.Clocks = append(s.Clocks, &snapshotpb.InputClock{
			Input: int32(i), WatermarkUs: int64(at), Idle: state == mark.Idle, Ended: h.ended[i],
		})
		s.Positions = append(s.Positions, in.Gate.Positions()...)
	}
	return nil
}

// From makes the head begin where a checkpoint was.
func (h *Head) From(s *snapshotpb.SubtaskState) { h.from = s }

// Restore implements chain.Head. What the inputs had promised they have promised still; none of it is late twice.
func (h *Head) Restore() error {
	if h.from == nil {
		return nil
	}
	for _, c := range h.from.Clocks {
		if i := int(c.Input); i < len(h.inputs) && !c.Ended {
			h.marks.Set(i, element.Time(c.WatermarkUs))
			h.inputs[i].Gate.Promised(element.Time(c.WatermarkUs))
		}
	}
	said := element.Time(h.from.WatermarkUs)
	h.from = nil
	if said == element.MinTime {
		return nil
	}
	h.marks.Restore(said)
	return h.chain.Control(element.Event{Kind: element.Watermark, Time: said})
}

// Ended is the gate of an input whose stored results were read to their end.
func Ended(read []*snapshotpb.Position) Gate { return &closedGate{read: read} }

// positions of a stored gate: those producers that were read, and the one that is.
type positions struct {
	names []stored.Name
	at    func(rest int) stored.Position // nil: nothing is stored
	from  []*snapshotpb.Position         // where the attempt began
}

// Positions implements Gate.
func (g *gate[T]) Positions() (out []*snapshotpb.Position) {
	if g.pos.at == nil {
		return nil
	}
	rest := 0
	if g.holding {
		rest = g.in.Batch.Len() - g.at
	}
	at := g.pos.at(rest)
	for i, n := range g.pos.names {
		p := &snapshotpb.Position{Edge: n.Edge, Producer: n.Producer, Attempt: n.Attempt, RegionEpoch: n.RegionEpoch, Records: g.before[i]}
		for _, f := range g.pos.from {
			if f.Producer == n.Producer && (f.Attempt == n.Attempt || f.Ended) {
				p.Records += f.Records
			}
		}
		switch {
		case i < at.Producer:
			p.Ended = true
		case i == at.Producer:
			p.Block, p.Offset = at.Block, at.Offset
			if g.holding {
				p.Records += int64(g.at)
			}
		default:
			return out
		}
		out = append(out, p)
	}
	return out
}
