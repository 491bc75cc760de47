package flow

import (
	"fmt"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task/reject"
)

// AllSlots as a parallelism means every slot that the job can get.
const AllSlots = -1

// outlet is a stream without the type of its records: where the edges of its consumers begin. It does not change when others
// may know of it.
type outlet struct {
	p    *Pipeline
	n    *node
	port string // of a side output; empty: what the operator emits
	part jobpb.Partitioner
	to   any // a func(v T, consumers int) int, of PARTITIONER_CUSTOM
	exch Exchange
	at   string // place of the call that chose exch
}

// edge is the input of a consumer of o.
func (o *outlet) edge() *jobpb.Input {
	return &jobpb.Input{
		Operator:    o.n.index,
		Port:        o.port,
		Partitioner: o.part,
		Exchange:    jobpb.ExchangeKind(o.exch),
		Location:    o.at,
	}
}

// whole is the edge of a consumer that reads what o produces when it is complete.
func (o *outlet) whole(consumer, why string) *jobpb.Input {
	if o.exch == Pipelined {
		o.p.fault("E018", o.at, fmt.Sprintf("the exchange from %s to %s cannot be pipelined: %s", o.n.op.Id, consumer, why), "drop Exchange here")
	}
	in := o.edge()
	in.Exchange, in.Why = jobpb.ExchangeKind_EXCHANGE_BLOCKING, why
	return in
}

// exchanged is o with another exchange.
func (o *outlet) exchanged(e Exchange) *outlet {
	if e > Blocking {
		o.p.fault("E018", caller(), fmt.Sprintf("exchange %d behind %s does not exist", e, o.n.op.Id), "use flow.Auto, flow.Pipelined or flow.Blocking")
		return o
	}
	next := *o
	next.exch, next.at = e, caller()
	return &next
}

// partitioned is o with a choice of how records find their consumers, which is made once.
func (o *outlet) partitioned(name string, by jobpb.Partitioner) *outlet {
	if o.part != jobpb.Partitioner_PARTITIONER_FORWARD && o.part != by {
		o.p.fault("E018", caller(), fmt.Sprintf("%s behind %s: its records are partitioned already", name, o.n.op.Id),
			"an edge has one partitioner: drop one of the calls, or put an operator between them")
	}
	next := *o
	next.part = by
	return &next
}

func (o *outlet) setID(id string) {
	if o.modifies("ID") {
		o.n.name(id)
	}
}

func (o *outlet) setParallelism(n int) {
	if o.modifies("Parallelism") {
		o.p.parallelism(o.n, n)
	}
}

func (o *outlet) setOnError(pol ErrorPolicy) {
	if o.modifies("OnError") {
		o.p.onError(o.n, pol)
	}
}

func (o *outlet) setSlotGroup(name string) {
	if o.modifies("SlotGroup") {
		o.n.op.SlotGroup = name
	}
}

func (o *outlet) setNondeterministic() {
	if o.modifies("Nondeterministic") {
		o.n.op.Nondeterministic = true
	}
}

// modifies reports whether o stands for an operator, whose modifiers can be set. A side output is a port of one.
func (o *outlet) modifies(modifier string) bool {
	if o.port == "" {
		return true
	}
	o.p.fault("E017", caller(), fmt.Sprintf("%s on side output %q of %s", modifier, o.port, o.n.op.Id),
		fmt.Sprintf("a side output belongs to its operator: set %s on the operator's stream", modifier))
	return false
}

func (p *Pipeline) parallelism(n *node, parallelism int) {
	if parallelism < 1 && parallelism != AllSlots {
		p.fault("E018", caller(), fmt.Sprintf("parallelism of %s is %d", n.op.Id, parallelism),
			"use a positive number, or flow.AllSlots")
		return
	}
	n.op.Parallelism = int32(parallelism)
}

func (p *Pipeline) onError(n *node, pol ErrorPolicy) {
	parsed, err := reject.Parse(string(pol))
	switch {
	case err != nil:
		p.fault("E015", caller(), fmt.Sprintf("OnError of %s: %v", n.op.Id, err), "use flow.Fail, flow.Skip, flow.DeadLetters or flow.Retry")
	case pol != Fail && !n.policy:
		p.fault("E015", caller(), fmt.Sprintf("%s (%s) has nothing to skip: its function returns no error", n.op.Id, n.op.Kind),
			"use TryMap, TryFlatMap, MapWith or Process, or drop OnError")
	case parsed.Retries > 0 && n.processes():
		p.fault("E015", caller(), fmt.Sprintf("%s (%s) cannot try again: what it did before the error would be done twice", n.op.Id, n.op.Kind),
			"use flow.Skip or flow.DeadLetters, or try again in an operator in front of it")
	default:
		n.op.ErrorPolicy = string(pol)
	}
}
