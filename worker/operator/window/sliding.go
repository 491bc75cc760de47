package window

import (
	"slices"
	"time"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/window"
	"github.com/sluiceio/sluice/worker/operator/ahead"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/task"
)

// Sliding aggregates by key and sliding window. It needs Aggregation.Merge.
//
// A record goes into one pane, whatever the number of windows that it is in. A window is put together from its panes by
// the two stacks of a queue that knows its aggregate (Tangwongsan, Hirzel, Schneider: General Incremental Sliding-Window
// Aggregation, 2015), kept for each key over those panes only in which the key occurs: the front panes know the
// aggregate of themselves and everything up to the flip, the back is one aggregate of everything after it. When the
// front has slid out of the window, the back becomes the front. So a result costs two merges and a firing window one
// visit to each of its keys, and a flip one merge per pane that was taken in: a constant number per key and slide.
//
// A subtraction of what slides out would be cheaper, and exists for few aggregates; a tree of aggregated tables costs
// the logarithm of size/slide and memory for keys that are in a single pane.
//
// What a checkpoint holds is the panes. The queues are derived from them: after a restore every key begins with a flip.
func Sliding[K comparable, In, Acc, Out any](spec window.Sliding, a Aggregation[K, In, Acc, Out]) task.StageOf[In, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		f, err := newFrame(rt, a.rules())
		if err != nil {
			return nil, nil, err
		}
		o := &sliding[K, Acc]{slides: slides{panes: panes{times: f.times, spec: spec}}, fresh: a.New, fold: fold[Acc]{a.Merge, a.Clone}}
		o.emit = func(k K, fire Firing, acc *Acc) { out(a.Result(k, fire, acc)) }
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
				o.refire(k, h)
			}
		}, o, o.open(a.Registry)
	}
}

// parts are what a key has in a pane.
type parts[Acc any] struct {
	own *state.Value[Acc] // of the records in the pane
	// suffix is the aggregate of own and of the parts of the key in later panes, up to the flip; valid for those that the
	// queue calls its front.
	suffix *state.Value[Acc]
}

func declareParts[K comparable, Acc any](d *state.Directory[K]) (_ *parts[Acc], err error) {
	p := new(parts[Acc])
	if p.own, err = state.ValueOf[Acc](d, "acc"); err == nil {
		p.suffix, err = state.ValueOf[Acc](d, "suffix")
	}
	return p, err
}

// queue is what is known of one key over the panes of the present window.
type queue[Acc any] struct {
	Back  Acc          // aggregate of the panes after flip, up to the ones taken in
	Flip  element.Time // start of the newest pane of the front; below: front panes with a suffix; alone: of the only pane
	Front element.Time // start of the oldest pane of the front
	State queueState
}

type queueState uint8

const (
	// inFront: there is a front, and nothing behind it.
	inFront queueState = 1 << iota
	// inBack: the back holds something.
	inBack
	// stale: a pane that was taken in has changed since; both are to be made again.
	stale
	// alone: the key is in one pane, the one at Flip, and the back is all that it has: no pane is looked at. Most keys of a stream
	// that brings new ones all the time end as they began.
	alone
)

// pane is the namespace of a pane. It has a pointer to its handles: those all have one shape.
type pane[K comparable, Acc any] = state.Space[K, *parts[Acc]]

// sliding knows neither what comes in nor what goes out: it is compiled for each type of keys and accumulators.
type sliding[K comparable, Acc any] struct {
	slides
	fold[Acc]
	fresh func() Acc // nil: the zero value
	emit  func(K, Firing, *Acc)

	curPane *pane[K, Acc] // nil: cur is not open, or next does not know of it
	// isLate and again are about the last record: it was late; there are windows that have fired and hold it. first: its key had
	// nothing in its pane.
	isLate, again, first bool

	spaces  *state.Spaces[K, *parts[Acc]] // by start
	list    []*pane[K, Acc]               // as starts
	refired *state.Spaces[K, *state.Value[int32]]
	queues  *state.Spaces[K, *state.Value[queue[Acc]]] // one namespace, which goes when no pane is left
	line    *state.Space[K, *state.Value[queue[Acc]]]

	result Acc // of the window that fires; a field, so that it does not escape per key
}

// open makes the tables.
func (o *sliding[K, Acc]) open(r *codec.Registry) (err error) {
	if o.spaces, err = spaces(o.rt, "panes", r, declareParts[K, Acc]); err != nil {
		return err
	}
	if o.lateness > 0 {
		if o.refired, err = spaces(o.rt, "fired", r, counted[K]); err != nil {
			return err
		}
	}
	options := o.rt.Options("queues", r)
	options.Checkpoints = false
	o.queues, err = state.NewSpaces(options, o.rt.KeyGroups.First, o.rt.KeyGroups.End, func(d *state.Directory[K]) (*state.Value[queue[Acc]], error) {
		return state.ValueOf[queue[Acc]](d, "queue")
	})
	if err != nil {
		return err
	}
	o.rt.Derive(o.queues.Table())
	return o.derive()
}

