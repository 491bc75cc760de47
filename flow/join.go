package flow

import (
	"fmt"
	"time"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/operator/batch/join"
	stream "github.com/sluiceio/sluice/worker/operator/join"
	"github.com/sluiceio/sluice/worker/task"
)

// JoinOption sets how a join works. Those that choose a side change no result.
type JoinOption func(*joinOptions)

type joinOptions struct {
	left, right, broadcast bool
	lives                  bool // ttl was given
	ttl                    time.Duration
}

// JoinTTL is how long a record of either side waits for partners: until d after its arrival, by the clock of the machine. A
// join of which an input never ends needs it (E021). Between bounded inputs nothing expires.
func JoinTTL(d time.Duration) JoinOption {
	return func(o *joinOptions) { o.lives, o.ttl = true, d }
}

// BuildRight makes the join keep the right side, that of its argument, in memory and stream the left one past it. It is
// the default: put the smaller side right.
func BuildRight() JoinOption { return func(o *joinOptions) { o.right = true } }

// BuildLeft makes the join keep the left side in memory and stream the right one past it.
func BuildLeft() JoinOption { return func(o *joinOptions) { o.left = true } }

// BroadcastRight hands the whole right side to every subtask, so that the left one need not be moved: for a right side
// that is small. It works with Join and LeftJoin.
func BroadcastRight() JoinOption { return func(o *joinOptions) { o.broadcast = true } }

// Join calls f for each pair of records with equal keys; f may emit any number of results. A result has the later one of the
// two event times; the order of the results is not defined.
//
// Bounded inputs: one side, the right one unless BuildLeft is given, is kept in the operator's share of the batch memory, as
// far as it goes; what exceeds it waits on disk, with those records of the other side that could match it.
//
// If an input never ends, both sides are kept by key, each record for the time of JoinTTL, without which there is no plan
// (E021); a pair is emitted when the second of its records arrives.
func (k KeyedStream[K, T]) Join[B, R any](o KeyedStream[K, B], f func(T, B, func(R)), opts ...JoinOption) Stream[R] {
	return joined(k, o, "join", join.Spec[K, T, B, R]{Match: f}, opts)
}

// LeftJoin is Join that calls f once, without a right record, for each left record that has no partner; that result has the
// record's own time. If an input never ends, that is each record that finds no partner when it arrives: a right record that
// comes later makes its pair as well, and takes nothing back.
func (k KeyedStream[K, T]) LeftJoin[B, R any](o KeyedStream[K, B], f func(T, Opt[B], func(R)), opts ...JoinOption) Stream[R] {
	return joined(k, o, "leftjoin", join.Spec[K, T, B, R]{
		Match:    func(l T, r B, emit func(R)) { f(l, Some(r), emit) },
		LeftOnly: func(l T, emit func(R)) { f(l, Opt[B]{}, emit) },
	}, opts)
}

// FullJoin is LeftJoin for both sides: f is called once for each record of either side that has no partner.
func (k KeyedStream[K, T]) FullJoin[B, R any](o KeyedStream[K, B], f func(Opt[T], Opt[B], func(R)), opts ...JoinOption) Stream[R] {
	return joined(k, o, "fulljoin", join.Spec[K, T, B, R]{
		Match:     func(l T, r B, emit func(R)) { f(Some(l), Some(r), emit) },
		LeftOnly:  func(l T, emit func(R)) { f(Some(l), Opt[B]{}, emit) },
		RightOnly: func(r B, emit func(R)) { f(Opt[T]{}, Some(r), emit) },
	}, opts)
}

// joined adds a join: of bounded input, or one that need not end.
func joined[K comparable, T, B, R any](k KeyedStream[K, T], o KeyedStream[K, B], kind string, spec join.Spec[K, T, B, R], opts []JoinOption) Stream[R] {
	p := k.s.end.p
	if !p.same(o.s.end.p, kind) {
		return derive[R](p, p.add(kind, k.s.end.edge()))
	}
	how := p.joinOptions(kind, opts)
	spec.LeftKey, spec.RightKey, spec.Registry = k.key, o.key, p.registry
	if k.s.end.n.op.Bounded && o.s.end.n.op.Bounded {
		return hashJoined(k, o, kind, spec, how)
	}
	return streamJoined(k, o, kind, spec, how)
}

