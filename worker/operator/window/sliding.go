package window

import (
	"slices"
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/window"
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
		o := &sliding[K, In, Acc, Out]{frame: f, spec: spec, agg: a, out: out, fold: fold[Acc]{a.Merge, a.Clone}}
		o.uncache()
		return o.push, o, o.open()
	}
}

// parts are what a key has in a pane.
type parts[Acc any] struct {
	own *state.Value[Acc] // of the records in the pane
	// suffix is the aggregate of own and of the parts of the key in later panes, up to the flip; valid for those that the
	// queue calls its front.
	suffix *state.Value[Acc]
}

func declareParts[K comparable, Acc any](d *state.Directory[K]) (p parts[Acc], err error) {
	if p.own, err = state.ValueOf[Acc](d, "acc"); err == nil {
		p.suffix, err = state.ValueOf[Acc](d, "suffix")
	}
	return p, err
}

// queue is what is known of one key over the panes of the present window.
type queue[Acc any] struct {
	Back  Acc          // aggregate of the panes after flip, up to the ones taken in
	Flip  element.Time // start of the newest pane of the front; below: front panes with a suffix
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
)

type pane[K comparable, Acc any] = state.Space[K, parts[Acc]]

type sliding[K comparable, In, Acc, Out any] struct {
	frame[K, In]
	fold[Acc]
	spec window.Sliding
	agg  Aggregation[K, In, Acc, Out]
	out  task.Push[Out]

	// cur is the pane of the last record: most records follow one of the same pane. cur.Start > cur.End: none.
	cur      window.Window
	last     window.Window // the newest window that holds it
	oldest   element.Time  // last instant of the oldest window that holds it
	curPane  *pane[K, Acc] // nil: it is not open, or next does not know of it
	curTaken bool          // the pane has been taken in: what is added makes its key stale

	panes   *state.Spaces[K, parts[Acc]] // by start
	list    []*pane[K, Acc]              // of panes, ordered by time
	next    window.Window                // the next one to fire, while any has to
	waits   bool                         // there are panes from next on
	taken   element.Time                 // panes below this start are in the queues
	refired *state.Spaces[K, *state.Value[int32]]
	queues  *state.Spaces[K, *state.Value[queue[Acc]]] // one namespace, which goes when no pane is left
	line    *state.Space[K, *state.Value[queue[Acc]]]

	result Acc // of the window that fires; a field, so that it does not escape per key
}

