package model

import (
	"fmt"
	"slices"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// Plan is a job as the model sees it: subtasks, numbered by chain and then by index, and every pair of them that
// exchanges records.
type Plan struct {
	Subtasks []Subtask
	region   []int // by subtask: equal numbers run and restart together
	stored   []link
}

// Subtask is a place in the plan.
type Subtask struct{ Chain, Index int32 }

// link is a pair of subtasks, the second of which reads what the first one stored.
type link struct {
	from, to int
	// stable: if the first one runs again with the same input in the same order, the second one gets the same records.
	stable bool
}

// NewPlan makes pairs of the edges. It is an error if the plan's own account of what can be reproduced is not that of the
// rules, and if the order in which records are stored again would matter, which this model does not follow.
func NewPlan(p *jobpb.Plan) (*Plan, error) {
	n := &Plan{}
	first := make([]int, len(p.Chains))
	for i, c := range p.Chains {
		first[i] = len(n.Subtasks)
		for k := range c.Parallelism {
			n.Subtasks = append(n.Subtasks, Subtask{Chain: c.Index, Index: k})
		}
	}
	n.region = make([]int, len(n.Subtasks))
	for i := range n.region {
		n.region[i] = i
	}
	r := rules{p}
	for _, e := range p.Edges {
		stable := r.stable(e)
		if stable != e.Reproducible {
			return nil, fmt.Errorf("edge %d (%s): the plan says reproducible %t, the rules %t", e.Index, e.Partitioner, e.Reproducible, stable)
		}
		if err := r.judgeable(e); err != nil {
			return nil, err
		}
		pairs, err := r.pairs(e)
		if err != nil {
			return nil, err
		}
		for _, pair := range pairs {
			from, to := first[e.FromChain]+pair[0], first[e.ToChain]+pair[1]
			if e.Exchange == jobpb.ExchangeKind_EXCHANGE_BLOCKING {
				n.stored = append(n.stored, link{from, to, stable})
			} else {
				n.join(from, to)
			}
		}
	}
	for _, l := range n.stored {
		if n.region[l.from] == n.region[l.to] {
			return nil, fmt.Errorf("subtasks %d and %d exchange a stored result inside their region", l.from, l.to)
		}
	}
	return n, nil
}

// join puts two subtasks, and all that run with them, into one region.
func (n *Plan) join(a, b int) {
	old, as := n.region[b], n.region[a]
	for i, r := range n.region {
		if r == old {
			n.region[i] = as
		}
	}
}

// Together are the subtasks that run and restart together with i.
func (n *Plan) Together(i int) (all []int) {
	for k, r := range n.region {
		if r == n.region[i] {
			all = append(all, k)
		}
	}
	return all
}

// Position finds a subtask; -1 if there is none.
func (n *Plan) Position(chain, index int32) int {
	return slices.Index(n.Subtasks, Subtask{chain, index})
}

// Readers are the subtasks that read what i stored.
func (n *Plan) Readers(i int) (all []int) {
	for _, l := range n.stored {
		if l.from == i && !slices.Contains(all, l.to) {
			all = append(all, l.to)
		}
	}
	return all
}

// rules reads a plan.
type rules struct{ *jobpb.Plan }

func (r rules) into(chain int32) (edges []*jobpb.Edge) {
	for _, e := range r.Edges {
		if e.ToChain == chain {
			edges = append(edges, e)
		}
	}
	return edges
}

// pairs are the producers and consumers that an edge joins.
func (r rules) pairs(e *jobpb.Edge) (pairs [][2]int, err error) {
	from, to := int(r.Chains[e.FromChain].Parallelism), int(r.Chains[e.ToChain].Parallelism)
	for p := range from {
		switch e.Partitioner {
		case jobpb.Partitioner_PARTITIONER_FORWARD:
			if from != to {
				return nil, fmt.Errorf("edge %d: forward from %d subtasks to %d", e.Index, from, to)
			}
			pairs = append(pairs, [2]int{p, p})
		case jobpb.Partitioner_PARTITIONER_GLOBAL:
			pairs = append(pairs, [2]int{p, 0})
		case jobpb.Partitioner_PARTITIONER_HASH, jobpb.Partitioner_PARTITIONER_REBALANCE, jobpb.Partitioner_PARTITIONER_BROADCAST, jobpb.Partitioner_PARTITIONER_CUSTOM:
			for c := range to {
				pairs = append(pairs, [2]int{p, c})
			}
		default:
			return nil, fmt.Errorf("edge %d: %s is not modelled", e.Index, e.Partitioner)
		}
	}
	return pairs, nil
}

// fixed: a subtask of the chain gets its input in the same order again. Splits belong to a subtask for good, and stored
// results are read in a fixed order; what several producers send while they run comes as it comes.
func (r rules) fixed(chain int32) bool {
	into := r.into(chain)
	for _, e := range into {
		if e.Exchange == jobpb.ExchangeKind_EXCHANGE_BLOCKING {
			continue
		}
		if len(into) > 1 || e.Partitioner != jobpb.Partitioner_PARTITIONER_FORWARD && r.Chains[e.FromChain].Parallelism > 1 || !r.fixed(e.FromChain) || r.shuffles(e.FromChain) {
			return false
		}
	}
	return len(into) > 0 || r.Graph.Operators[r.Chains[chain].Operators[0]].Bounded
}

// shuffles: an operator of the chain may emit the same records in another order.
func (r rules) shuffles(chain int32) bool {
	return r.any(chain, func(o *jobpb.Operator) bool { return o.Unordered })
}

func (r rules) any(chain int32, is func(*jobpb.Operator) bool) bool {
	return slices.ContainsFunc(r.Chains[chain].Operators, func(i int32) bool { return is(r.Graph.Operators[i]) })
}

// byOrder: who gets a record, or what is made of it, depends on the records before it.
func (r rules) byOrder(e *jobpb.Edge) bool {
	switch e.Partitioner {
	case jobpb.Partitioner_PARTITIONER_REBALANCE, jobpb.Partitioner_PARTITIONER_RESCALE, jobpb.Partitioner_PARTITIONER_CUSTOM:
		return true
	}
	return r.any(e.FromChain, func(o *jobpb.Operator) bool { return o.OrderDependent })
}

// stable: each consumer gets the same records again if a producer runs again with the same input.
func (r rules) stable(e *jobpb.Edge) bool {
	if r.any(e.FromChain, func(o *jobpb.Operator) bool { return o.Nondeterministic }) {
		return false
	}
	if r.byOrder(e) && (!r.fixed(e.FromChain) || r.shuffles(e.FromChain)) {
		return false
	}
	for _, up := range r.into(e.FromChain) { // what runs together runs again together
		if up.Exchange != jobpb.ExchangeKind_EXCHANGE_BLOCKING && !r.stable(up) {
			return false
		}
	}
	return true
}

// judgeable refuses a plan in which a stored result that is made again in another order changes more than an order.
func (r rules) judgeable(e *jobpb.Edge) error {
	if !r.byOrder(e) {
		return nil
	}
	if from, ok := r.reordered(e.FromChain); ok {
		return fmt.Errorf("edge %d depends on the order of what chain %d stores, which may change", e.Index, from)
	}
	return nil
}

// reordered finds a chain that a chain depends on, at any distance, and that may store its records in another order.
func (r rules) reordered(chain int32) (from int32, ok bool) {
	for _, e := range r.into(chain) {
		if e.Exchange == jobpb.ExchangeKind_EXCHANGE_BLOCKING && r.stable(e) && (!r.fixed(e.FromChain) || r.shuffles(e.FromChain)) {
			return e.FromChain, true
		}
		if from, ok = r.reordered(e.FromChain); ok {
			return from, ok
		}
	}
	return 0, false
}
