package progress

import (
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/task"
)

// Group is a key group as a key of its own.
type Group uint16

// KeyGroup tells the directory where it belongs.
func (g Group) KeyGroup() int { return int(g) }

// Clock is the event time that each key group of an operator has come to.
type Clock struct {
	rt       *task.Runtime
	dir      *state.Directory[Group]
	at       *state.Value[element.Time]
	restored []element.Time // by key group of the subtask; nil: the watermark has passed them all
	most     element.Time   // of restored
}

// Open makes the clock of an operator, as one of its tables.
func Open(rt *task.Runtime) (*Clock, error) {
	o := rt.Options("progress", nil)
	o.Budget, o.Overflow = nil, nil
	dir, err := state.NewDirectory[Group](o)
	if err != nil {
		return nil, err
	}
	rt.Keep(dir)
	c := &Clock{rt: rt, dir: dir}
	c.at, err = state.ValueOf[element.Time](dir, "watermark")
	return c, err
}

// Ahead reports that some key groups have come further than the watermark of the attempt.
func (c *Clock) Ahead() bool { return c.restored != nil }

// At is the time that the key group of a key with this routing hash has come to.
func (c *Clock) At(hash uint64) element.Time {
	if c.restored == nil {
		return c.rt.Watermark
	}
	return c.of(codec.KeyGroup(hash, c.rt.MaxParallelism))
}

func (c *Clock) of(group int) element.Time {
	if i := group - c.rt.KeyGroups.First; i >= 0 && i < len(c.restored) {
		return max(c.rt.Watermark, c.restored[i])
	}
	return c.rt.Watermark
}

// Pass takes note of a watermark.
func (c *Clock) Pass(t element.Time) {
	if t >= c.most {
		c.restored = nil
	}
}

// Barrier puts down what the key groups have come to. Called before the tables are frozen.
func (c *Clock) Barrier() {
	for g := c.rt.KeyGroups.First; g < c.rt.KeyGroups.End; g++ {
		now := c.of(g)
		c.dir.Seek(Group(g), c.dir.Hash(Group(g)))
		if now > element.MinTime && c.at.Get() != now {
			c.at.Set(now)
		}
	}
}

// Restored reads what was put down. Called when the tables hold a completed checkpoint.
func (c *Clock) Restored() {
	c.restored, c.most = nil, element.MinTime
	found := make([]element.Time, c.rt.KeyGroups.End-c.rt.KeyGroups.First)
	for i := range found {
		g := Group(c.rt.KeyGroups.First + i)
		c.dir.Seek(g, c.dir.Hash(g))
		at, ok := c.at.Load()
		if !ok {
			at = element.MinTime
		}
		found[i] = at
		c.most = max(c.most, at)
	}
	if c.most > c.rt.Watermark {
		c.restored = found
	}
}
