package window

import (
	"iter"
	"slices"
	"time"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/window"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/task"
)

// Gathering is what is done with all records of a key and window. Its functions are shared by all subtasks of a process.
type Gathering[K comparable, In, Out any] struct {
	Key func(In) K
	// Each is called once per key when its window fires, and again for every late record that is allowed. vs may be ranged
	// over more than once; the records are in the order of their panes, and within a pane in that of arrival.
	Each func(k K, f Firing, vs iter.Seq[In], emit func(Out)) error
	// Lateness is how long after its end a window still takes records, in microseconds.
	Lateness element.Time
	// LateOutput names the side output that takes later records; empty: they are dropped.
	LateOutput string
	// Timing is the time by which windows are meant.
	Timing Timing
	// Registry has the codecs of the pipeline.
	Registry *codec.Registry
}

func (g *Gathering[K, In, Out]) rules() rules[K, In] {
	return rules[K, In]{g.Key, g.Lateness, g.LateOutput, g.Timing, g.Registry}
}

// Gather keeps the records of sliding windows, each once, in its pane. Tumbling windows are sliding ones whose slide is
// their size.
func Gather[K comparable, In, Out any](spec window.Sliding, g Gathering[K, In, Out]) task.StageOf[In, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		f, err := newFrame(rt, g.rules())
		if err != nil {
			return nil, nil, err
		}
		o := &gather[K, In, Out]{frame: f, spec: spec, each: g.Each, out: out}
		o.panes, err = spaces(rt, "panes", g.Registry, func(d *state.Directory[K]) (*state.List[In], error) {
			return state.ListOf[In](d, "records")
		})
		if err == nil && o.lateness > 0 {
			o.refired, err = spaces(rt, "fired", g.Registry, counted[K])
		}
		return o.push, o, err
	}
}

type gather[K comparable, In, Out any] struct {
	frame[K, In]
	spec    window.Sliding
	each    func(K, Firing, iter.Seq[In], func(Out)) error
	out     task.Push[Out]
	panes   *state.Spaces[K, *state.List[In]] // by start
	list    []*state.Space[K, *state.List[In]]
	refired *state.Spaces[K, *state.Value[int32]]
}

func (o *gather[K, In, Out]) push(v In) {
	at := o.at()
	last, ok := o.spec.Last(at)
	if !ok {
		return // between two windows
	}
	k := o.key(v)
	h := o.hash(k)
	now := o.now(h)
	if o.overAt(last) <= now {
		o.drop(v)
		return
	}
	start := o.spec.Pane(at).Start
	i, found := o.find(start)
	if !found {
		sp, err := o.panes.Open(int64(start))
		if err != nil {
			o.rt.Fail(err)
			return
		}
		o.list = slices.Insert(o.list, i, sp)
		o.notice(start)
	}
	o.list[i].Dir.Seek(k, h)
	o.list[i].Handles.Append(v)
	if o.lateness > 0 {
		o.refire(k, h, at)
	}
}

// notice has sweep called when something is to be done about a pane.
func (o *gather[K, In, Out]) notice(start element.Time) {
	if w, ok := o.spec.First(start); ok {
		o.expect(max(w.Last(), o.swept+1))
	}
}

func (o *gather[K, In, Out]) find(start element.Time) (int, bool) {
	return slices.BinarySearchFunc(o.list, start, comparePane)
}

// refire emits the windows that have ended and hold the record that was just added.
func (o *gather[K, In, Out]) refire(k K, h uint64, when element.Time) {
	at, now := o.rt.At, o.now(h)
	w, ok := o.spec.First(when)
	for ; ok && w.Contains(when) && w.Last() <= now; w = o.spec.Next(w) {
		if o.overAt(w) <= now {
			continue
		}
		n, err := again(o.refired, k, h, w, o.count(k, h, w) > 1)
		if err == nil {
			o.rt.At = w.Last()
			err = o.each(k, Firing{w, n}, o.records(k, h, w), o.out)
		}
		if err != nil {
			o.rt.Fail(err)
			break
		}
	}
	o.rt.At = at
}