// enter is the accumulator for a record of a key at the present time; nil: it is late, in no window, or the attempt fails.
func (o *sliding[K, Acc]) enter(k K, h uint64) *Acc {
	o.isLate = false
	if at := o.at(); at < o.cur.Start || at >= o.cur.End {
		o.curPane = nil
		if !o.seek(at) {
			return nil // between two windows
		}
	}
	now := o.now(h)
	if o.overAt(o.last) <= now {
		o.isLate = true
		return nil
	}
	if o.curPane == nil && !o.openPane() {
		return nil
	}
	o.curPane.Dir.Seek(k, h)
	own := o.curPane.Handles.own
	o.first = !own.Exists()
	acc := own.Ref()
	if o.first && o.fresh != nil {
		*acc = o.fresh()
	}
	if o.curTaken {
		o.line.Dir.Seek(k, h)
		o.line.Handles.Ref().State = stale
	}
	o.again = o.oldest <= now && o.lateness > 0
	return acc
}

// prefetch takes records to be in the pane of the last one, as most are.
func (o *sliding[K, Acc]) prefetch(a *state.Ahead[K]) {
	if o.curPane == nil {
		return
	}
	o.curPane.Dir.Prefetch(a)
	if o.curTaken {
		o.line.Dir.Prefetch(a)
	}
}

// openPane opens the current pane, and has its windows fire that have not.
func (o *sliding[K, Acc]) openPane() bool {
	start := o.cur.Start
	sp, err := o.spaces.Open(int64(start))
	if err != nil {
		o.rt.Fail(err)
		return false
	}
	if i, found := o.find(start); !found {
		o.list, o.starts = slices.Insert(o.list, i, sp), slices.Insert(o.starts, i, start)
	}
	o.notice(start)
	o.curPane, o.curTaken = sp, start < o.taken
	return true
}

func (o *sliding[K, Acc]) uncache() {
	o.forgetPane()
	o.curPane = nil
}

// OnWatermark fires every window whose last instant is covered, the oldest first, and forgets what no window needs.
func (o *sliding[K, Acc]) OnWatermark(t element.Time) error { return o.watermark(t, o.sweep) }

// OnTime does that by the clock.
func (o *sliding[K, Acc]) OnTime(now time.Time) error { return o.tick(now, o.sweep) }

func (o *sliding[K, Acc]) sweep(t element.Time) error {
	for o.waits && o.next.Last() <= t {
		if err := o.fire(o.next); err != nil {
			return err
		}
		o.slide()
		if err := o.forget(t); err != nil {
			return err
		}
	}
	if err := o.forget(t); err != nil {
		return err
	}
	o.expectNext()
	return o.rt.TableErr()
}

// forget drops the panes that no window needs at time t.
func (o *sliding[K, Acc]) forget(t element.Time) error {
	n := o.spent(t)
	for _, p := range o.list[:n] {
		o.spaces.Drop(p)
	}
	o.list, o.starts = slices.Delete(o.list, 0, n), slices.Delete(o.starts, 0, n)
	o.uncache()
	forgetRefired(&o.panes, o.refired, t)
	if len(o.list) == 0 && o.line.Dir.Len() > 0 {
		return o.derive()
	}
	return nil
}

// derive begins with empty queues.
func (o *sliding[K, Acc]) derive() (err error) {
	if o.line != nil {
		o.queues.Drop(o.line)
	}
	o.line, err = o.queues.Open(0)
	return err
}

// fire emits the results of w.
func (o *sliding[K, Acc]) fire(w window.Window) error {
	if err := o.takeIn(w); err != nil {
		return err
	}
	lo, hi := o.within(w)
	last := w.Last()
	queues, queue := o.line.Dir, o.line.Handles
	o.emits(w)
	err := queues.Each(func(k K) error {
		h := queues.KeyHash()
		ok, err := o.total(k, h, queue.Ref(), lo, hi)
		if err != nil {
			return err
		}
		if !ok { // not in the window any more
			queue.Clear()
			return nil
		}
		if o.firedBefore(h, w) {
			return nil
		}
		o.rt.At = last
		o.emit(k, Firing{Window: w}, &o.result)
		return o.rt.Stopped()
	})
	if err == nil {
		o.emitted()
	}
	return err
}

// Occasion is the window and the key whose result is emitted.
func (o *sliding[K, Acc]) Occasion() string {
	if !o.emitting {
		return ""
	}
	return o.occasion(o.line.Dir.Key())
}

