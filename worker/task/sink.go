package task

import (
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task/fault"
)

// FinalCheckpoint is the id under which the last output of a bounded job is prepared.
const FinalCheckpoint element.CheckpointID = 1

// NewSink is the stage of a sink: Write per record; Flush, End and Prepare at the end of the input. What Prepare
// returns goes to the coordinator with the report that the subtask has finished.
func NewSink[T any](s connector.Sink[T]) Stage {
	return StageOf[T, struct{}](func(rt *Runtime, _ Push[struct{}]) (Push[T], Operator, error) {
		w, err := s.OpenWriter(rt.Ctx, rt.Task, nil)
		if err != nil {
			return nil, nil, &sinkError{"open", err}
		}
		return func(v T) {
			if err := w.Write(rt.Ctx, v, rt.At); err != nil {
				rt.fail(&sinkError{"write", err}, fault.CodeSink)
			}
			rt.written++
		}, &sinkOperator[T]{rt: rt, w: w}, nil
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
