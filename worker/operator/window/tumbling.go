package window

import (
	"cmp"
	"slices"

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
	// Result is called once per key when its window fires.
	Result func(k K, w window.Window, acc *Acc) Out
	// LateOutput names the side output that takes late records; empty: they are dropped.
	LateOutput string
}

// Tumbling aggregates by key and tumbling window.
func Tumbling[K comparable, In, Acc, Out any](spec window.Tumbling, a Aggregation[K, In, Acc, Out]) task.StageOf[In, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		hash, err := codec.Hasher[K]()
		if err != nil {
			return nil, nil, err
		}
		o := &tumbling[K, In, Acc, Out]{rt: rt, out: out, spec: spec, agg: a, hash: hash}
		o.uncache()
		if a.LateOutput != "" {
			push, err := task.SideOutput[In](rt, a.LateOutput)
			if err != nil {
				return nil, nil, err
			}
			o.late = push
		}
		return o.push, o, nil
	}
}

// pane is a window that has not fired, with its accumulators.
type pane[K comparable, Acc any] struct {
	win   window.Window
	table *table.Table[K, Acc]
}

type tumbling[K comparable, In, Acc, Out any] struct {
	task.Base
	rt   *task.Runtime
	out  task.Push[Out]
	late task.Push[In] // nil: late records are dropped
	spec window.Tumbling
	hash func(K) uint64
	agg  Aggregation[K, In, Acc, Out]

	// cur is the window of the last record: most records follow one of the same window. cur.Start > cur.End: none.
	cur   window.Window
	table *table.Table[K, Acc]

	panes []pane[K, Acc]       // ordered by time
	spare *table.Table[K, Acc] // cleared, of a window that has fired
}

func (o *tumbling[K, In, Acc, Out]) push(v In) {
	if at := o.rt.At; at < o.cur.Start || at >= o.cur.End {
		if !o.seek(at) {
			o.rt.Counters.Late++
			if o.late != nil {
				o.late(v)
			}
			return
		}
	}
	k := o.agg.Key(v)
	acc, fresh := o.table.Find(k, o.hash(k))
	if fresh && o.agg.New != nil {
		*acc = o.agg.New()
	}
	o.agg.Add(acc, v)
}

// seek makes the window of at the current one. It is false if that window has fired.
func (o *tumbling[K, In, Acc, Out]) seek(at element.Time) bool {
	win := o.spec.Assign(at)
	if win.Last() <= o.rt.Watermark {
		return false
	}
	i, found := slices.BinarySearchFunc(o.panes, win.Start, func(p pane[K, Acc], start element.Time) int {
		return cmp.Compare(p.win.Start, start)
	})
	if !found {
		o.panes = slices.Insert(o.panes, i, pane[K, Acc]{win, o.fresh()})
	}
	o.cur, o.table = win, o.panes[i].table
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
	o.cur, o.table = window.Window{Start: element.MaxTime, End: element.MinTime}, nil
}

// OnWatermark fires every window whose last instant is covered, the oldest first.
func (o *tumbling[K, In, Acc, Out]) OnWatermark(t element.Time) error {
	n := 0
	for n < len(o.panes) && o.panes[n].win.Last() <= t {
		if err := o.fire(o.panes[n]); err != nil {
			return err
		}
		n++
	}
	if n == 0 {
		return nil
	}
	o.panes = slices.Delete(o.panes, 0, n)
	o.uncache()
	return nil
}

func (o *tumbling[K, In, Acc, Out]) fire(p pane[K, Acc]) error {
	last := p.win.Last()
	err := p.table.Each(func(k K, acc *Acc) error {
		o.rt.At = last
		o.out(o.agg.Result(k, p.win, acc))
		return o.rt.Stopped()
	})
	if err != nil {
		return err
	}
	if o.spare != nil {
		p.table.Release()
		return nil
	}
	p.table.Clear()
	o.spare = p.table
	return nil
}

// Close drops the tables.
func (o *tumbling[K, In, Acc, Out]) Close() error {
	for _, p := range o.panes {
		p.table.Release()
	}
	if o.spare != nil {
		o.spare.Release()
	}
	o.panes, o.spare = nil, nil
	o.uncache()
	return nil
}
