package window

import (
	"iter"
	"slices"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/window"
	"github.com/sluiceio/sluice/worker/operator/table"
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
}

// Gather keeps the records of sliding windows, each once, in its pane. Tumbling windows are sliding ones whose slide is
// their size.
func Gather[K comparable, In, Out any](spec window.Sliding, g Gathering[K, In, Out]) task.StageOf[In, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		c, err := newCommon(rt, out, Aggregation[K, In, []In, Out]{Key: g.Key, Lateness: g.Lateness, LateOutput: g.LateOutput})
		if err != nil {
			return nil, nil, err
		}
		o := &gather[K, In, Out]{common: c, spec: spec, each: g.Each, fired: map[element.Time]*firings[K]{}}
		return o.push, o, nil
	}
}

// heap of records: a pane with what it holds.
type listed[K comparable, In any] struct {
	start element.Time
	table *table.Table[K, []In]
}

type gather[K comparable, In, Out any] struct {
	common[K, In, []In, Out]
	spec  window.Sliding
	each  func(K, Firing, iter.Seq[In], func(Out)) error
	panes []listed[K, In]              // ordered by time
	fired map[element.Time]*firings[K] // by start of a window that late records have made fire again
	done  element.Time                 // windows that end at or before it have fired; MinTime: none has
	began bool                         // done says something
}

func (o *gather[K, In, Out]) push(v In) {
	at := o.rt.At
	last, ok := o.spec.Last(at)
	if !ok {
		return // between two windows
	}
	if o.isLate(last) {
		o.drop(v)
		return
	}
	start := o.spec.Pane(at).Start
	i, found := o.find(start)
	if !found {
		o.panes = slices.Insert(o.panes, i, listed[K, In]{start, table.New[K, []In](&o.rt.Counters.StateBytes)})
	}
	k := o.agg.Key(v)
	h := o.hash(k)
	vs, _ := o.panes[i].table.Find(k, h)
	*vs = append(*vs, v)
	if o.agg.Lateness > 0 {
		o.refire(k, h)
	}
}

func (o *gather[K, In, Out]) find(start element.Time) (int, bool) {
	return slices.BinarySearchFunc(o.panes, start, func(p listed[K, In], start element.Time) int {
		switch {
		case p.start < start:
			return -1
		case p.start > start:
			return 1
		}
		return 0
	})
}

// refire emits the windows that have ended and hold the record that was just added.
func (o *gather[K, In, Out]) refire(k K, h uint64) {
	at := o.rt.At
	w, ok := o.spec.First(at)
	for ; ok && w.Contains(at) && w.Last() <= o.rt.Watermark; w = o.spec.Next(w) {
		if o.isLate(w) {
			continue
		}
		f := o.fired[w.Start]
		if f == nil {
			f = &firings[K]{}
			o.fired[w.Start] = f
		}
		n := 0
		if o.count(k, h, w) > 1 {
			n = f.next(&o.rt.Counters.StateBytes, k, h)
		}
		o.rt.At = w.Last()
		err := o.each(k, Firing{w, n}, o.records(k, h, w), o.out)
		o.rt.At = at
		if err != nil {
			o.rt.Fail(err)
			return
		}
	}
}

// within are the panes of a window.
func (o *gather[K, In, Out]) within(w window.Window) []listed[K, In] {
	lo, _ := o.find(w.Start)
	hi, _ := o.find(w.End)
	return o.panes[lo:hi]
}

func (o *gather[K, In, Out]) count(k K, h uint64, w window.Window) (n int) {
	for _, p := range o.within(w) {
		if vs := p.table.Lookup(k, h); vs != nil {
			n += len(*vs)
		}
	}
	return n
}

// records are those of a key in a window.
func (o *gather[K, In, Out]) records(k K, h uint64, w window.Window) iter.Seq[In] {
	panes := o.within(w)
	return func(yield func(In) bool) {
		for _, p := range panes {
			vs := p.table.Lookup(k, h)
			if vs == nil {
				continue
			}
			for _, v := range *vs {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// OnWatermark fires every window whose last instant is covered, the oldest first, and forgets what no window needs.
func (o *gather[K, In, Out]) OnWatermark(t element.Time) error {
	for w, ok := o.nextWindow(t); ok; w, ok = o.nextWindow(t) {
		if err := o.fire(w); err != nil {
			return err
		}
		o.done, o.began = w.End, true
		o.forget(min(t, w.Last()))
	}
	o.forget(t)
	return nil
}

// nextWindow is the oldest window that has records, has not fired and has ended at t.
func (o *gather[K, In, Out]) nextWindow(t element.Time) (window.Window, bool) {
	for _, p := range o.panes {
		w, _ := o.spec.First(p.start)
		if o.began && w.End <= o.done {
			w = o.after(w)
		}
		if w.Contains(p.start) {
			return w, w.Last() <= t
		}
	}
	return window.Window{}, false
}

// after is the first window like w that ends after done.
func (o *gather[K, In, Out]) after(w window.Window) window.Window {
	n := (o.done-w.End)/o.spec.Slide + 1
	return window.Window{Start: w.Start + n*o.spec.Slide, End: w.End + n*o.spec.Slide}
}

func (o *gather[K, In, Out]) fire(w window.Window) error {
	panes := o.within(w)
	for i, p := range panes {
		err := p.table.Each(func(k K, _ *[]In) error {
			h := o.hash(k)
			for _, before := range panes[:i] {
				if before.table.Lookup(k, h) != nil {
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

// forget drops the panes that no window needs at watermark t.
func (o *gather[K, In, Out]) forget(t element.Time) {
	n := 0
	for n < len(o.panes) {
		if last, _ := o.spec.Last(o.panes[n].start); !o.expired(last, t) {
			break
		}
		o.panes[n].table.Release()
		n++
	}
	o.panes = slices.Delete(o.panes, 0, n)
	for start, f := range o.fired { // any order: entries of a map
		if o.expired(window.Window{Start: start, End: start + o.spec.Size}, t) {
			f.release()
			delete(o.fired, start)
		}
	}
}

// Close drops the tables.
func (o *gather[K, In, Out]) Close() error {
	for _, p := range o.panes {
		p.table.Release()
	}
	for _, f := range o.fired { // any order: entries of a map
		f.release()
	}
	o.panes = nil
	return nil
}
