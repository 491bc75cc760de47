package window

import (
	"cmp"
	"slices"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/window"
	"github.com/sluiceio/sluice/worker/operator/table"
	"github.com/sluiceio/sluice/worker/task"
)

// Tumbling aggregates by key and tumbling window.
func Tumbling[K comparable, In, Acc, Out any](spec window.Tumbling, a Aggregation[K, In, Acc, Out]) task.StageOf[In, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		c, err := newCommon(rt, out, a)
		if err != nil {
			return nil, nil, err
		}
		o := &tumbling[K, In, Acc, Out]{common: c, spec: spec}
		o.uncache()
		return o.push, o, nil
	}
}

// bucket is a window that still takes records, with its accumulators.
type bucket[K comparable, Acc any] struct {
	win   window.Window
	table *table.Table[K, Acc]
	fired bool
	firings[K]
}

type tumbling[K comparable, In, Acc, Out any] struct {
	common[K, In, Acc, Out]
	spec window.Tumbling

	// cur is the window of the last record: most records follow one of the same window. cur.Start > cur.End: none.
	cur     window.Window
	table   *table.Table[K, Acc]
	refires *bucket[K, Acc] // the one of cur, if it has fired

	buckets []*bucket[K, Acc]    // ordered by time
	fired   int                  // the first ones, which wait for late records
	spare   *table.Table[K, Acc] // cleared, of a window that is over
}

func (o *tumbling[K, In, Acc, Out]) push(v In) {
	if at := o.rt.At; at < o.cur.Start || at >= o.cur.End {
		if !o.seek(at) {
			o.drop(v)
			return
		}
	}
	k := o.agg.Key(v)
	h := o.hash(k)
	acc, fresh := o.table.Find(k, h)
	if fresh && o.agg.New != nil {
		*acc = o.agg.New()
	}
	o.agg.Add(acc, v)
	if o.refires != nil {
		n := 0
		if !fresh || o.refires.again != nil && o.refires.again.Lookup(k, h) != nil {
			n = o.refires.next(&o.rt.Counters.StateBytes, k, h)
		}
		o.emit(k, Firing{o.cur, n}, acc)
	}
}

// seek makes the window of at the current one. It is false if that window is over.
func (o *tumbling[K, In, Acc, Out]) seek(at element.Time) bool {
	win := o.spec.Assign(at)
	if o.isLate(win) {
		return false
	}
	i, found := slices.BinarySearchFunc(o.buckets, win.Start, func(b *bucket[K, Acc], start element.Time) int {
		return cmp.Compare(b.win.Start, start)
	})
	if !found {
		b := &bucket[K, Acc]{win: win, table: o.fresh(), fired: win.Last() <= o.rt.Watermark}
		o.buckets = slices.Insert(o.buckets, i, b)
		if b.fired {
			o.fired++
		}
	}
	b := o.buckets[i]
	o.cur, o.table, o.refires = win, b.table, nil
	if b.fired {
		o.refires = b
	}
	return true
}

func (o *tumbling[K, In, Acc, Out]) fresh() *table.Table[K, Acc] {
	t := o.spare
	o.spare = nil
	if t == nil {
		t = table.New[K, Acc](&o.rt.Counters.StateBytes)
	}
	return t
}

func (o *tumbling[K, In, Acc, Out]) uncache() {
	o.cur, o.table, o.refires = window.Window{Start: element.MaxTime, End: element.MinTime}, nil, nil
}

// OnWatermark fires every window whose last instant is covered, the oldest first, and forgets those that are over.
func (o *tumbling[K, In, Acc, Out]) OnWatermark(t element.Time) error {
	before := o.fired
	for o.fired < len(o.buckets) && o.buckets[o.fired].win.Last() <= t {
		b := o.buckets[o.fired]
		b.fired = true
		o.fired++
		if err := o.fire(b); err != nil {
			return err
		}
	}
	n := 0
	for n < o.fired && o.expired(o.buckets[n].win, t) {
		o.recycle(o.buckets[n])
		n++
	}
	o.buckets = slices.Delete(o.buckets, 0, n)
	o.fired -= n
	if n > 0 || o.fired != before {
		o.uncache()
	}
	return nil
}

func (o *tumbling[K, In, Acc, Out]) fire(b *bucket[K, Acc]) error {
	last := b.win.Last()
	return b.table.Each(func(k K, acc *Acc) error {
		o.rt.At = last
		o.out(o.agg.Result(k, Firing{Window: b.win}, acc))
		return o.rt.Stopped()
	})
}

func (o *tumbling[K, In, Acc, Out]) recycle(b *bucket[K, Acc]) {
	b.release()
	if o.spare != nil {
		b.table.Release()
		return
	}
	b.table.Clear()
	o.spare = b.table
}

// Close drops the tables.
func (o *tumbling[K, In, Acc, Out]) Close() error {
	for _, b := range o.buckets {
		b.table.Release()
		b.release()
	}
	if o.spare != nil {
		o.spare.Release()
	}
	o.buckets, o.spare, o.fired = nil, nil, 0
	o.uncache()
	return nil
}
