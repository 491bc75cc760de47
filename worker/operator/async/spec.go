package async

import (
	"context"
	"fmt"
	"time"

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
	// OnError says how often a record is tried again after a failure, and what becomes of one that has failed for good.
	OnError task.ErrorPolicy
	// Registry has the codecs of the pipeline; nil: none.
	Registry *codec.Registry
}

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
		}
		o.spec.OnError.Registry = s.Registry
		o.failed, err = task.NewFailed[In](rt, o.spec.OnError)
		return o.push, o, err
	}
}
