package async

import (
	"context"
	"fmt"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/worker/state/unkeyed"
	"github.com/sluiceio/sluice/worker/task"
)

// Defaults of a Spec.
const (
	DefaultInFlight = 64
	DefaultTimeout  = 10 * time.Second
)

// Spec is what is called, and how.
type Spec[In, Out any] struct {
	// Call is shared by all calls of a process. Its context ends when its time is over, and when the attempt has to stop.
	Call func(context.Context, In) (Out, error)
	// InFlight is the largest number of records in the queue, and of calls that have not returned.
	InFlight int
	// Timeout is how long one call may take.
	Timeout time.Duration
	// Unordered lets results overtake each other between two watermarks.
	Unordered bool
	// Retries is how often a record is tried again after a failure; Backoff how long it rests before the first time, and
	// twice as long before each further one.
	Retries int
	Backoff time.Duration
	// Failed decides about a record that has failed for good. Nil: the attempt fails.
	Failed func(rt *task.Runtime) Failed[In]
	// Registry has the codecs of the pipeline; nil: none.
	Registry *codec.Registry
}

// Failed decides about a record that has failed for good: position is where it came from.
type Failed[In any] func(v In, err error, position string)

// Stage is the operator.
func (s Spec[In, Out]) Stage() task.StageOf[In, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		list, err := unkeyed.NewList[element[In]](rt.Options("in-flight", s.Registry), unkeyed.Groups{First: rt.KeyGroups.First, End: rt.KeyGroups.End})
		if err != nil {
			return nil, nil, fmt.Errorf("calls in flight: %w", err)
		}
		rt.Keep(list)
		o := &operator[In, Out]{
			spec: s, rt: rt, out: out, list: list, calls: run.NewGroup(rt.Ctx, "calls"), returned: make(chan struct{}, 1),
			failed: func(_ In, err error, position string) { rt.FailAt(err, position) },
		}
		if s.Failed != nil {
			o.failed = s.Failed(rt)
		}
		return o.push, o, nil
	}
}

// Skip drops a record that has failed, unless the error is fatal.
func Skip[In any](rt *task.Runtime) Failed[In] {
	return func(_ In, err error, position string) {
		if connector.IsFatal(err) {
			rt.FailAt(err, position)
			return
		}
		rt.SkipAt(err, position)
	}
}
