package task

import (
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

// NewSink is NewSinkWith for a sink whose errors fail the attempt.
func NewSink[T any](s connector.Sink[T]) Stage { return NewSinkWith(s, ErrorPolicy{}) }

// NewSinkWith is the stage of a sink: Write per record, Flush now and then if its output needs no commit to be seen; Flush,
// End and Prepare at the end of the input. What Prepare returns goes to the coordinator with the report that the subtask
// has finished. p decides about records that Write refuses.
func NewSinkWith[T any](s connector.Sink[T], p ErrorPolicy) Stage {
	return StageOf[T, struct{}](func(rt *Runtime, _ Push[struct{}]) (Push[T], Operator, error) {
		w, err := s.OpenWriter(rt.Ctx, rt.Task, rt.Restored.Writers)
		if err != nil {
			return nil, nil, sinkFault(rt, "open", err)
		}
		_, commits := s.(connector.CommittingSink)
		o := &sinkOperator[T]{rt: rt, w: w, timed: commits, policy: p}
		o.failed, err = NewFailed[T](rt, p)
		return o.writes(), o, err
	})
}

// sinkFault is an error of a sink's writer.
func sinkFault(rt *Runtime, step string, err error) error {
	return fault.Of(fmt.Errorf("%s: %w", step, err), fault.CodeSink, rt.Task.Operator)
}

type sinkOperator[T any] struct {
	Base
	rt *Runtime
	w  connector.Writer[T]
	// timed: a flush is due, or none ever is because output is seen by commit only.
	timed  bool
	policy ErrorPolicy
	failed Failed[T]
	ended  bool
}

// writes is the push of the sink. It is no method: the value of a method is one more call per record.
func (o *sinkOperator[T]) writes() Push[T] {
	rt, w, ctx := o.rt, o.w, o.rt.Ctx
	return func(v T) {
		if err := w.Write(ctx, v, rt.At); err != nil && !o.wrote(v, err) {
			return
		}
		rt.Counters.Written++
		if !o.timed {
			o.timed = true
			rt.WakeAt(rt.Now().Add(flushEvery))
		}
	}
}

// wrote treats a record that was refused with err. It reports whether the record was written after all.
func (o *sinkOperator[T]) wrote(v T, err error) bool {
	err = o.policy.Again(o.rt, err, func() error { return o.w.Write(o.rt.Ctx, v, o.rt.At) })
	if err != nil {
		o.failed(v, sinkFault(o.rt, "write", err), o.rt.Position())
	}
	return err == nil
}

// OnTime flushes what was written since the last time.
func (o *sinkOperator[T]) OnTime(time.Time) error {
	o.timed = false
	if err := o.w.Flush(o.rt.Ctx); err != nil {
		return sinkFault(o.rt, "flush", err)
	}
	return nil
}

func (o *sinkOperator[T]) Finish() error {
	ctx := o.rt.Ctx
	if err := o.w.Flush(ctx); err != nil {
		return sinkFault(o.rt, "flush", err)
	}
	if err := o.w.End(ctx); err != nil {
		return sinkFault(o.rt, "end", err)
	}
	if o.ended = true; o.rt.State.Checkpoints {
		return nil // a checkpoint has to contain it
	}
	return o.prepare(FinalCheckpoint)
}

// OnBarrier prepares what was written since the last barrier. Behind the end that is the rest, and later nothing.
func (o *sinkOperator[T]) OnBarrier(id element.CheckpointID) error {
	if !o.ended {
		if err := o.w.Flush(o.rt.Ctx); err != nil {
			return sinkFault(o.rt, "flush", err)
		}
	}
	if err := o.prepare(id); err != nil {
		return err
	}
	s, err := o.w.Snapshot(id)
	if err != nil {
		return sinkFault(o.rt, "snapshot", err)
	}
	o.rt.Wrote(s)
	return nil
}

func (o *sinkOperator[T]) prepare(id element.CheckpointID) error {
	cs, err := o.w.Prepare(o.rt.Ctx, id)
	if err != nil {
		return sinkFault(o.rt, "prepare", err)
	}
	for i := range cs {
		if n := len(cs[i].Data); n > jobpb.MaxCommittable { // coordinators store it
			return sinkFault(o.rt, "prepare", fmt.Errorf("committable %d has %d bytes, %d are allowed", i, n, jobpb.MaxCommittable))
		}
		cs[i].Subtask, cs[i].Checkpoint = o.rt.Task.Subtask, id
	}
	o.rt.Prepared(cs)
	return nil
}

func (o *sinkOperator[T]) Close() error { return o.w.Close() }
