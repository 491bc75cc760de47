package snapshotpb

import (
	"errors"
	"fmt"
)

// Bounds of what a task process may send.
const (
	MaxOperators = 1 << 10 // of one subtask
	MaxParts     = 1 << 20 // of one operator
	MaxSegments  = 1 << 16 // of one acknowledgement
)

// Validate checks what an attempt says, as far as that needs no plan and no facts; the error names the field.
func (a *Ack) Validate() error {
	switch {
	case a == nil:
		return errors.New("empty")
	case a.Checkpoint == 0 || a.Base >= a.Checkpoint:
		return fmt.Errorf("checkpoint: %d with base %d", a.Checkpoint, a.Base)
	case a.Chain < 0 || a.Index < 0 || a.Region < 0 || a.Attempt == 0:
		return fmt.Errorf("attempt: %d of subtask %d[%d], region %d", a.Attempt, a.Chain, a.Index, a.Region)
	case a.Declined != nil:
		return nil
	case a.State == nil:
		return errors.New("state: empty")
	case len(a.Segments) > MaxSegments || len(a.State.Operators) > MaxOperators:
		return fmt.Errorf("segments, state.operators: %d and %d", len(a.Segments), len(a.State.Operators))
	}
	for i, s := range a.Segments {
		if o := s.GetObject(); o.GetName() == "" || o.Size < 0 {
			return fmt.Errorf("segments[%d]: %.100q of %d bytes", i, o.GetName(), o.GetSize())
		}
	}
	for i, o := range a.State.Operators {
		if o == nil || len(o.Parts) > MaxParts {
			return fmt.Errorf("state.operators[%d]: empty, or %d parts", i, len(o.GetParts()))
		}
		for k, p := range o.Parts {
			if p == nil || p.Offset < 0 || p.Size < 0 || p.Segment == "" {
				return fmt.Errorf("state.operators[%d].parts[%d]: %v", i, k, p)
			}
		}
		for k, c := range o.Committables {
			if c == nil {
				return fmt.Errorf("state.operators[%d].committables[%d]: empty", i, k)
			}
			if err := c.Validate(); err != nil {
				return fmt.Errorf("state.operators[%d].committables[%d]: %w", i, k, err)
			}
		}
	}
	return nil
}
