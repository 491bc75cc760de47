package blame

import (
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// everywhere stands for all operators of a chain.
const everywhere = -1

// blame begins with the subtask of the chain that is the furthest behind.
func (v *view) blame(chain int32) *apipb.Blame {
	at := v.byChain[chain][0]
	for _, t := range v.byChain[chain][1:] {
		if behind(t, at) {
			at = t
		}
	}
	b := &apipb.Blame{}
	op := int32(everywhere)
	for {
		step := &apipb.BlameStep{Operator: v.plan.Chains[at.Chain].Name, Chain: at.Chain, Index: at.Index, WatermarkUs: at.watermark()}
		if at.ends() {
			step.WatermarkUs = End
		}
		b.Steps = append(b.Steps, step)
		next, from := v.look(b, at, op)
		if b.Cause != apipb.BlameCause_BLAME_UNSPECIFIED {
			return b
		}
		step.Input, step.From = v.id(from), next.Index
		at, op = next, from
	}
}

// behind: a is further behind than b. What does not run comes first, then who has a clock that counts, then who is idle.
func behind(a, b subtask) bool {
	if x, y := rank(a), rank(b); x != y {
		return x < y
	}
	return a.watermark() < b.watermark()
}

func rank(t subtask) int {
	switch {
	case t.ends():
		return 3
	case t.State != jobpb.SubtaskState_SUBTASK_RUNNING:
		return 0
	case t.clock.GetIdle():
		return 2
	}
	return 1
}

// look finds what holds the clock behind operator op of a subtask: the cause, or the subtask to go on with and the operator of
// it whose records are waited for.
func (v *view) look(b *apipb.Blame, at subtask, op int32) (next subtask, from int32) {
	c := at.clock
	switch {
	case at.ends():
		b.Cause = apipb.BlameCause_BLAME_ENDED
	case at.State != jobpb.SubtaskState_SUBTASK_RUNNING:
		b.Cause, b.State, b.Operator = apipb.BlameCause_BLAME_NOT_RUNNING, at.State, v.head(at.Chain)
	case c == nil:
		b.Cause, b.Operator = apipb.BlameCause_BLAME_UNKNOWN, v.head(at.Chain)
	case !c.Idle && v.held(c, op) != nil:
		b.Cause, b.Operator = apipb.BlameCause_BLAME_OPERATOR, v.held(c, op).Operator
	case c.Source != nil:
		v.source(b, at)
	default:
		return v.input(b, at)
	}
	return next, from
}

// head is the id of the operator at the head of a chain.
func (v *view) head(chain int32) string { return v.id(v.plan.Chains[chain].Operators[0]) }

// held is the operator in front of op, or op itself, that has passed on the oldest watermark; nil: none holds one back.
func (v *view) held(c *taskpb.Clock, op int32) (oldest *taskpb.HeldClock) {
	for _, h := range c.Held {
		if !v.passes(h.Operator, op) {
			continue
		}
		if oldest == nil || h.WatermarkUs < oldest.WatermarkUs {
			oldest = h
		}
	}
	return oldest
}

// passes: what op emits has passed the operator named.
func (v *view) passes(name string, op int32) bool {
	if op == everywhere {
		return true
	}
	by, known := v.named[name]
	for known && op != by {
		above, ok := v.above[op]
		if !ok {
			return false
		}
		op = above
	}
	return known
}

// source finds the split that holds the clock of a source.
func (v *view) source(b *apipb.Blame, at subtask) {
	c, s := at.clock, at.clock.Source
	b.Operator, b.Bounded, b.IdleAfterUs = v.head(at.Chain), s.Bounded, s.IdleAfterUs
	switch {
	case c.WatermarkUs == End:
		b.Cause = apipb.BlameCause_BLAME_ENDED
	case !s.Marking:
		b.Cause = apipb.BlameCause_BLAME_NO_TIME
	case c.Idle:
		b.Cause = apipb.BlameCause_BLAME_IDLE
	case s.Awaits || len(s.Splits) == 0 || s.Splits[0].State == taskpb.ClockState_CLOCK_IDLE:
		b.Cause = apipb.BlameCause_BLAME_AWAITS_SPLITS
	default:
		v.split(b, c, s.Splits[0])
	}
}

func (v *view) split(b *apipb.Blame, c *taskpb.Clock, x *taskpb.SplitClock) {
	b.Split, b.Cause = x, apipb.BlameCause_BLAME_SPLIT_BEHIND
	switch {
	case x.State == taskpb.ClockState_CLOCK_PAUSED:
	case x.RecordUs == 0:
		b.Cause, b.SilentUs = apipb.BlameCause_BLAME_SPLIT_SILENT, -1
	case c.ReadUs-x.RecordUs >= silence:
		b.Cause, b.SilentUs = apipb.BlameCause_BLAME_SPLIT_SILENT, c.ReadUs-x.RecordUs
	}
}

// input finds the input of an operator that holds its clock, and who feeds that.
func (v *view) input(b *apipb.Blame, at subtask) (next subtask, from int32) {
	b.Operator = v.head(at.Chain)
	i, state := holding(at.clock)
	if i < 0 || i >= len(v.edges[at.Chain]) || v.edges[at.Chain][i] == nil {
		b.Cause = apipb.BlameCause_BLAME_ENDED
		return next, from
	}
	e, in := v.edges[at.Chain][i], at.clock.Inputs[i]
	producers := v.byChain[e.FromChain]
	switch {
	case e.Exchange == jobpb.ExchangeKind_EXCHANGE_BLOCKING:
		b.Cause, b.Operator = apipb.BlameCause_BLAME_STORED, v.id(e.FromOperator)
		return next, from
	case state == taskpb.ClockState_CLOCK_IDLE:
		for _, p := range producers {
			if p.clock.GetIdle() {
				return p, e.FromOperator
			}
		}
		b.Cause = apipb.BlameCause_BLAME_IDLE
		return next, from
	case in.From < 0 || int(in.From) >= len(producers):
		b.Cause = apipb.BlameCause_BLAME_UNKNOWN
		return next, from
	}
	p := producers[in.From]
	if v.waits(at.clock, in.WatermarkUs, p, e.FromOperator) {
		b.Cause = apipb.BlameCause_BLAME_BACKLOG
		return next, from
	}
	return p, e.FromOperator
}

// holding is the input with the lowest watermark among the active ones, or if there is none an idle one; -1: all have ended.
func holding(c *taskpb.Clock) (input int, state taskpb.ClockState) {
	input = -1
	for i, in := range c.Inputs {
		switch {
		case in.State == taskpb.ClockState_CLOCK_ENDED:
			continue
		case input < 0, state == taskpb.ClockState_CLOCK_IDLE && in.State == taskpb.ClockState_CLOCK_ACTIVE:
		case state == in.State && in.WatermarkUs < c.Inputs[input].WatermarkUs:
		default:
			continue
		}
		input, state = i, in.State
	}
	return input, state
}

// waits: the producer had passed a watermark on, before the consumer told its own, that is most of the way ahead of it: what
// the consumer misses waits in front of it. A small difference is what is under way at any time.
func (v *view) waits(c *taskpb.Clock, has int64, p subtask, op int32) bool {
	if p.clock == nil || p.clock.Idle || p.clock.ReadUs > c.ReadUs || v.newest == NoTime {
		return false
	}
	said := p.clock.WatermarkUs
	if h := v.held(p.clock, op); h != nil {
		said = min(said, h.WatermarkUs)
	}
	if has == NoTime || said == NoTime {
		return has < said
	}
	return said > has && said-has > v.newest-said
}
