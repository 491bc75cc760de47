package flow

import (
	"context"
	"fmt"
	"time"

	"github.com/sluiceio/sluice/worker/operator/async"
	"github.com/sluiceio/sluice/worker/operator/gather"
	"github.com/sluiceio/sluice/worker/task"
)

// AsyncOption sets how AsyncMap calls its function.
type AsyncOption func(*asyncOptions)

type asyncOptions struct {
	inFlight  int
	timeout   time.Duration
	unordered bool
	retries   int
	backoff   time.Duration
}

// InFlight is how many records of a subtask are called for at a time. The default is 64.
func InFlight(n int) AsyncOption { return func(o *asyncOptions) { o.inFlight = n } }

// Timeout is how long one call may take. The default is ten seconds.
func Timeout(d time.Duration) AsyncOption { return func(o *asyncOptions) { o.timeout = d } }

// Unordered lets results overtake each other between two watermarks. No result passes a watermark.
func Unordered() AsyncOption { return func(o *asyncOptions) { o.unordered = true } }

// AsyncRetry is OnError(Retry(n, backoff, …)) without saying what comes then. What is marked by Fatal is not tried again.
func AsyncRetry(n int, backoff time.Duration) AsyncOption {
	return func(o *asyncOptions) { o.retries, o.backoff = n, backoff }
}

// maxInFlight bounds InFlight: each call has a goroutine, and the queue is looked through.
const maxInFlight = 10_000

// AsyncMap replaces each record by f of it, calling f for many records at a time: for services that take their time. Results
// have the times of their records, and come in the order of the records unless Unordered is given.
//
// f is shared by all calls of a process. Its context ends when Timeout is over or the attempt has to stop; the result of a
// call that ignores it is dropped, and its place among the calls stays taken until it returns. OnError decides about a record
// that fails for good. While InFlight records are under way no input is read.
//
// Records under way are part of a snapshot, which does not wait for them: after a restore they are called again.
func (s Stream[T]) AsyncMap[U any](f func(context.Context, T) (U, error), opts ...AsyncOption) Stream[U] {
	o := asyncOptions{inFlight: async.DefaultInFlight, timeout: async.DefaultTimeout}
	for _, opt := range opts {
		opt(&o)
	}
	if o.inFlight < 1 || o.inFlight > maxInFlight || o.timeout <= 0 || o.retries < 0 || o.backoff < 0 {
		s.end.p.fault("E018", caller(), fmt.Sprintf("AsyncMap with %d records in flight, a timeout of %v and %d retries after %v", o.inFlight, o.timeout, o.retries, o.backoff),
			fmt.Sprintf("use 1 to %d records, a timeout above zero, and no negative numbers", maxInFlight))
	}
	u, n := unary[T, U](s, "async", func(n *node) task.Stage {
		pol := n.policyOf(s.end.p)
		if pol.Retries == 0 {
			pol.Retries, pol.Backoff = o.retries, o.backoff
		}
		return async.Spec[T, U]{
			Call: f, InFlight: o.inFlight, Timeout: o.timeout, Unordered: o.unordered, OnError: pol, Registry: s.end.p.registry,
		}.Stage()
	})
	n.op.Stateful, n.policy, n.op.Unordered = true, true, o.unordered
	n.op.Detail = fmt.Sprintf("%d in flight, timeout %v", o.inFlight, o.timeout)
	declare[T](n, "list", "in-flight")
	return u
}

// Batch hands records on by the batch: of at most max, or as many as have come when linger is over since the first of them. A
// batch has the largest time of its records; watermarks wait for it. Each batch is a slice of its own.
func Batch[T any](s Stream[T], max int, linger time.Duration) Stream[[]T] {
	if max < 1 || linger <= 0 {
		s.end.p.fault("E018", caller(), fmt.Sprintf("batches of %d records that wait %v", max, linger), "use a size of at least 1 and a time above zero")
	}
	u, n := unary[T, []T](s, "batch", func(*node) task.Stage {
		return gather.Spec[T]{Max: max, Linger: linger, Registry: s.end.p.registry}.Stage()
	})
	n.op.Stateful = true
	n.op.OrderDependent = true
	n.op.Nondeterministic = true // where a batch ends is for the clock to say
	n.op.Detail = fmt.Sprintf("up to %d, or after %v", max, linger)
	declare[T](n, "list", "batch")
	return u
}
