package chain

import "sync/atomic"

// Count is a number that user code counts, on the goroutine of its subtask. It is published with the other counters.
type Count struct {
	Operator, Name string

	n     int64
	shown atomic.Int64
}

// Inc adds n, which may be negative.
func (c *Count) Inc(n int64) { c.n += n }

// Publish lets Shown tell what was counted so far. Called by the loop.
func (c *Count) Publish() { c.shown.Store(c.n) }

// Shown is the number as it was published last. Any goroutine may call it.
func (c *Count) Shown() int64 { return c.shown.Load() }

// Count makes a count of the operator, while it is built.
func (rt *Runtime) Count(name string) *Count {
	c := &Count{Operator: rt.Task.Operator, Name: name}
	rt.counts = append(rt.counts, c)
	return c
}

// Counts are those of all operators of the subtask.
func (c *Cursor) Counts() []*Count { return c.counts }
