package source

import (
	"cmp"
	"slices"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/task/mark"
)

// Clock implements chain.Head.
func (h *head[T]) Clock(c *taskpb.Clock) {
	_, c.Idle = h.marks.Said()
	s := &taskpb.SourceClock{Marking: h.marking, Bounded: h.bounded || !h.lastPhase(), NewestUs: int64(element.MinTime)}
	if h.idles() {
		s.IdleAfterUs = h.opts.IdleAfter.Microseconds()
	}
	_, state := h.marks.At(unassigned)
	s.Awaits = h.marking && state == mark.Active
	var open []int
	for i := range h.have {
		s.NewestUs = max(s.NewestUs, int64(h.newest[i]))
		switch _, state := h.marks.At(1 + i); state {
		case mark.Active:
			s.Active++
			if h.marking && h.pace.held[i] {
				s.Paused++
			}
		case mark.Idle:
			s.Idle++
		case mark.Ended:
			s.Ended++
			continue
		}
		open = append(open, i)
	}
	if m := h.pace.member; m != nil {
		s.Group, s.MaxDriftUs, s.GroupUs = h.opts.Group, h.opts.MaxDrift.Microseconds(), int64(h.pace.group)
	}
	slices.SortFunc(open, h.compareHold)
	for _, i := range open[:min(len(open), taskpb.MaxClockSplits)] {
		s.Splits = append(s.Splits, h.splitClock(i))
	}
	c.Source = s
}

// compareHold puts splits that hold the clock first.
func (h *head[T]) compareHold(a, b int) int {
	at, of := h.marks.At(1 + a)
	bt, bf := h.marks.At(1 + b)
	return cmp.Or(cmp.Compare(of, bf), cmp.Compare(at, bt), cmp.Compare(a, b))
}

func (h *head[T]) splitClock(i int) *taskpb.SplitClock {
	at, state := h.marks.At(1 + i)
	x := &taskpb.SplitClock{Id: h.ids[i], WatermarkUs: int64(at), NewestUs: int64(h.newest[i]), State: taskpb.ClockState_CLOCK_ACTIVE}
	switch {
	case state == mark.Idle:
		x.State = taskpb.ClockState_CLOCK_IDLE
	case h.marking && h.pace.held[i]:
		x.State = taskpb.ClockState_CLOCK_PAUSED
	}
	if h.marking && !h.last[i].IsZero() {
		x.RecordUs = h.last[i].UnixMicro()
	}
	return x
}
