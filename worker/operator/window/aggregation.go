package window

import (
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/window"
	"github.com/sluiceio/sluice/worker/operator/table"
	"github.com/sluiceio/sluice/worker/task"
)

// Aggregation is what is computed per key and window. Its functions are shared by all subtasks of a process.
type Aggregation[K comparable, In, Acc, Out any] struct {
	Key func(In) K
	// New is the accumulator of a key without records; nil: the zero value.
	New func() Acc
	Add func(acc *Acc, v In)
	// Merge combines the accumulators of two parts of a window, a before b; it may change and return a, and keep what b
	// leads to. Needed where windows overlap or merge.
	Merge func(a, b Acc) Acc
	// Clone makes a copy that shares nothing with its argument; nil: a plain copy does not.
	Clone func(Acc) (Acc, error)
	// Result is called once per key when its window fires, and again for every late record that is allowed. It must not
	// change the accumulator.
	Result func(k K, f Firing, acc *Acc) Out
	// Lateness is how long after its end a window still takes records, in microseconds: each makes it fire again.
	Lateness element.Time
	// LateOutput names the side output that takes later records; empty: they are dropped.
	LateOutput string
}

// Firing says which window a result is of, and the how manieth one it is: 0 is the one on time, or the first.
type Firing struct {
	window.Window
	Pane int
}

// common is what the operators for all kinds of windows share.
type common[K comparable, In, Acc, Out any] struct {
	task.Base
	rt   *task.Runtime
	out  task.Push[Out]
	late task.Push[In] // nil: late records are dropped
	hash func(K) uint64
	agg  Aggregation[K, In, Acc, Out]
}

func newCommon[K comparable, In, Acc, Out any](rt *task.Runtime, out task.Push[Out], a Aggregation[K, In, Acc, Out]) (c common[K, In, Acc, Out], err error) {
	c = common[K, In, Acc, Out]{rt: rt, out: out, agg: a}
	if c.hash, err = codec.Hasher[K](); err != nil {
		return c, err
	}
	if a.LateOutput != "" {
		c.late, err = task.SideOutput[In](rt, a.LateOutput)
	}
	return c, err
}

// isLate reports whether a window takes no record any more.
func (c *common[K, In, Acc, Out]) isLate(w window.Window) bool { return c.expired(w, c.rt.Watermark) }

// expired reports whether a window that is done with at watermark t: its end and the allowed lateness have passed.
func (c *common[K, In, Acc, Out]) expired(w window.Window, t element.Time) bool {
	until := w.Last() + c.agg.Lateness
	if until < w.Last() { // beyond the end of time
		until = element.MaxTime
	}
	return until <= t
}

// drop counts a late record, and passes it on if somebody wants it.
func (c *common[K, In, Acc, Out]) drop(v In) {
	c.rt.Counters.Late++
	if c.late != nil {
		c.late(v)
	}
}

// emit gives out the result of a window. While a record is being handled, at is its time, which is put back.
func (c *common[K, In, Acc, Out]) emit(k K, f Firing, acc *Acc) {
	at := c.rt.At
	c.rt.At = f.Last()
	c.out(c.agg.Result(k, f, acc))
	c.rt.At = at
}

// merge adds from to into, which may be changed; from stays as it is.
func (c *common[K, In, Acc, Out]) merge(into, from *Acc) error {
	if c.agg.Clone == nil {
		*into = c.agg.Merge(*into, *from)
		return nil
	}
	own, err := c.agg.Clone(*from)
	if err == nil {
		*into = c.agg.Merge(*into, own)
	}
	return err
}

// copy makes into a copy of from that shares nothing with it.
func (c *common[K, In, Acc, Out]) copy(into, from *Acc) (err error) {
	if c.agg.Clone == nil {
		*into = *from
		return nil
	}
	*into, err = c.agg.Clone(*from)
	return err
}

// firings counts for one window how often it has fired again, by key.
type firings[K comparable] struct{ again *table.Table[K, int32] }

// next is the number of the next firing for a key, after the first.
func (f *firings[K]) next(size *int64, k K, h uint64) int {
	if f.again == nil {
		f.again = table.New[K, int32](size)
	}
	n, _ := f.again.Find(k, h)
	*n++
	return int(*n)
}

func (f *firings[K]) release() {
	if f.again != nil {
		f.again.Release()
		f.again = nil
	}
}