// within are the panes of a window.
func (o *gather[K, In, Out]) within(w window.Window) []*state.Space[K, *state.List[In]] {
	lo, _ := o.find(w.Start)
	hi, _ := o.find(w.End)
	return o.list[lo:hi]
}

func (o *gather[K, In, Out]) count(k K, h uint64, w window.Window) (n int) {
	for _, p := range o.within(w) {
		p.Dir.Seek(k, h)
		n += p.Handles.Len()
	}
	return n
}

// records are those of a key in a window.
func (o *gather[K, In, Out]) records(k K, h uint64, w window.Window) iter.Seq[In] {
	panes := o.within(w)
	return func(yield func(In) bool) {
		for _, p := range panes {
			p.Dir.Seek(k, h)
			for v := range p.Handles.All() {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// OnWatermark fires every window whose last instant is covered, the oldest first, and forgets what no window needs.
func (o *gather[K, In, Out]) OnWatermark(t element.Time) error { return o.watermark(t, o.sweep) }

// OnTime does that by the clock.
func (o *gather[K, In, Out]) OnTime(now time.Time) error { return o.tick(now, o.sweep) }

func (o *gather[K, In, Out]) sweep(t element.Time) error {
	done := o.swept // windows whose last instant is not above it have fired
	for {
		w, ok := o.nextWindow(done)
		if !ok || w.Last() > t {
			break
		}
		if err := o.fire(w); err != nil {
			return err
		}
		done = w.Last()
		o.forget(done)
	}
	o.forget(t)
	if w, ok := o.nextWindow(done); ok {
		o.expect(w.Last())
	}
	if len(o.list) > 0 {
		last, _ := o.spec.Last(element.Time(o.list[0].ID))
		o.expect(o.overAt(last))
	}
	return o.rt.TableErr()
}

// nextWindow is the oldest window that has panes and ends after done.
func (o *gather[K, In, Out]) nextWindow(done element.Time) (window.Window, bool) {
	for _, p := range o.list {
		start := element.Time(p.ID)
		w, _ := o.spec.First(start)
		if w.Last() <= done {
			w = after(o.spec, w, done)
		}
		if w.Contains(start) {
			return w, true
		}
	}
	return window.Window{}, false
}

func (o *gather[K, In, Out]) fire(w window.Window) error {
	panes := o.within(w)
	for i, p := range panes {
		err := p.Dir.Each(func(k K) error {
			h := p.Dir.KeyHash()
			if o.firedBefore(h, w) {
				return nil
			}
			for _, before := range panes[:i] {
				if before.Dir.Seek(k, h); before.Handles.Len() > 0 {
					return nil // it was called with that pane
				}
			}
			o.rt.At = w.Last()
			if err := o.each(k, Firing{Window: w}, o.records(k, h, w), o.out); err != nil {
				return err
			}
			return o.rt.Stopped()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// forget drops the panes that no window needs at time t.
func (o *gather[K, In, Out]) forget(t element.Time) {
	n := 0
	for n < len(o.list) {
		if last, _ := o.spec.Last(element.Time(o.list[n].ID)); o.overAt(last) > t {
			break
		}
		o.panes.Drop(o.list[n])
		n++
	}
	o.list = slices.Delete(o.list, 0, n)
	if o.refired == nil {
		return
	}
	for sp := range o.refired.All() {
		start := element.Time(sp.ID)
		if o.overAt(o.spec.From(start)) > t {
			break
		}
		o.refired.Drop(sp)
	}
}

// OnRestored begins with the panes of a checkpoint.
func (o *gather[K, In, Out]) OnRestored() error {
	o.restored()
	o.list = slices.Collect(o.panes.All())
	for _, p := range o.list {
		o.notice(element.Time(p.ID))
	}
	return o.rt.TableErr()
}

var (
	_ task.Waker    = (*gather[int, int, int])(nil)
	_ task.Restorer = (*gather[int, int, int])(nil)
)