// open makes the tables.
func (o *sliding[K, In, Acc, Out]) open() (err error) {
	if o.panes, err = spaces(o.rt, "panes", o.registry, declareParts[K, Acc]); err != nil {
		return err
	}
	if o.lateness > 0 {
		if o.refired, err = spaces(o.rt, "fired", o.registry, counted[K]); err != nil {
			return err
		}
	}
	options := o.rt.Options("queues", o.registry)
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

func (o *sliding[K, In, Acc, Out]) push(v In) {
	if at := o.at(); at < o.cur.Start || at >= o.cur.End {
		if !o.seek(at) {
			return // between two windows
		}
	}
	k := o.agg.Key(v)
	h := o.hash(k)
	now := o.now(h)
	if o.overAt(o.last) <= now {
		o.drop(v)
		return
	}
	if o.curPane == nil && !o.enter() {
		return
	}
	o.curPane.Dir.Seek(k, h)
	own := o.curPane.Handles.own
	fresh := !own.Exists()
	acc := own.Ref()
	if fresh && o.agg.New != nil {
		*acc = o.agg.New()
	}
	o.agg.Add(acc, v)
	if o.curTaken {
		o.line.Dir.Seek(k, h)
		o.line.Handles.Ref().State = stale
	}
	if o.oldest <= now && o.lateness > 0 {
		o.refire(k, h, fresh)
	}
}

// seek makes the pane of at the current one. It is false if no window holds it.
func (o *sliding[K, In, Acc, Out]) seek(at element.Time) bool {
	o.uncache()
	last, ok := o.spec.Last(at)
	if !ok {
		return false
	}
	oldest, _ := o.spec.First(at)
	o.cur, o.last, o.oldest = o.spec.Pane(at), last, oldest.Last()
	return true
}

// enter opens the current pane, and has its windows fire that have not.
func (o *sliding[K, In, Acc, Out]) enter() bool {
	start := o.cur.Start
	sp, err := o.panes.Open(int64(start))
	if err != nil {
		o.rt.Fail(err)
		return false
	}
	i, found := o.find(start)
	if !found {
		o.list = slices.Insert(o.list, i, sp)
	}
	o.notice(start)
	o.curPane, o.curTaken = sp, start < o.taken
	return true
}

// notice has the windows fire that hold a pane and wait.
func (o *sliding[K, In, Acc, Out]) notice(start element.Time) {
	last, _ := o.spec.Last(start)
	if last.Last() > o.horizon() {
		if first := o.firstWaiting(start); !o.waits || first.Start < o.next.Start {
			o.wait(first)
		}
	}
	o.expect(o.overAt(last))
}

// wait makes w the next window to fire: nothing older waits, and no pane from its start on has been taken in.
func (o *sliding[K, In, Acc, Out]) wait(w window.Window) {
	if !o.waits {
		o.taken = w.Start
	}
	o.next, o.waits, o.taken = w, true, min(o.taken, w.Start)
	o.expect(w.Last())
}

// firstWaiting is the oldest window that holds at and has not fired.
func (o *sliding[K, In, Acc, Out]) firstWaiting(at element.Time) window.Window {
	w, _ := o.spec.First(at)
	now := o.horizon()
	if w.Last() > now {
		return w
	}
	return after(o.spec, w, now)
}

func (o *sliding[K, In, Acc, Out]) find(start element.Time) (int, bool) {
	return slices.BinarySearchFunc(o.list, start, comparePane)
}

func comparePane[K comparable, H any](p *state.Space[K, H], start element.Time) int {
	switch at := element.Time(p.ID); {
	case at < start:
		return -1
	case at > start:
		return 1
	}
	return 0
}

func (o *sliding[K, In, Acc, Out]) uncache() {
	o.cur, o.curPane = window.Window{Start: element.MaxTime, End: element.MinTime}, nil
}

// OnWatermark fires every window whose last instant is covered, the oldest first, and forgets what no window needs.
func (o *sliding[K, In, Acc, Out]) OnWatermark(t element.Time) error { return o.watermark(t, o.sweep) }

// OnTime does that by the clock.
func (o *sliding[K, In, Acc, Out]) OnTime(now time.Time) error { return o.tick(now, o.sweep) }

func (o *sliding[K, In, Acc, Out]) sweep(t element.Time) error {
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
	if o.waits {
		o.expect(o.next.Last())
	}
	if len(o.list) > 0 {
		last, _ := o.spec.Last(element.Time(o.list[0].ID))
		o.expect(o.overAt(last))
	}
	return o.rt.TableErr()
}

// slide moves on to the next window that has panes.
func (o *sliding[K, In, Acc, Out]) slide() {
	before := o.next.Start
	o.next = o.spec.Next(o.next)
	if o.next.Start <= before { // beyond the end of time
		o.waits = false
		return
	}
	i, _ := o.find(o.next.Start)
	o.waits = i < len(o.list)
	if o.waits && element.Time(o.list[i].ID) >= o.next.End {
		o.next, _ = o.spec.First(element.Time(o.list[i].ID))
	}
}

// forget drops the panes that no window needs at time t.
func (o *sliding[K, In, Acc, Out]) forget(t element.Time) error {
	n := 0
	for n < len(o.list) && (!o.waits || element.Time(o.list[n].ID) < o.next.Start) {
		if last, _ := o.spec.Last(element.Time(o.list[n].ID)); o.overAt(last) > t {
			break
		}
		o.panes.Drop(o.list[n])
		n++
	}
	o.list = slices.Delete(o.list, 0, n)
	o.uncache()
	if o.refired != nil {
		for sp := range o.refired.All() {
			start := element.Time(sp.ID)
			if o.overAt(o.spec.From(start)) > t {
				break
			}
			o.refired.Drop(sp)
		}
	}
	if len(o.list) == 0 && o.line.Dir.Len() > 0 {
		return o.derive()
	}
	return nil
}

// derive begins with empty queues.
func (o *sliding[K, In, Acc, Out]) derive() (err error) {
	if o.line != nil {
		o.queues.Drop(o.line)
	}
	o.line, err = o.queues.Open(0)
	return err
}

// fire emits the results of w.
func (o *sliding[K, In, Acc, Out]) fire(w window.Window) error {
	if err := o.takeIn(w); err != nil {
		return err
	}
	lo, _ := o.find(w.Start)
	hi, _ := o.find(w.End)
	last := w.Last()
	queues, queue := o.line.Dir, o.line.Handles
	return queues.Each(func(k K) error {
		h := queues.KeyHash()
		ok, err := o.total(k, h, queue.Ref(), o.list[lo:hi])
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
		o.out(o.agg.Result(k, Firing{Window: w}, &o.result))
		return o.rt.Stopped()
	})
}

// takeIn adds the panes of w that are not in the queues yet to the backs of their keys.
func (o *sliding[K, In, Acc, Out]) takeIn(w window.Window) error {
	i, _ := o.find(max(o.taken, w.Start)) // older ones came late, for windows that had fired
	for ; i < len(o.list) && element.Time(o.list[i].ID) < w.End; i++ {
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
			case q.State&inBack != 0:
				return o.merge(&q.Back, own)
			}
			q.State |= inBack
			return o.copy(&q.Back, own)
		})
		if err != nil {
			return err
		}
	}
	o.taken = max(o.taken, w.End)
	return nil
}

