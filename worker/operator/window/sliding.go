package window

import (
	"cmp"
	"slices"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/window"
	"github.com/sluiceio/sluice/worker/operator/table"
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
func Sliding[K comparable, In, Acc, Out any](spec window.Sliding, a Aggregation[K, In, Acc, Out]) task.StageOf[In, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		c, err := newCommon(rt, out, a)
		if err != nil {
			return nil, nil, err
		}
		o := &sliding[K, In, Acc, Out]{common: c, spec: spec, keys: table.New[K, queue[Acc]](&rt.Counters.StateBytes), fired: map[element.Time]*firings[K]{}}
		o.uncache()
		return o.push, o, nil
	}
}

// part is what one key has in one pane.
type part[Acc any] struct {
	own Acc // of the records in the pane
	// suffix is the aggregate of own and of the parts of the key in later panes, up to the flip; valid for those that the
	// queue calls its front.
	suffix Acc
}

// queue is what is known of one key over the panes of the present window.
type queue[Acc any] struct {
	back  Acc          // aggregate of the panes after flip, up to the ones taken in
	flip  element.Time // start of the newest pane of the front; below: front panes with a suffix
	front element.Time // start of the oldest pane of the front
	state queueState
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

// paneOf is a pane with its table.
type paneOf[K comparable, Acc any] struct {
	start element.Time
	table *table.Table[K, part[Acc]]
}

type sliding[K comparable, In, Acc, Out any] struct {
	common[K, In, Acc, Out]
	spec window.Sliding

	// cur is the pane of the last record: most records follow one of the same pane. cur.Start > cur.End: none.
	cur      window.Window
	curTable *table.Table[K, part[Acc]]
	curTaken bool // the pane has been taken in: what is added makes its key stale
	curFired bool // a window that holds the pane has fired

	panes []paneOf[K, Acc] // ordered by time
	spare []*table.Table[K, part[Acc]]
	next  window.Window                // the next one to fire, while any has to
	waits bool                         // there are panes from next on
	taken element.Time                 // panes below this start are in the queues
	fired map[element.Time]*firings[K] // by start of a window that late records have made fire again
	keys  *table.Table[K, queue[Acc]]
	dead  int // of keys: not in the window any more

	result Acc // of the window that fires; a field, so that it does not escape per key
}

func (o *sliding[K, In, Acc, Out]) push(v In) {
	if at := o.rt.At; at < o.cur.Start || at >= o.cur.End {
		if !o.seek(at, v) {
			return
		}
	}
	k := o.agg.Key(v)
	h := o.hash(k)
	p, fresh := o.curTable.Find(k, h)
	if fresh && o.agg.New != nil {
		p.own = o.agg.New()
	}
	o.agg.Add(&p.own, v)
	if o.curTaken {
		o.spoil(k, h)
	}
	if o.curFired {
		o.refire(k, h, fresh)
	}
}

// spoil notes that a pane which was taken in has changed for a key.
func (o *sliding[K, In, Acc, Out]) spoil(k K, h uint64) {
	q, fresh := o.keys.Find(k, h)
	if !fresh && q.state == 0 {
		o.dead--
	}
	q.state = stale
}

// seek makes the pane of at the current one. It is false if no window that waits to fire holds it.
func (o *sliding[K, In, Acc, Out]) seek(at element.Time, v In) bool {
	last, ok := o.spec.Last(at)
	if !ok {
		return false // between two windows
	}
	if o.isLate(last) {
		o.drop(v)
		return false
	}
	pane := o.spec.Pane(at)
	i, found := o.find(pane.Start)
	if !found {
		o.panes = slices.Insert(o.panes, i, paneOf[K, Acc]{pane.Start, o.fresh()})
	}
	if last.Last() > o.rt.Watermark {
		if first := o.firstWaiting(at); !o.waits || first.Start < o.next.Start {
			o.await(first)
		}
	}
	o.cur, o.curTable, o.curTaken = pane, o.panes[i].table, pane.Start < o.taken
	oldest, _ := o.spec.First(at)
	o.curFired = o.agg.Lateness > 0 && oldest.Last() <= o.rt.Watermark
	return true
}

// await makes w the next window to fire: nothing older waits, and no pane from its start on has been taken in.
func (o *sliding[K, In, Acc, Out]) await(w window.Window) {
	if !o.waits {
		o.taken = w.Start
	}
	o.next, o.waits, o.taken = w, true, min(o.taken, w.Start)
}

// firstWaiting is the oldest window that holds at and has not fired.
func (o *sliding[K, In, Acc, Out]) firstWaiting(at element.Time) window.Window {
	w, _ := o.spec.First(at)
	if w.Last() > o.rt.Watermark {
		return w
	}
	missed := (o.rt.Watermark-w.Last())/o.spec.Slide + 1
	start := w.Start + missed*o.spec.Slide
	return window.Window{Start: start, End: start + o.spec.Size}
}

func (o *sliding[K, In, Acc, Out]) find(start element.Time) (int, bool) {
	return slices.BinarySearchFunc(o.panes, start, comparePane)
}

func comparePane[K comparable, Acc any](p paneOf[K, Acc], start element.Time) int {
	return cmp.Compare(p.start, start)
}

func (o *sliding[K, In, Acc, Out]) fresh() *table.Table[K, part[Acc]] {
	if n := len(o.spare); n > 0 {
		t := o.spare[n-1]
		o.spare = o.spare[:n-1]
		return t
	}
	return table.New[K, part[Acc]](&o.rt.Counters.StateBytes)
}

func (o *sliding[K, In, Acc, Out]) uncache() {
	o.cur, o.curTable = window.Window{Start: element.MaxTime, End: element.MinTime}, nil
}

// OnWatermark fires every window whose last instant is covered, the oldest first, and forgets what no window needs.
func (o *sliding[K, In, Acc, Out]) OnWatermark(t element.Time) error {
	for o.waits && o.next.Last() <= t {
		if err := o.fire(o.next); err != nil {
			return err
		}
		o.slide()
		o.forget(t)
	}
	if o.agg.Lateness > 0 {
		o.forget(t)
	}
	return nil
}

// slide moves on to the next window that has panes.
func (o *sliding[K, In, Acc, Out]) slide() {
	o.next = o.spec.Next(o.next)
	i, _ := o.find(o.next.Start)
	o.waits = i < len(o.panes)
	if o.waits && o.panes[i].start >= o.next.End {
		o.next, _ = o.spec.First(o.panes[i].start)
	}
}

// forget drops the panes that no window needs at watermark t.
func (o *sliding[K, In, Acc, Out]) forget(t element.Time) {
	n := 0
	for n < len(o.panes) && (!o.waits || o.panes[n].start < o.next.Start) {
		if last, _ := o.spec.Last(o.panes[n].start); !o.expired(last, t) {
			break
		}
		o.recycle(o.panes[n].table)
		n++
	}
	o.panes = slices.Delete(o.panes, 0, n)
	o.uncache()
	for start, f := range o.fired { // any order: entries of a map
		if o.expired(window.Window{Start: start, End: start + o.spec.Size}, t) {
			f.release()
			delete(o.fired, start)
		}
	}
	if len(o.panes) == 0 || o.dead > o.keys.Len()/2 {
		o.sweep()
	}
}

// spareTables is how many cleared tables are kept.
const spareTables = 2

func (o *sliding[K, In, Acc, Out]) recycle(t *table.Table[K, part[Acc]]) {
	if len(o.spare) >= spareTables {
		t.Release()
		return
	}
	t.Clear()
	o.spare = append(o.spare, t)
}

// sweep drops the keys that are in no pane.
func (o *sliding[K, In, Acc, Out]) sweep() {
	old := o.keys
	o.keys, o.dead = table.New[K, queue[Acc]](&o.rt.Counters.StateBytes), 0
	if len(o.panes) > 0 {
		// The error is that of the function: there is none.
		_ = old.Each(func(k K, q *queue[Acc]) error {
			if q.state != 0 {
				n, _ := o.keys.Find(k, o.hash(k))
				*n = *q
			}
			return nil
		})
	}
	old.Release()
}

// fire emits the results of w.
func (o *sliding[K, In, Acc, Out]) fire(w window.Window) error {
	if err := o.takeIn(w); err != nil {
		return err
	}
	lo, _ := o.find(w.Start)
	hi, _ := o.find(w.End)
	last := w.Last()
	return o.keys.Each(func(k K, q *queue[Acc]) error {
		if q.state == 0 {
			return nil
		}
		ok, err := o.total(k, q, o.panes[lo:hi])
		if err != nil || !ok {
			return err
		}
		o.rt.At = last
		o.out(o.agg.Result(k, Firing{Window: w}, &o.result))
		return o.rt.Stopped()
	})
}

// takeIn adds the panes of w that are not in the queues yet to the backs of their keys.
func (o *sliding[K, In, Acc, Out]) takeIn(w window.Window) error {
	i, _ := o.find(max(o.taken, w.Start)) // older ones came late, for windows that had fired
	for ; i < len(o.panes) && o.panes[i].start < w.End; i++ {
		err := o.panes[i].table.Each(func(k K, p *part[Acc]) error {
			q, fresh := o.keys.Find(k, o.hash(k))
			if !fresh && q.state == 0 {
				o.dead--
			}
			switch {
			case q.state&stale != 0:
				return nil
			case q.state&inBack != 0:
				return o.merge(&q.back, &p.own)
			}
			q.state |= inBack
			return o.copy(&q.back, &p.own)
		})
		if err != nil {
			return err
		}
	}
	o.taken = max(o.taken, w.End)
	return nil
}

// total puts the aggregate of a key over panes into o.result. False: the key is in none of them.
func (o *sliding[K, In, Acc, Out]) total(k K, q *queue[Acc], panes []paneOf[K, Acc]) (bool, error) {
	h := o.hash(k)
	var front *part[Acc]
	if q.state&(inFront|stale) == inFront {
		front = o.front(k, h, q, panes)
	}
	if front == nil {
		var err error
		if front, err = o.turn(k, h, q, panes); err != nil {
			return false, err
		}
	}
	if front == nil {
		q.state = 0
		o.dead++
		return false, nil
	}
	if err := o.copy(&o.result, &front.suffix); err != nil {
		return false, err
	}
	if q.state&inBack != 0 {
		return true, o.merge(&o.result, &q.back)
	}
	return true, nil
}

// refire emits the windows that have fired and hold the record that came late. fresh: it is the first of its key in its
// pane.
func (o *sliding[K, In, Acc, Out]) refire(k K, h uint64, fresh bool) {
	at := o.rt.At
	w, ok := o.spec.First(at)
	for ; ok && w.Contains(at) && w.Last() <= o.rt.Watermark; w = o.spec.Next(w) {
		if o.isLate(w) {
			continue
		}
		parts, err := o.fold(k, h, w)
		if err != nil {
			o.rt.Fail(err)
			return
		}
		f := o.fired[w.Start]
		if f == nil {
			f = &firings[K]{}
			o.fired[w.Start] = f
		}
		n := 0
		if parts > 1 || !fresh || f.again != nil && f.again.Lookup(k, h) != nil {
			n = f.next(&o.rt.Counters.StateBytes, k, h)
		}
		o.emit(k, Firing{w, n}, &o.result)
	}
}

// fold puts the aggregate of a key over a window into o.result, without the queue, and returns in how many panes the key
// is.
func (o *sliding[K, In, Acc, Out]) fold(k K, h uint64, w window.Window) (parts int, err error) {
	lo, _ := o.find(w.Start)
	for i := lo; i < len(o.panes) && o.panes[i].start < w.End; i++ {
		x := o.panes[i].table.Lookup(k, h)
		switch {
		case x == nil:
			continue
		case parts == 0:
			err = o.copy(&o.result, &x.own)
		default:
			err = o.merge(&o.result, &x.own)
		}
		if err != nil {
			return parts, err
		}
		parts++
	}
	return parts, nil
}

// front is the oldest front pane of a key that is still in the window.
func (o *sliding[K, In, Acc, Out]) front(k K, h uint64, q *queue[Acc], panes []paneOf[K, Acc]) *part[Acc] {
	i := 0
	if len(panes) > 0 && panes[0].start < q.front {
		i, _ = slices.BinarySearchFunc(panes, q.front, comparePane)
	}
	for ; i < len(panes) && panes[i].start <= q.flip; i++ {
		p := &panes[i]
		if x := p.table.Lookup(k, h); x != nil {
			q.front = p.start
			return x
		}
	}
	return nil
}

// turn makes everything of a key in the window its front. nil: there is nothing.
func (o *sliding[K, In, Acc, Out]) turn(k K, h uint64, q *queue[Acc], panes []paneOf[K, Acc]) (front *part[Acc], err error) {
	q.state = 0
	for i := len(panes) - 1; i >= 0; i-- {
		x := panes[i].table.Lookup(k, h)
		if x == nil {
			continue
		}
		if err := o.copy(&x.suffix, &x.own); err != nil {
			return nil, err
		}
		if front == nil {
			q.flip = panes[i].start
		} else if err := o.merge(&x.suffix, &front.suffix); err != nil {
			return nil, err
		}
		front, q.front, q.state = x, panes[i].start, inFront
	}
	return front, nil
}

// Close drops the tables.
func (o *sliding[K, In, Acc, Out]) Close() error {
	for _, p := range o.panes {
		p.table.Release()
	}
	for _, t := range o.spare {
		t.Release()
	}
	for _, f := range o.fired { // any order: entries of a map
		f.release()
	}
	o.keys.Release()
	o.panes, o.spare = nil, nil
	o.uncache()
	return nil
}

var _ task.Operator = (*sliding[int, int, int, int])(nil)
