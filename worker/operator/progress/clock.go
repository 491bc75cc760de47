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

// Clock is the time that each key group of an operator has come to: event time, or that of the machine. What the attempt
// itself has come to, now, is told by the operator.
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
	rt.Keep(dir.Table())
	c := &Clock{rt: rt, dir: dir}
	c.at, err = state.ValueOf[element.Time](dir, "watermark")
	return c, err
}

// Ahead reports that some key groups have come further than the watermark of the attempt.
func (c *Clock) Ahead() bool { return c.restored != nil }

// At is the time that the key group of a key with this routing hash has come to.
func (c *Clock) At(hash uint64, now element.Time) element.Time {
	if c.restored == nil {
		return now
	}
	return max(now, c.Had(hash))
}

// Had is the time that the key group of a key with this routing hash had come to at the restore.
func (c *Clock) Had(hash uint64) element.Time {
	return c.had(codec.KeyGroup(hash, c.rt.MaxParallelism))
}

func (c *Clock) had(group int) element.Time {
	if i := group - c.rt.KeyGroups.First; i >= 0 && i < len(c.restored) {
		return c.restored[i]
	}
	return element.MinTime
}

// Pass takes note of what the attempt has come to.
func (c *Clock) Pass(t element.Time) {
	if t >= c.most {
		c.restored = nil
	}
}

// Barrier puts down what the key groups have come to. Called before the tables are frozen.
func (c *Clock) Barrier(now element.Time) {
	for g := c.rt.KeyGroups.First; g < c.rt.KeyGroups.End; g++ {
		at := max(now, c.had(g))
		c.dir.Seek(Group(g), c.dir.Hash(Group(g)))
		if at > element.MinTime && c.at.Get() != at {
			c.at.Set(at)
		}
	}
}

// Restored reads what was put down. Called when the tables hold a completed checkpoint.
func (c *Clock) Restored(now element.Time) {
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
	if c.most > now {
		c.restored = found
	}
}