// takeIn adds the panes of w that are not in the queues yet to the backs of their keys.
func (o *sliding[K, Acc]) takeIn(w window.Window) error {
	i, _ := o.find(max(o.taken, w.Start)) // older ones came late, for windows that had fired
	for ; i < len(o.list) && o.starts[i] < w.End; i++ {
		p := o.list[i]
		err := p.Dir.Each(func(k K) error {
			own := p.Handles.own.Peek()
			if own == nil {
				return nil
			}
			o.line.Dir.Seek(k, p.Dir.KeyHash())
			q := o.line.Handles.Ref()
			switch {
			case q.State&stale != 0:
				return nil
			case q.State == alone: // no longer: the next window makes it a queue
				q.State = stale
				return nil
			case q.State&inBack != 0:
				return o.merge(&q.Back, own)
			case q.State == 0:
				q.State, q.Flip = alone, element.Time(p.ID)
			default:
				q.State |= inBack
			}
			return o.copy(&q.Back, own)
		})
		if err != nil {
			return err
		}
	}
	o.taken = max(o.taken, w.End)
	return nil
}

// total puts the aggregate of a key over the panes from lo up to hi into o.result. False: the key is in none of them.
func (o *sliding[K, Acc]) total(k K, h uint64, q *queue[Acc], lo, hi int) (bool, error) {
	if q.State == alone {
		if lo == hi || q.Flip < o.starts[lo] {
			return false, nil
		}
		return true, o.copy(&o.result, &q.Back)
	}
	var front *Acc
	if q.State&(inFront|stale) == inFront {
		front = o.front(k, h, q, lo, hi)
	}
	if front == nil {
		var err error
		if front, err = o.turn(k, h, q, lo, hi); err != nil {
			return false, err
		}
	}
	if front == nil {
		return false, nil
	}
	if err := o.copy(&o.result, front); err != nil {
		return false, err
	}
	if q.State&inBack != 0 {
		return true, o.merge(&o.result, &q.Back)
	}
	return true, nil
}

// refire emits the windows that have fired and hold the record that came late.
func (o *sliding[K, Acc]) refire(k K, h uint64) {
	at := o.rt.At
	when := o.at()
	now := o.now(h)
	w, ok := o.spec.First(when)
	for ; ok && w.Contains(when) && w.Last() <= now; w = o.spec.Next(w) {
		if o.overAt(w) <= now {
			continue
		}
		parts, err := o.foldWindow(k, h, w)
		if err != nil {
			o.rt.Fail(err)
			return
		}
		n, err := again(o.refired, k, h, w, parts > 1 || !o.first)
		if err != nil {
			o.rt.Fail(err)
			return
		}
		o.rt.At = w.Last()
		o.emit(k, Firing{w, n}, &o.result)
	}
	o.rt.At = at
}

// foldWindow puts the aggregate of a key over a window into o.result, without the queue, and returns in how many panes the key
// is.
func (o *sliding[K, Acc]) foldWindow(k K, h uint64, w window.Window) (parts int, err error) {
	lo, _ := o.find(w.Start)
	for i := lo; i < len(o.list) && o.starts[i] < w.End; i++ {
		p := o.list[i]
		p.Dir.Seek(k, h)
		own := p.Handles.own.Peek()
		switch {
		case own == nil:
			continue
		case parts == 0:
			err = o.copy(&o.result, own)
		default:
			err = o.merge(&o.result, own)
		}
		if err != nil {
			return parts, err
		}
		parts++
	}
	return parts, nil
}

// front is the suffix of the oldest front pane of a key that is still in the window.
func (o *sliding[K, Acc]) front(k K, h uint64, q *queue[Acc], lo, hi int) *Acc {
	if lo < hi && o.starts[lo] < q.Front {
		lo, _ = o.find(q.Front)
	}
	for ; lo < hi && o.starts[lo] <= q.Flip; lo++ {
		p := o.list[lo]
		p.Dir.Seek(k, h)
		if p.Handles.own.Exists() {
			q.Front = o.starts[lo]
			return p.Handles.suffix.Peek()
		}
	}
	return nil
}

// turn makes everything of a key in the window its front. nil: there is nothing.
func (o *sliding[K, Acc]) turn(k K, h uint64, q *queue[Acc], lo, hi int) (front *Acc, err error) {
	q.State = 0
	for i := hi - 1; i >= lo; i-- {
		p := o.list[i]
		p.Dir.Seek(k, h)
		own := p.Handles.own.Peek()
		if own == nil {
			continue
		}
		suffix := p.Handles.suffix.Ref()
		if err := o.copy(suffix, own); err != nil {
			return nil, err
		}
		if front == nil {
			q.Flip = o.starts[i]
		} else if err := o.merge(suffix, front); err != nil {
			return nil, err
		}
		front, q.Front, q.State = suffix, o.starts[i], inFront
	}
	return front, nil
}

// OnRestored begins with the panes of a checkpoint: the queues are made again from them.
func (o *sliding[K, Acc]) OnRestored() error {
	o.restored()
	o.uncache()
	if err := o.derive(); err != nil {
		return err
	}
	o.list, o.waits, o.starts = slices.Collect(o.spaces.All()), false, o.starts[:0]
	for _, p := range o.list {
		o.starts = append(o.starts, element.Time(p.ID))
		o.notice(element.Time(p.ID))
	}
	return o.rt.TableErr()
}
