package flow

import (
	"fmt"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/operator/batch/top"
	"github.com/sluiceio/sluice/worker/task"
)

// Ranked is a record with its place among those that TopN has chosen.
type Ranked[T any] struct {
	Rank  int64 // from 1
	Value T
}

// TopN chooses the first n records of a bounded stream (E021) in the order of cmp, as slices.SortFunc would order them, and
// emits them in that order at the end of the input, each with its own time. Of records that compare equal the ones that
// arrive first are chosen.
func TopN[T any, R interface{ Ranked[T] }](s Stream[T], n int, cmp func(a, b T) int) Stream[R] {
	p := s.end.p
	checkTop(p, n, cmp)
	spec := func() top.Spec[T] { return top.Spec[T]{N: n, Compare: cmp, Registry: p.registry} }
	// Each subtask in front sends its own first n only.
	local, ln := unary[T, T](s, "topn.local", func(*node) task.Stage { return top.Overall(spec()) })
	ln.spills()
	ln.op.OrderDependent = true
	ln.follow(s.end.n)
	local.end.part = jobpb.Partitioner_PARTITIONER_GLOBAL
	out, on := unary[T, R](local, "topn", func(*node) task.Stage {
		return ranked[T, R](top.Overall(spec()), func(T, T) bool { return true })
	})
	on.spills()
	on.parts = []part{{ln, "local"}}
	on.op.OrderDependent, on.op.Detail = true, fmt.Sprintf("the first %d", n)
	return out
}

// TopNByKey chooses the first n records of each key of a bounded stream (E021) in the order of cmp, as slices.SortFunc would
// order them, and emits them in that order at the end of the input, each with its own time. Of records that compare
// equal the ones that arrive first are chosen.
//
// It is a function because a method of KeyedStream[K, T] cannot return a Stream[Ranked[T]].
func TopNByKey[K comparable, T any, R interface{ Ranked[T] }](k KeyedStream[K, T], n int, cmp func(a, b T) int) Stream[R] {
	p := k.s.end.p
	checkTop(p, n, cmp)
	out, on := keyedUnary[K, T, R](k, "topn", func(*node) task.Stage {
		sameKey := func(a, b T) bool { return k.key(a) == k.key(b) }
		return ranked[T, R](top.PerKey(k.key, top.Spec[T]{N: n, Compare: cmp, Registry: p.registry}), sameKey)
	})
	on.spills()
	on.op.Unordered = true
	on.op.OrderDependent, on.op.Detail = true, fmt.Sprintf("the first %d of each key", n)
	return out
}

func checkTop[T any](p *Pipeline, n int, cmp func(a, b T) int) {
	if n < 1 {
		p.fault("E018", caller(), fmt.Sprintf("the first %d records are none", n), "choose 1 or more")
	}
	if cmp == nil {
		p.fault("E018", caller(), "the first records of no order", "give a function that compares two records, as for slices.SortFunc")
	}
}

// ranked numbers what st emits; the numbers begin anew where the group changes.
func ranked[T any, R interface{ Ranked[T] }](st task.StageOf[T, T], sameGroup func(a, b T) bool) task.StageOf[T, R] {
	return func(rt *task.Runtime, out task.Push[R]) (task.Push[T], task.Operator, error) {
		var rank int64
		var last T
		return st(rt, func(v T) {
			if rank > 0 && !sameGroup(last, v) {
				rank = 0
			}
			rank++
			last = v
			out(R(Ranked[T]{rank, v}))
		})
	}
}