// total puts the aggregate of a key over panes into o.result. False: the key is in none of them.
func (o *sliding[K, In, Acc, Out]) total(k K, h uint64, q *queue[Acc], panes []*pane[K, Acc]) (bool, error) {
	var front *Acc
	if q.State&(inFront|stale) == inFront {
		front = o.front(k, h, q, panes)
	}
	if front == nil {
		var err error
		if front, err = o.turn(k, h, q, panes); err != nil {
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

// refire emits the windows that have fired and hold the record that came late. fresh: it is the first of its key in its
// pane.
func (o *sliding[K, In, Acc, Out]) refire(k K, h uint64, fresh bool) {
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
		n, err := again(o.refired, k, h, w, parts > 1 || !fresh)
		if err != nil {
			o.rt.Fail(err)
			return
		}
		o.rt.At = w.Last()
		o.out(o.agg.Result(k, Firing{w, n}, &o.result))
	}
	o.rt.At = at
}

// foldWindow puts the aggregate of a key over a window into o.result, without the queue, and returns in how many panes the key
// is.
func (o *sliding[K, In, Acc, Out]) foldWindow(k K, h uint64, w window.Window) (parts int, err error) {
	lo, _ := o.find(w.Start)
	for i := lo; i < len(o.list) && element.Time(o.list[i].ID) < w.End; i++ {
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
func (o *sliding[K, In, Acc, Out]) front(k K, h uint64, q *queue[Acc], panes []*pane[K, Acc]) *Acc {
	i := 0
	if len(panes) > 0 && element.Time(panes[0].ID) < q.Front {
		i, _ = slices.BinarySearchFunc(panes, q.Front, comparePane)
	}
	for ; i < len(panes) && element.Time(panes[i].ID) <= q.Flip; i++ {
		p := panes[i]
		p.Dir.Seek(k, h)
		if p.Handles.own.Exists() {
			q.Front = element.Time(p.ID)
			return p.Handles.suffix.Peek()
		}
	}
	return nil
}

// turn makes everything of a key in the window its front. nil: there is nothing.
func (o *sliding[K, In, Acc, Out]) turn(k K, h uint64, q *queue[Acc], panes []*pane[K, Acc]) (front *Acc, err error) {
	q.State = 0
	for i := len(panes) - 1; i >= 0; i-- {
		p := panes[i]
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
			q.Flip = element.Time(p.ID)
		} else if err := o.merge(suffix, front); err != nil {
			return nil, err
		}
		front, q.Front, q.State = suffix, element.Time(p.ID), inFront
	}
	return front, nil
}

// OnRestored begins with the panes of a checkpoint: the queues are made again from them.
func (o *sliding[K, In, Acc, Out]) OnRestored() error {
	o.restored()
	o.uncache()
	if err := o.derive(); err != nil {
		return err
	}
	o.list, o.waits = slices.Collect(o.panes.All()), false
	for _, p := range o.list {
		o.notice(element.Time(p.ID))
	}
	return o.rt.TableErr()
}
