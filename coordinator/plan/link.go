package plan

import (
	"fmt"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// link is how records reach one input of an operator.
type link struct {
	partitioner jobpb.Partitioner // what becomes of the graph's at the parallelism that was decided
	exchange    jobpb.ExchangeKind
	reason      string
	// joint: by direct calls, inside a chain.
	joint bool
}

func (l *link) blocking() bool { return l.exchange == jobpb.ExchangeKind_EXCHANGE_BLOCKING }

// link decides for every input by itself.
func (p *planner) link() {
	p.links = make([][]link, len(p.g.Operators))
	for i, op := range p.g.Operators {
		p.links[i] = make([]link, len(op.Inputs))
		for k, in := range op.Inputs {
			p.links[i][k] = p.linkOf(i, op, in)
		}
	}
}

func (p *planner) linkOf(i int, op *jobpb.Operator, in *jobpb.Input) link {
	l := link{partitioner: in.Partitioner}
	from, to := p.width[in.Operator], p.width[i]
	if l.partitioner == jobpb.Partitioner_PARTITIONER_FORWARD && from != to {
		l.partitioner = jobpb.Partitioner_PARTITIONER_REBALANCE
	}
	if p.joins(i, op, in, l.partitioner) {
		l.joint, l.exchange = true, jobpb.ExchangeKind_EXCHANGE_PIPELINED
		return l
	}
	l.exchange, l.reason = p.exchange(in, l.partitioner)
	if l.partitioner != in.Partitioner {
		l.reason += fmt.Sprintf("; parallelism %d to %d, so records are rebalanced", from, to)
	}
	return l
}

// joins: records pass from subtask i to subtask i, nothing else comes in, and both may share a slot and a goroutine.
func (p *planner) joins(i int, op *jobpb.Operator, in *jobpb.Input, by jobpb.Partitioner) bool {
	if len(op.Inputs) != 1 || in.Exchange == jobpb.ExchangeKind_EXCHANGE_BLOCKING || op.SlotGroup != p.g.Operators[in.Operator].SlotGroup {
		return false
	}
	switch by {
	case jobpb.Partitioner_PARTITIONER_FORWARD:
		return true
	case jobpb.Partitioner_PARTITIONER_HASH, jobpb.Partitioner_PARTITIONER_GLOBAL:
		// From the only subtask to the only subtask: whatever the key, it leads there. An exchange between them would copy each
		// record and hand it to another goroutine. A rebalance is kept: it is asked for to have two goroutines.
		kind, _ := p.exchange(in, by)
		return p.width[in.Operator] == 1 && p.width[i] == 1 && kind == jobpb.ExchangeKind_EXCHANGE_PIPELINED && in.Exchange == jobpb.ExchangeKind_EXCHANGE_AUTO
	}
	return false
}

// exchange decides whether an edge between chains is consumed while it is produced. The rule: BLOCKING if the edge is a
// shuffle and everything upstream is bounded, else PIPELINED; what the user says wins.
func (p *planner) exchange(in *jobpb.Input, by jobpb.Partitioner) (jobpb.ExchangeKind, string) {
	switch {
	case in.Exchange != jobpb.ExchangeKind_EXCHANGE_AUTO && in.Why != "":
		return in.Exchange, in.Why
	case in.Exchange != jobpb.ExchangeKind_EXCHANGE_AUTO:
		return in.Exchange, "explicit"
	case !p.g.Operators[in.Operator].Bounded:
		return jobpb.ExchangeKind_EXCHANGE_PIPELINED, "unbounded input"
	case p.mode == jobpb.Mode_MODE_STREAMING:
		return jobpb.ExchangeKind_EXCHANGE_PIPELINED, "streaming mode"
	case p.mode == jobpb.Mode_MODE_BATCH:
		return jobpb.ExchangeKind_EXCHANGE_BLOCKING, "batch mode"
	case by == jobpb.Partitioner_PARTITIONER_FORWARD:
		return jobpb.ExchangeKind_EXCHANGE_PIPELINED, "no shuffle"
	}
	return jobpb.ExchangeKind_EXCHANGE_BLOCKING, "bounded input"
}
