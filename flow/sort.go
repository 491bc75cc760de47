package flow

import (
	"cmp"
	"fmt"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/operator/batch/sample"
	batchsort "github.com/sluiceio/sluice/worker/operator/batch/sort"
	"github.com/sluiceio/sluice/worker/task"
)

// SortOption sets the order of SortBy.
type SortOption func(*sortOptions)

type sortOptions struct{ descending bool }

// Descending sorts from the largest key to the smallest.
func Descending() SortOption { return func(o *sortOptions) { o.descending = true } }

// SortBy sorts a bounded stream (E021) by key. It is a total order: subtask i of the operator emits the i-th range of keys,
// sorted, and no later subtask has a key that belongs before. The part files of a file sink that is chained to it are in
// order by their names. Records with equal keys come in the order in which they arrive. NaN comes before every other number.
//
// The ranges come from a sample of the keys, so that subtasks have about equally much to do; all records of one key go to one
// subtask. The input is stored while the sample is taken: its exchange cannot be pipelined.
func SortBy[T any, K cmp.Ordered](s Stream[T], key func(T) K, opts ...SortOption) Stream[T] {
	var o sortOptions
	for _, opt := range opts {
		opt(&o)
	}
	order, direction := batchsort.Ascending[K](), "ascending"
	if o.descending {
		order, direction = batchsort.Descending[K](), "descending"
	}
	p := s.end.p
	ranges, rn, before := sampledRanges(s, key, order)
	rn.follow(s.end.n)
	n := p.add("sort", ranges.end.edge())
	n.parts = append([]part{{rn, "ranges"}}, before...)
	n.inputs = []input{inputOf(ranges, func() task.Stage {
		return sample.Unwrap(batchsort.Sorted(batchsort.Spec[K, T]{Key: key, Order: order, Registry: p.registry}))
	})}
	n.spills()
	n.op.Detail = fmt.Sprintf("%s by %T", direction, *new(K))
	return derive[T](p, n)
}

// sampledRanges says of each record which range of keys it belongs to. The sample is taken by a branch of what produces s,
// while the records themselves are stored. before are the operators in front of the one that says so.
func sampledRanges[T any, K cmp.Ordered](s Stream[T], key func(T) K, order batchsort.Order[K]) (ranges Stream[sample.Ranged[T]], n *node, before []part) {
	p := s.end.p
	taken := Stream[T]{end: &outlet{p: p, n: s.end.n, port: s.end.port}}
	samples, sn := unary[T, sample.Sample[K]](taken, "sample", func(*node) task.Stage { return sample.Keys(key) })
	sn.op.OrderDependent = true
	sn.follow(s.end.n)
	samples.end.part = jobpb.Partitioner_PARTITIONER_GLOBAL
	bounds, bn := unary[sample.Sample[K], sample.Bounds[K]](samples, "quantiles", func(*node) task.Stage { return sample.Quantiles(order) })
	bn.op.Parallelism = 1
	bounds.end.part = jobpb.Partitioner_PARTITIONER_BROADCAST

	records := s.end.whole("SortBy", "its records are read again when their sample is known")
	records.Phase = 1
	n = p.add("ranges", bounds.end.edge(), records)
	inBounds, inRecords := sample.Router(key, order, p.registry)
	n.inputs = []input{
		inputOf(bounds, func() task.Stage { return inBounds }),
		inputOf(s, func() task.Stage { return inRecords }),
	}
	n.spills()
	ranges = derive[sample.Ranged[T]](p, n)
	ranges.end.part, ranges.end.to = jobpb.Partitioner_PARTITIONER_CUSTOM, sample.Route[T]
	return ranges, n, []part{{sn, "sample"}, {bn, "quantiles"}}
}

// follow gives n the parallelism and the slot group of the operator in front of it, whatever that gets, so that the two can
// be chained.
func (n *node) follow(front *node) {
	n.declare = append(n.declare, func(*Pipeline) {
		n.op.Parallelism, n.op.SlotGroup = front.op.Parallelism, front.op.SlotGroup
	})
}
