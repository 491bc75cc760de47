package edge

import (
	"fmt"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/worker/task/chain"
	"github.com/sluiceio/sluice/worker/task/fault"
	"github.com/sluiceio/sluice/worker/task/layout"
)

// livePush is the push of a live edge.
func (x *exchange[T]) livePush(w *shuffle.Writer[T], j Joint) chain.Push[T] {
	ends := j.Live.Ends
	if j.Edge.Partitioner == jobpb.Partitioner_PARTITIONER_CUSTOM { // it is asked even if there is one consumer: it may be wrong
		return x.route(w, j)
	}
	if len(ends) == 1 { // whatever the partitioner, it leads there
		return toFirst(w, j.Runtime)
	}
	switch j.Edge.Partitioner {
	case jobpb.Partitioner_PARTITIONER_HASH:
		return x.route(w, j)
	case jobpb.Partitioner_PARTITIONER_BROADCAST:
		if x.codec.Flat() {
			return toAll(w, j.Runtime, len(ends))
		}
		return copiesToAll(w, j.Runtime, ends, x.codec)
	case jobpb.Partitioner_PARTITIONER_REBALANCE, jobpb.Partitioner_PARTITIONER_RESCALE:
		return inTurn(w, j.Runtime, len(ends), firstTurn(j, len(ends)))
	}
	return toFirst(w, j.Runtime) // forward and global
}

// firstTurn: producers start at different consumers, so that short inputs spread, too.
func firstTurn(j Joint, consumers int) int { return int(j.Self.Index) % consumers }

func toOwner[K comparable, T any](w *shuffle.Writer[T], j Joint, key func(T) K, hash func(K) uint64) chain.Push[T] {
	rt, owner := j.Runtime, layout.Owners(len(j.Live.Ends), j.Runtime.MaxParallelism)
	groups := len(owner)
	return func(v T) {
		to := owner[codec.KeyGroup(hash(key(v)), groups)]
		if err := w.Add(int(to), v, rt.At); err != nil {
			rt.Fail(err)
		}
	}
}

func toChosen[T any](w *shuffle.Writer[T], j Joint, route func(v T, consumers int) int) chain.Push[T] {
	rt, consumers, id := j.Runtime, len(j.Live.Ends), j.To
	return func(v T) {
		to := route(v, consumers)
		if uint(to) >= uint(consumers) {
			rt.Fail(outOfRange(id, to, consumers))
			return
		}
		if err := w.Add(to, v, rt.At); err != nil {
			rt.Fail(err)
		}
	}
}

// outOfRange is the fault of a partitioner, which belongs to the operator behind the edge.
func outOfRange(operator string, index, consumers int) error {
	return &fault.Fault{
		Kind: jobpb.FailureKind_FAILURE_USER, Code: fault.CodeRoute, Operator: operator,
		Err: fmt.Errorf("the partitioner in front of %s returned consumer %d of %d: indices count from 0", operator, index, consumers),
	}
}

func toFirst[T any](w *shuffle.Writer[T], rt *chain.Runtime) chain.Push[T] {
	return func(v T) {
		if err := w.Add(0, v, rt.At); err != nil {
			rt.Fail(err)
		}
	}
}

func inTurn[T any](w *shuffle.Writer[T], rt *chain.Runtime, consumers, next int) chain.Push[T] {
	return func(v T) {
		if err := w.Add(next, v, rt.At); err != nil {
			rt.Fail(err)
		}
		if next++; next == consumers {
			next = 0
		}
	}
}

func toAll[T any](w *shuffle.Writer[T], rt *chain.Runtime, consumers int) chain.Push[T] {
	return func(v T) {
		for to := range consumers {
			if err := w.Add(to, v, rt.At); err != nil {
				rt.Fail(err)
			}
		}
	}
}

// copiesToAll is toAll for records that are more than their bytes: what slices, maps and pointers lead to would be shared
// by consumers of this process, each on a goroutine of its own. They get what one in another process would get.
func copiesToAll[T any](w *shuffle.Writer[T], rt *chain.Runtime, ends []shuffle.End, c *codec.Codec[T]) chain.Push[T] {
	var enc []byte
	send := func(to int, v T) error {
		if ends[to].Peer != nil { // it is encoded in any case
			return w.Add(to, v, rt.At)
		}
		var err error
		if enc, err = c.Append(enc[:0], &v); err != nil {
			return err
		}
		var own T
		if _, err := c.Decode(enc, &own); err != nil {
			return err
		}
		return w.Add(to, own, rt.At)
	}
	return func(v T) {
		for to := range ends {
			if err := send(to, v); err != nil {
				rt.Fail(err)
			}
		}
	}
}
