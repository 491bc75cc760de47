package flow

import (
	"context"
	"fmt"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task"
)

type committer = func(ctx context.Context, t *connector.Task) (connector.Committer, error)

// To ends s in a sink. The id is mandatory: committed output is recorded under it.
func (s Stream[T]) To[_ OnCall](id string, sink Sink[T]) SinkRef {
	where := caller()
	sink = replacedSink(s.end.p, id, where, sink)
	ref := s.end.sink(id, where, sink)
	ref.n.inputs = []input{inputOf(s, func() task.Stage { return task.NewSinkWith(sink, ref.n.policyOf(ref.p)) })}
	return ref
}

// sink adds what has no type to a sink.
func (o *outlet) sink(id, where string, sink interface{ Guarantee() Guarantee }) SinkRef {
	p := o.p
	n := p.add("sink", o.edge())
	n.name(id)
	n.policy = true
	n.op.Guarantee = guaranteeOf(sink.Guarantee())
	n.op.Detail = detail(sink)
	if c, ok := sink.(connector.CommittingSink); ok {
		n.committer = c.OpenCommitter
	} else if sink.Guarantee() == connector.ExactlyOnce {
		p.fault("E024", where, fmt.Sprintf("sink %q claims to be exactly-once and has no committer", id),
			"implement connector.CommittingSink, or claim AtLeastOnce or Idempotent")
	}
	return SinkRef{p, n}
}

func guaranteeOf(g Guarantee) jobpb.Guarantee {
	switch g {
	case connector.AtLeastOnce:
		return jobpb.Guarantee_GUARANTEE_AT_LEAST_ONCE
	case connector.Idempotent:
		return jobpb.Guarantee_GUARANTEE_IDEMPOTENT
	case connector.ExactlyOnce:
		return jobpb.Guarantee_GUARANTEE_EXACTLY_ONCE
	}
	return jobpb.Guarantee_GUARANTEE_UNSPECIFIED
}

// detail is what a connector says about itself in one line of the plan, if it is a fmt.Stringer.
func detail(connector any) string {
	if s, ok := connector.(fmt.Stringer); ok {
		return s.String()
	}
	return ""
}

// SinkRef is a sink in the pipeline, to set its modifiers.
type SinkRef struct {
	p *Pipeline
	n *node
}

// Parallelism sets the number of writing subtasks.
func (r SinkRef) Parallelism(n int) SinkRef {
	r.p.parallelism(r.n, n)
	return r
}

// OnError sets what becomes of a record that the sink does not take.
func (r SinkRef) OnError(pol ErrorPolicy) SinkRef {
	r.p.onError(r.n, pol)
	return r
}

// DeadLetters are the records that the sink has not taken. It needs OnError(DeadLetters).
func (r SinkRef) DeadLetters() Stream[DeadLetter] { return rejected(r.p, r.n) }

// SlotGroup keeps operators of different groups out of each other's slots.
func (r SinkRef) SlotGroup(name string) SinkRef {
	r.n.op.SlotGroup = name
	return r
}
