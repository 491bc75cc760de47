package task

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task/fault"
)

// FinalCheckpoint is the id under which the last output of a bounded job is prepared.
const FinalCheckpoint element.CheckpointID = 1

// flushEvery is how long a sink without commit may hold back what it was given: a job that never ends has readers, too.
const flushEvery = 100 * time.Millisecond

// NewSink is the stage of a sink: Write per record, Flush now and then if its output needs no commit to be seen; Flush,
// End and Prepare at the end of the input. What Prepare returns goes to the coordinator with the report that the subtask
// has finished.
func NewSink[T any](s connector.Sink[T]) Stage {
	return StageOf[T, struct{}](func(rt *Runtime, _ Push[struct{}]) (Push[T], Operator, error) {
		w, err := s.OpenWriter(rt.Ctx, rt.Task, nil)
		if err != nil {
			return nil, nil, &sinkError{"open", err}
		}
		_, commits := s.(connector.CommittingSink)
		o := &sinkOperator[T]{rt: rt, w: w, timed: commits}
		return func(v T) {
			if err := w.Write(rt.Ctx, v, rt.At); err != nil {
				rt.fail(&sinkError{"write", err}, fault.CodeSink)
			}
			rt.written++
			if !o.timed {
				o.timed = true
				rt.WakeAt(rt.Now().Add(flushEvery))
			}
		}, o, nil
	})
}

// sinkError is an error of a sink's writer.
type sinkError struct {
	step string
	err  error
}

func (e *sinkError) Error() string { return e.step + ": " + e.err.Error() }
func (e *sinkError) Unwrap() error { return e.err }

type sinkOperator[T any] struct {
	Base
	rt *Runtime
	w  connector.Writer[T]
	// timed: a flush is due, or none ever is because output is seen by commit only.
	timed bool
}

// OnTime flushes what was written since the last time.
func (o *sinkOperator[T]) OnTime(time.Time) error {
	o.timed = false
	if err := o.w.Flush(o.rt.Ctx); err != nil {
		return &sinkError{"flush", err}
	}
	return nil
}

func (o *sinkOperator[T]) Finish() error {
	ctx := o.rt.Ctx
	if err := o.w.Flush(ctx); err != nil {
		return &sinkError{"flush", err}
	}
	if err := o.w.End(ctx); err != nil {
		return &sinkError{"end", err}
	}
	cs, err := o.w.Prepare(ctx, FinalCheckpoint)
	if err != nil {
		return &sinkError{"prepare", err}
	}
	for i := range cs {
		if n := len(cs[i].Data); n > jobpb.MaxCommittable { // coordinators store it
			return &sinkError{"prepare", fmt.Errorf("committable %d has %d bytes, %d are allowed", i, n, jobpb.MaxCommittable)}
		}
		cs[i].Subtask, cs[i].Checkpoint = o.rt.Task.Subtask, FinalCheckpoint
	}
	o.rt.prepare = cs
	return nil
}

func (o *sinkOperator[T]) Close() error { return o.w.Close() }

// codeOf is the code of an error of an operator.
func codeOf(err error) string {
	var s *sinkError
	if errors.As(err, &s) {
		return fault.CodeSink
	}
	return fault.CodeUser
}
