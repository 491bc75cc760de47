package source

import (
	"fmt"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/worker/task/barrier"
	"github.com/sluiceio/sluice/worker/task/fault"
	"github.com/sluiceio/sluice/worker/task/mark"
)

// OnAligned implements chain.Head. A source has no channels: it is aligned by the trigger.
func (h *head[T]) OnAligned(freeze func(element.CheckpointID, time.Time) error) {
	h.aligner, h.freeze = barrier.New(0), freeze
}

// Trigger implements chain.Head.
func (h *head[T]) Trigger(id element.CheckpointID) error {
	if s := h.aligner.Trigger(id); s.Freeze != 0 {
		return h.freeze(s.Freeze, time.Time{})
	}
	return nil
}

// Abort implements chain.Head.
func (h *head[T]) Abort(id element.CheckpointID) { h.aligner.Abort(id) }

// Completed lets the reader acknowledge upstream. A failure is no loss: what is acknowledged later is acknowledged, too.
func (h *head[T]) Completed(id element.CheckpointID) {
	if err := fault.Protect(func() error { return h.rd.Committed(h.rt.Ctx, id) }); err != nil {
		h.rt.Task.Log.Warn("the source could not be told of a checkpoint", "checkpoint", uint64(id), "error", err)
	}
}

// Save implements chain.Head.
func (h *head[T]) Save(id element.CheckpointID, s *snapshotpb.SubtaskState) error {
	splits, err := h.rd.Snapshot(id)
	if err != nil {
		return fault.Of(fmt.Errorf("snapshot: %w", err), fault.CodeSource, h.rt.Task.Operator)
	}
	said, _ := h.marks.Said()
	state := &snapshotpb.SourceState{Have: int32(h.before + h.have), WatermarkUs: int64(said), Phase: h.phase, PastUs: int64(h.past)}
	at := make(map[string]int, len(h.ids))
	for i, id := range h.ids {
		at[id] = i
	}
	for _, sp := range splits {
		i, known := at[sp.ID]
		if !known {
			return fault.Of(fmt.Errorf("snapshot: the reader was never given split %s", sp.ID), fault.CodeSource, h.rt.Task.Operator)
		}
		w, was := h.marks.At(1 + i)
		state.Splits = append(state.Splits, &snapshotpb.SplitState{
			Split: &jobpb.Split{Id: sp.ID, Version: uint32(sp.Version), Data: sp.Data, Phase: h.phase},
			Index: h.index[i], WatermarkUs: int64(w), NewestUs: int64(h.newest[i]), Idle: was == mark.Idle,
		})
	}
	s.WatermarkUs = int64(said)
	own := h.rt.Task.Operator
	for _, o := range s.Operators {
		if o.Operator == own {
			o.Source = state
			return nil
		}
	}
	s.Operators = append(s.Operators, &snapshotpb.OperatorState{Operator: own, Source: state})
	return nil
}

// begin takes the splits of a checkpoint, with their positions.
func (h *head[T]) begin(from *snapshotpb.SourceState) error {
	splits := make([]connector.Split, len(from.Splits))
	for i, s := range from.Splits {
		splits[i] = connector.Split{ID: s.Split.GetId(), Version: uint16(s.Split.GetVersion()), Data: s.Split.GetData()}
	}
	now := h.rt.Now()
	if len(splits) > 0 {
		if err := h.rd.Assign(splits); err != nil {
			return fmt.Errorf("assign restored splits: %w", err)
		}
	}
	for i, s := range from.Splits {
		h.add(s.Split.GetPhase(), now)
		h.ids, h.index = append(h.ids, splits[i].ID), append(h.index, s.Index)
		h.newest[i] = element.Time(s.NewestUs)
		if h.marking {
			h.marks.Set(1+i, element.Time(s.WatermarkUs))
		}
		if s.Idle {
			h.marks.Rest(1 + i)
		}
	}
	h.before, h.dry = int(from.Have)-len(splits), len(splits) == 0
	h.enter(from.Phase)
	h.past, h.floor = max(h.past, element.Time(from.PastUs)), element.Time(from.WatermarkUs)
	if !h.bounded && h.have > 0 && h.lastPhase() {
		h.marks.Rest(unassigned)
	}
	if !h.marking {
		h.silence()
	}
	return nil
}

// Restore implements chain.Head.
func (h *head[T]) Restore() error {
	if h.floor > element.MinTime {
		h.marks.Restore(h.floor)
		if err := h.chain.Control(element.Event{Kind: element.Watermark, Time: h.floor}); err != nil {
			return err
		}
	}
	return h.say() // who was idle is so still
}
