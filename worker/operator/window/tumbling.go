package window

import (
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/window"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/task"
)

// Tumbling aggregates by key and tumbling window.
func Tumbling[K comparable, In, Acc, Out any](spec window.Tumbling, a Aggregation[K, In, Acc, Out]) task.StageOf[In, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		f, err := newFrame(rt, a.rules())
		if err != nil {
			return nil, nil, err
		}
		o := &tumbling[K, In, Acc, Out]{frame: f, spec: spec, agg: a, out: out}
		o.windows, err = spaces(rt, "windows", a.Registry, o.declare)
		o.uncache()
		return o.push, o, err
	}
}

// cells are what a key has in a window.
type cells[Acc any] struct {
	acc   *state.Value[Acc]
	fired *state.Value[int32] // how often; nil: windows fire once
}

type tumbling[K comparable, In, Acc, Out any] struct {
	frame[K, In]
	spec    window.Tumbling
	agg     Aggregation[K, In, Acc, Out]
	out     task.Push[Out]
	windows *state.Spaces[K, cells[Acc]] // by start

	// cur is the window of the last record: most records follow one of the same window. cur.Start > cur.End: none.
	cur   window.Window
	until element.Time                // that cur takes records
	space *state.Space[K, cells[Acc]] // nil: cur is not open
}

func (o *tumbling[K, In, Acc, Out]) declare(d *state.Directory[K]) (c cells[Acc], err error) {
	if c.acc, err = state.ValueOf[Acc](d, "acc"); err == nil && o.lateness > 0 {
		c.fired, err = counted(d)
	}
	return c, err
}

func (o *tumbling[K, In, Acc, Out]) push(v In) {
	if at := o.at(); at < o.cur.Start || at >= o.cur.End {
		o.cur, o.space = o.spec.Assign(at), nil
		o.until = o.overAt(o.cur)
	}
	k := o.agg.Key(v)
	h := o.hash(k)
	now := o.now(h)
	if o.until <= now {
		o.drop(v)
		return
	}
	if o.space == nil && !o.open() {
		return
	}
	o.space.Dir.Seek(k, h)
	c := &o.space.Handles
	fresh := o.agg.New != nil && !c.acc.Exists()
	acc := c.acc.Ref()
	if fresh {
		*acc = o.agg.New()
	}
	o.agg.Add(acc, v)
	if o.cur.Last() <= now { // it has fired, and still takes records
		at := o.rt.At
		o.emit(k, o.cur, c, acc)
		o.rt.At = at
	}
}

func (o *tumbling[K, In, Acc, Out]) open() bool {
	sp, err := o.windows.Open(int64(o.cur.Start))
	if err != nil {
		o.rt.Fail(err)
		return false
	}
	o.space = sp
	if last := o.cur.Last(); last > o.swept {
		o.expect(last)
	} else {
		o.expect(o.until)
	}
	return true
}

func (o *tumbling[K, In, Acc, Out]) uncache() {
	o.cur, o.space = window.Window{Start: element.MaxTime, End: element.MinTime}, nil
}

// emit gives out the result of a key, with the time of the last instant of the window.
func (o *tumbling[K, In, Acc, Out]) emit(k K, w window.Window, c *cells[Acc], acc *Acc) {
	f := Firing{Window: w}
	if c.fired != nil {
		n := c.fired.Ref()
		f.Pane = int(*n)
		*n++
	}
	o.rt.At = w.Last()
	o.out(o.agg.Result(k, f, acc))
}

// OnWatermark fires every window whose last instant is covered, the oldest first, and forgets those that are over.
func (o *tumbling[K, In, Acc, Out]) OnWatermark(t element.Time) error { return o.watermark(t, o.sweep) }

// OnTime does that by the clock.
func (o *tumbling[K, In, Acc, Out]) OnTime(now time.Time) error { return o.tick(now, o.sweep) }

func (o *tumbling[K, In, Acc, Out]) sweep(t element.Time) error {
	for sp := range o.windows.All() {
		w := o.spec.Assign(element.Time(sp.ID))
		if w.Last() > t {
			o.expect(w.Last())
			break
		}
		if w.Last() > o.swept {
			if err := o.fire(sp, w); err != nil {
				return err
			}
		}
		if over := o.overAt(w); over > t {
			o.expect(over)
			continue
		}
		o.windows.Drop(sp)
		o.uncache()
	}
	return o.windows.Err()
}

func (o *tumbling[K, In, Acc, Out]) fire(sp *state.Space[K, cells[Acc]], w window.Window) error {
	c := &sp.Handles
	return sp.Dir.Each(func(k K) error {
		acc := c.acc.Peek()
		if acc == nil || o.firedBefore(sp.Dir.KeyHash(), w) {
			return nil
		}
		o.emit(k, w, c, acc)
		return o.rt.Stopped()
	})
}

// OnRestored begins with the windows of a checkpoint.
func (o *tumbling[K, In, Acc, Out]) OnRestored() error {
	o.restored()
	o.uncache()
	return o.windows.Err()
}

var (
	_ task.Waker    = (*tumbling[int, int, int, int])(nil)
	_ task.Restorer = (*tumbling[int, int, int, int])(nil)
)
