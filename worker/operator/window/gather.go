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
		o := &gather[K, In]{panes: panes{times: f.times, spec: spec}}
		o.each = func(k K, fire Firing, vs iter.Seq[In]) error { return g.Each(k, fire, vs, out) }
		o.spaces, err = spaces(rt, "panes", g.Registry, func(d *state.Directory[K]) (*state.List[In], error) {
			return state.ListOf[In](d, "records")
		})
		if err == nil && o.lateness > 0 {
			o.refired, err = spaces(rt, "fired", g.Registry, counted[K])
		}
		return func(v In) {
			at := o.at()
			last, ok := spec.Last(at)
			if !ok {
				return // between two windows
			}
			k := f.key(v)
			h := f.hash(k)
			if o.overAt(last) <= o.now(h) {
				drop(rt, f.late, v)
				return
			}
			o.keep(k, h, at, v)
		}, o, err
	}
}

type gather[K comparable, In any] struct {
	panes
	each    func(K, Firing, iter.Seq[In]) error
	spaces  *state.Spaces[K, *state.List[In]]  // by start
	list    []*state.Space[K, *state.List[In]] // as starts
	fires   *state.Directory[K]                // whose keys are emitted
	refired *state.Spaces[K, *state.Value[int32]]
}

// keep adds a record to its pane.
func (o *gather[K, In]) keep(k K, h uint64, at element.Time, v In) {
	start := o.spec.Pane(at).Start
	i, found := o.find(start)
	if !found {
		sp, err := o.spaces.Open(int64(start))
		if err != nil {
			o.rt.Fail(err)
			return
		}
		o.list, o.starts = slices.Insert(o.list, i, sp), slices.Insert(o.starts, i, start)
		o.expectPane(start)
	}
	o.list[i].Dir.Seek(k, h)
	o.list[i].Handles.Append(v)
	if o.lateness > 0 {
		o.refire(k, h, at)
	}
}

// refire emits the windows that have ended and hold the record that was just added.
func (o *gather[K, In]) refire(k K, h uint64, when element.Time) {
	at, now := o.rt.At, o.now(h)
	w, ok := o.spec.First(when)
	for ; ok && w.Contains(when) && w.Last() <= now; w = o.spec.Next(w) {
		if o.overAt(w) <= now {
			continue
		}
		n, err := again(o.refired, k, h, w, o.count(k, h, w) > 1)
		if err == nil {
			o.rt.At = w.Last()
			err = o.each(k, Firing{w, n}, o.records(k, h, w))
		}
		if err != nil {
			o.rt.Fail(err)
			break
		}
	}
	o.rt.At = at
}

// of are the panes of a window.
func (o *gather[K, In]) of(w window.Window) []*state.Space[K, *state.List[In]] {
	lo, hi := o.within(w)
	return o.list[lo:hi]
}

func (o *gather[K, In]) count(k K, h uint64, w window.Window) (n int) {
	for _, p := range o.of(w) {
		p.Dir.Seek(k, h)
		n += p.Handles.Len()
	}
	return n
}

// records are those of a key in a window.
func (o *gather[K, In]) records(k K, h uint64, w window.Window) iter.Seq[In] {
	panes := o.of(w)
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
func (o *gather[K, In]) OnWatermark(t element.Time) error { return o.watermark(t, o.sweep) }

// OnTime does that by the clock.
func (o *gather[K, In]) OnTime(now time.Time) error { return o.tick(now, o.sweep) }

func (o *gather[K, In]) sweep(t element.Time) error {
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
	o.expectOldest()
	return o.rt.TableErr()
}

func (o *gather[K, In]) fire(w window.Window) error {
	panes := o.of(w)
	o.emits(w)
	for i, p := range panes {
		o.fires = p.Dir
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
			if err := o.each(k, Firing{Window: w}, o.records(k, h, w)); err != nil {
				return err
			}
			return o.rt.Stopped()
		})
		if err != nil {
			return err
		}
	}
	o.emitted()
	return nil
}

// Occasion is the window and the key whose records are handed out.
func (o *gather[K, In]) Occasion() string {
	if !o.emitting {
		return ""
	}
	return o.occasion(o.fires.Key())
}

// forget drops the panes that no window needs at time t.
func (o *gather[K, In]) forget(t element.Time) {
	n := 0
	for n < len(o.list) && o.paneOver(o.starts[n]) <= t {
		o.spaces.Drop(o.list[n])
		n++
	}
	o.list, o.starts = slices.Delete(o.list, 0, n), slices.Delete(o.starts, 0, n)
	forgetRefired(&o.panes, o.refired, t)
}

// OnRestored begins with the panes of a checkpoint.
func (o *gather[K, In]) OnRestored() error {
	o.restored()
	o.list, o.starts = slices.Collect(o.spaces.All()), o.starts[:0]
	for _, p := range o.list {
		o.starts = append(o.starts, element.Time(p.ID))
		o.expectPane(element.Time(p.ID))
	}
	return o.rt.TableErr()
}

var (
	_ task.Waker      = (*gather[int, int])(nil)
	_ task.Restorer   = (*gather[int, int])(nil)
	_ task.Occasioned = (*gather[int, int])(nil)
)
