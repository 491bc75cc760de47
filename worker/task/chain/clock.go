package chain

import (
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// Clock is where the event time of the subtask stands, and why. Its attempt is the caller's to fill in.
func (c *Chain) Clock(h Head) *taskpb.Clock {
	out := &taskpb.Clock{ReadUs: c.nodes[0].Runtime.Now().UnixMicro(), WatermarkUs: int64(c.cur.watermark)}
	h.Clock(out)
	for i := range c.nodes {
		n := &c.nodes[i]
		if n.relay != nil && n.passed < c.cur.watermark {
			out.Held = append(out.Held, &taskpb.HeldClock{Operator: n.ID, WatermarkUs: int64(n.passed)})
		}
		if n.relay == nil && n.hides > 0 {
			out.Held = append(out.Held, &taskpb.HeldClock{Operator: n.ID, WatermarkUs: int64(element.MinTime)})
		}
	}
	return out
}
