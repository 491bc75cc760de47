package sample

import (
	"cmp"
	"slices"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/batch"
	"github.com/sluiceio/sluice/worker/operator/batch/sort"
	"github.com/sluiceio/sluice/worker/task"
)

// Bounds are the quantiles of a bounded input, ascending. Keys below the first one are range 0.
type Bounds[K any] struct{ Keys []K }

// maxBounds is the most quantiles.
const maxBounds = Size - 1

// Quantiles emits one Bounds when the input has ended. It depends on the set of samples, not on the order of their arrival.
func Quantiles[K any](o sort.Order[K]) task.StageOf[Sample[K], Bounds[K]] {
	return func(rt *task.Runtime, out task.Push[Bounds[K]]) (task.Push[Sample[K]], task.Operator, error) {
		q := &quantiles[K]{rt: rt, out: out, order: o}
		return q.add, q, nil
	}
}

type quantiles[K any] struct {
	task.Base
	batch.Holder
	rt    *task.Runtime
	out   task.Push[Bounds[K]]
	order sort.Order[K]
	all   []weighted[K]
	ended bool
}

// weighted is a key and how many records it stands for.
type weighted[K any] struct {
	key    K
	weight float64
}

func (q *quantiles[K]) add(s Sample[K]) {
	for _, k := range s.Keys {
		q.all = append(q.all, weighted[K]{k, float64(s.Seen) / float64(len(s.Keys))})
	}
}

// OnWatermark emits the quantiles at the end.
func (q *quantiles[K]) OnWatermark(t element.Time) error {
	if t == element.MaxTime && !q.ended {
		q.ended = true
		q.rt.At = t
		q.out(q.bounds())
	}
	return nil
}

// bounds takes a key wherever a further share of the weight is reached. Keys that compare equal stand in the order of their
// weights, so that sums of floats do not depend on who came first.
func (q *quantiles[K]) bounds() (b Bounds[K]) {
	slices.SortFunc(q.all, func(x, y weighted[K]) int {
		if c := q.order.Compare(x.key, y.key); c != 0 {
			return c
		}
		return cmp.Compare(x.weight, y.weight)
	})
	total := 0.0
	for _, w := range q.all {
		total += w.weight
	}
	n := min(maxBounds, len(q.all))
	reached := 0.0
	for _, w := range q.all {
		for reached += w.weight; len(b.Keys) < n && reached >= total*float64(len(b.Keys)+1)/float64(n+1); {
			b.Keys = append(b.Keys, w.key)
		}
	}
	return b
}
