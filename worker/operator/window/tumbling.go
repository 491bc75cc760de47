package window

import (
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/window"
	"github.com/sluiceio/sluice/worker/operator/ahead"
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
		o := &tumbling[K, Acc]{times: f.times, spec: spec, fresh: a.New}
		o.result = func(k K, fire Firing, acc *Acc) { out(a.Result(k, fire, acc)) }
		o.windows, err = spaces(rt, "windows", a.Registry, o.declare)
		o.uncache()
		keyed := ahead.Keys(rt, f.key, f.hash, o.prefetch)
		return func(v In) {
			k, h := keyed(v)
			acc := o.enter(k, h)
			if acc == nil {
				if o.isLate {
					drop(rt, f.late, v)
				}
				return
			}
			a.Add(acc, v)
			if o.again {
				o.refire(k, acc)
			}
		}, o, err
	}
}

// cells are what a key has in a window.
type cells[Acc any] struct {
	acc   *state.Value[Acc]
	fired *state.Value[int32] // how often; nil: windows fire once
}

// tumbling knows neither what comes in nor what goes out: it is compiled for each type of keys and accumulators. For the same
// reason a namespace has a pointer to its handles, which all have one shape.
type tumbling[K comparable, Acc any] struct {
	times
	spec    window.Tumbling
	fresh   func() Acc // nil: the zero value
	result  func(K, Firing, *Acc)
	windows *state.Spaces[K, *cells[Acc]] // by start

	// cur is the window of the last record: most records follow one of the same window. cur.Start > cur.End: none.
	cur   window.Window
	until element.Time                 // that cur takes records
	space *state.Space[K, *cells[Acc]] // nil: cur is not open
	fires *state.Directory[K]          // whose keys are emitted
	// isLate and again are about the last record: it was late; its window has fired, and still takes records.
	isLate, again bool
}

func (o *tumbling[K, Acc]) declare(d *state.Directory[K]) (_ *cells[Acc], err error) {
	c := new(cells[Acc])
	if c.acc, err = state.ValueOf[Acc](d, "acc"); err == nil && o.lateness > 0 {
		c.fired, err = counted(d)
	}
	return c, err
}

// enter is the accumulator for a record of a key at the present time; nil: it is late, or the attempt fails.
func (o *tumbling[K, Acc]) enter(k K, h uint64) *Acc {
	if at := o.at(); at < o.cur.Start || at >= o.cur.End {
		o.cur, o.space = o.spec.Assign(at), nil
		o.until = o.overAt(o.cur)
	}
	now := o.now(h)
	o.isLate = o.until <= now
	if o.isLate || o.space == nil && !o.open() {
		return nil
	}
	o.space.Dir.Seek(k, h)
	c := o.space.Handles
	fresh := o.fresh != nil && !c.acc.Exists()
	acc := c.acc.Ref()
	if fresh {
		*acc = o.fresh()
	}
	o.again = o.cur.Last() <= now
	return acc
}

// prefetch takes records to be in the window of the last one, as most are.
func (o *tumbling[K, Acc]) prefetch(a *state.Ahead[K]) {
	if o.space != nil {
		o.space.Dir.Prefetch(a)
	}
}

// refire emits the current window of a key again, for a record that came late.
func (o *tumbling[K, Acc]) refire(k K, acc *Acc) {
	at := o.rt.At
	o.emit(k, o.cur, o.space.Handles, acc)
	o.rt.At = at
}

func (o *tumbling[K, Acc]) open() bool {
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

func (o *tumbling[K, Acc]) uncache() {
	o.cur, o.space = window.Window{Start: element.MaxTime, End: element.MinTime}, nil
}

// emit gives out the result of a key, with the time of the last instant of the window.
func (o *tumbling[K, Acc]) emit(k K, w window.Window, c *cells[Acc], acc *Acc) {
	f := Firing{Window: w}
	if c.fired != nil {
		n := c.fired.Ref()
		f.Pane = int(*n)
		*n++
	}
	o.rt.At = w.Last()
	o.result(k, f, acc)
}

// OnWatermark fires every window whose last instant is covered, the oldest first, and forgets those that are over.
func (o *tumbling[K, Acc]) OnWatermark(t element.Time) error { return o.watermark(t, o.sweep) }

// OnTime does that by the clock.
func (o *tumbling[K, Acc]) OnTime(now time.Time) error { return o.tick(now, o.sweep) }

func (o *tumbling[K, Acc]) sweep(t element.Time) error {
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

func (o *tumbling[K, Acc]) fire(sp *state.Space[K, *cells[Acc]], w window.Window) error {
	c := sp.Handles
	o.fires = sp.Dir
	o.emits(w)
	err := sp.Dir.Each(func(k K) error {
		acc := c.acc.Peek()
		if acc == nil || o.firedBefore(sp.Dir.KeyHash(), w) {
			return nil
		}
		o.emit(k, w, c, acc)
		return o.rt.Stopped()
	})
	if err == nil {
		o.emitted()
	}
	return err
}

// Occasion is the window and the key whose result is emitted.
func (o *tumbling[K, Acc]) Occasion() string {
	if !o.emitting {
		return ""
	}
	return o.occasion(o.fires.Key())
}

// OnRestored begins with the windows of a checkpoint.
func (o *tumbling[K, Acc]) OnRestored() error {
	o.restored()
	o.uncache()
	return o.windows.Err()
}

var (
	_ task.Waker      = (*tumbling[int, int])(nil)
	_ task.Restorer   = (*tumbling[int, int])(nil)
	_ task.Occasioned = (*tumbling[int, int])(nil)
)
