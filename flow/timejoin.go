package flow

import (
	"fmt"
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/join"
	"github.com/sluiceio/sluice/worker/task"
)

// IntervalJoin calls f for each pair of records with equal keys of which that of o is between lo and hi later than that of k,
// both included; negative durations are earlier. f may emit any number of results, which have the later one of the two event
// times. A pair is emitted when the second of its records arrives.
//
// Both sides are kept until the watermark has passed every partner they could find. A record at or below the watermark is
// late: it is counted and dropped.
func (k KeyedStream[K, T]) IntervalJoin[B, R any](o KeyedStream[K, B], lo, hi time.Duration, f func(T, B, func(R))) Stream[R] {
	const kind = "intervaljoin"
	p := k.s.end.p
	if lo > hi {
		p.fault("E018", caller(), fmt.Sprintf("the interval from %v to %v is empty", lo, hi), "give the earlier limit first; negative durations are before")
	}
	out, n := paired[K, T, B, R](k, o, kind, func(*node) (task.Stage, task.Stage) {
		l, r := join.Interval[K, T, B, R]{
			LeftKey: k.key, RightKey: o.key, Match: f, Registry: p.registry,
			Lower: element.Time(lo.Microseconds()), Upper: element.Time(hi.Microseconds()),
		}.Stages()
		return l, r
	})
	n.op.Detail = fmt.Sprintf("from %v to %v", lo, hi)
	declare[T](n, "list", "left")
	declare[B](n, "list", "right")
	return out
}

// JoinLatest calls f for each record of k, with the record of o that has the latest event time of those of its key that have
// arrived; of equal times the last to arrive. f may emit any number of results, which have the time of the record of k.
//
// What has arrived is for the order of arrival to say: results may differ when records are processed again, unless both
// inputs are stored; then o is read first. To load a bounded o before anything else, use Bootstrap. With JoinTTL a record
// of o counts for so long after its arrival, otherwise until a later one replaces it.
func (k KeyedStream[K, T]) JoinLatest[B, R any](o KeyedStream[K, B], f func(T, Opt[B], func(R)), opts ...JoinOption) Stream[R] {
	const kind = "latest"
	p := k.s.end.p
	how := p.joinOptions(kind, opts)
	if how.left || how.right || how.broadcast {
		p.fault("E018", caller(), "JoinLatest keeps one record per key of the right side, whichever side is to be built", "drop BuildLeft, BuildRight and BroadcastRight")
	}
	out, n := paired[K, T, B, R](k, o, kind, func(*node) (task.Stage, task.Stage) {
		l, r := join.Latest[K, T, B, R]{
			LeftKey: k.key, RightKey: o.key, TTL: how.ttl, Registry: p.registry,
			Found:   func(v T, b B, emit func(R)) { f(v, Some(b), emit) },
			Missing: func(v T, emit func(R)) { f(v, Opt[B]{}, emit) },
		}.Stages()
		return l, r
	})
	if n.op.Bounded && len(n.op.Inputs) == 2 {
		n.op.Inputs[0].Phase = 1
	}
	if how.lives {
		n.op.Detail = fmt.Sprintf("ttl %v", how.ttl)
	}
	n.op.OrderDependent = true
	declare[B](n, "value", "latest")
	return out
}