// hashJoined adds a join of bounded input. Its build side is wanted first.
func hashJoined[K comparable, T, B, R any](k KeyedStream[K, T], o KeyedStream[K, B], kind string, spec join.Spec[K, T, B, R], how joinOptions) Stream[R] {
	p := k.s.end.p
	left, right := k.s.end.edge(), o.s.end.edge()
	if how.left {
		spec.Build, right.Phase = join.Left, 1
	} else {
		left.Phase = 1
	}
	n := p.add(kind, left, right)
	stages := func() (task.StageOf[T, R], task.StageOf[B, R]) { return join.Stages(spec) }
	onLeft := func() task.Stage { st, _ := stages(); return st }
	onRight := func() task.Stage { _, st := stages(); return st }
	n.inputs = []input{keyedInput(k, onLeft), keyedInput(o, onRight)}
	if how.broadcast {
		left.Partitioner, right.Partitioner = jobpb.Partitioner_PARTITIONER_FORWARD, jobpb.Partitioner_PARTITIONER_BROADCAST
		n.op.Detail = "right side broadcast"
	} else {
		n.declare = append(n.declare, func(p *Pipeline) {
			declareKey[K](p, left, k.where)
			declareKey[K](p, right, o.where)
		})
	}
	n.spills()
	n.op.Unordered = true
	encodes[T](n)
	encodes[B](n)
	return derive[R](p, n)
}

// streamJoined adds a join that need not end. The sides of which one is built do not matter to it.
func streamJoined[K comparable, T, B, R any](k KeyedStream[K, T], o KeyedStream[K, B], kind string, spec join.Spec[K, T, B, R], how joinOptions) Stream[R] {
	p := k.s.end.p
	if how.broadcast {
		p.fault("E018", caller(), fmt.Sprintf("the %s broadcasts its right side, and an input never ends: %s", kind, endless(p, k.s.end.n, o.s.end.n)),
			"drop BroadcastRight, or keep the right side as broadcast state: KeyBy(…).ConnectBroadcast(…)")
	}
	out, n := paired[K, T, B, R](k, o, kind, func(*node) (task.Stage, task.Stage) {
		l, r := stream.Streaming[K, T, B, R]{
			LeftKey: spec.LeftKey, RightKey: spec.RightKey, Match: spec.Match, LeftOnly: spec.LeftOnly, RightOnly: spec.RightOnly,
			TTL: how.ttl, Registry: p.registry,
		}.Stages()
		return l, r
	})
	if !how.lives {
		p.fault("E021", n.op.Location, fmt.Sprintf("a %s keeps both sides, and %s", kind, endless(p, k.s.end.n, o.s.end.n)),
			"say how long a record waits for its partners: flow.JoinTTL(d)", "bound the source",
			"or join by time: IntervalJoin, WindowJoin, or KeyBy(…).Window(…) in front")
	}
	n.op.Detail = fmt.Sprintf("ttl %v", how.ttl)
	n.op.OrderDependent = spec.LeftOnly != nil || spec.RightOnly != nil
	declare[T](n, "list", "left")
	declare[B](n, "list", "right")
	return out
}

// endless names a source that never ends, of those that lead to these operators.
func endless(p *Pipeline, ends ...*node) string {
	for _, n := range ends {
		if n.op.Bounded {
			continue
		}
		op := n.op
		for len(op.Inputs) > 0 {
			for _, in := range op.Inputs {
				if next := p.nodes[in.Operator].op; !next.Bounded {
					op = next
					break
				}
			}
		}
		return fmt.Sprintf("source %q (at %s) never ends", op.Id, op.Location)
	}
	return ""
}

func (p *Pipeline) joinOptions(kind string, opts []JoinOption) (how joinOptions) {
	for _, opt := range opts {
		opt(&how)
	}
	if how.lives && how.ttl < time.Microsecond {
		p.fault("E018", caller(), fmt.Sprintf("the time to live of a %s is %v", kind, how.ttl), "use a microsecond or more")
	}
	if how.left && how.right {
		p.fault("E018", caller(), kind+" is to build both sides", "choose one of BuildLeft and BuildRight: the smaller side")
	}
	if how.broadcast && kind == "fulljoin" {
		p.fault("E018", caller(), "a full join cannot broadcast its right side: every subtask would find the same records without partner",
			"drop BroadcastRight, or use LeftJoin")
	}
	return how
}

// same reports whether a stream is of this pipeline.
func (p *Pipeline) same(other *Pipeline, kind string) bool {
	if p == other {
		return true
	}
	p.fault("E018", caller(), fmt.Sprintf("a %s with a stream of another pipeline", kind), "build both with the same Pipeline")
	return false
}
