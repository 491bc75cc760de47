package plan

import (
	"slices"

	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// judge finds what becomes of the result of each edge if the region that makes it runs again.
//
//   - Edge.reproducible: with the same input in the same order each consumer gets exactly the records that it got before;
//   - Edge.ordered: and in the same order;
//   - Edge.order_dependent: with the same input in another order a consumer may get other records. A region's input is in
//     another order if what it reads was made again and is not ordered.
//
// So whoever restarts regions can follow the effects from region to region, as far as they go. The obvious single flag is
// either wrong or expensive: where a worker is lost that held a result and the one that it was made of, both are made
// again, and the second from input that is the same only as a set.
func (p *planner) judge(regions []*jobpb.Region) {
	together := inOneRegion(p.edges, regions)
	same, reordered := newJudgement(p, together), newJudgement(p, together)
	same.run(false)
	reordered.run(true)
	for _, e := range p.edges {
		e.Reproducible = same.reproducible(e)
		e.Ordered = e.Reproducible && same.fixed(e)
		e.OrderDependent = !reordered.reproducible(e)
	}
}

// judgement follows records through the chains. "Again" means: if their regions run again with the same input.
type judgement struct {
	*planner
	together func(*jobpb.Edge) bool
	into     [][]*jobpb.Edge // by chain
	ordered  []bool          // by chain: its input comes in the same order again
	loose    []bool          // by operator: it or an operator in front of it in the chain has changed the order
	varies   []bool          // by operator: it or one upstream of it in its region may give other output again
	dealt    []bool          // by operator: which of its subtasks gets a record may be another one again
}

func newJudgement(p *planner, together func(*jobpb.Edge) bool) *judgement {
	j := &judgement{planner: p, together: together, into: make([][]*jobpb.Edge, len(p.chains)), ordered: make([]bool, len(p.chains))}
	for _, e := range p.edges {
		j.into[e.ToChain] = append(j.into[e.ToChain], e)
	}
	n := len(p.g.Operators)
	j.loose, j.varies, j.dealt = make([]bool, n), make([]bool, n), make([]bool, n)
	return j
}

// run judges all chains, producers first. reordered: the input of every region comes in another order.
func (j *judgement) run(reordered bool) {
	for c, chain := range j.chains {
		j.ordered[c] = !reordered && j.order(chain)
		for k, i := range chain.Operators {
			op := j.g.Operators[i]
			if k == 0 {
				j.varies[i] = slices.ContainsFunc(j.into[c], func(e *jobpb.Edge) bool { return j.together(e) && j.varies[e.FromOperator] })
				j.dealt[i] = slices.ContainsFunc(j.into[c], func(e *jobpb.Edge) bool { return j.together(e) && j.deals(e) })
			} else {
				before := op.Inputs[0].Operator
				j.varies[i], j.dealt[i], j.loose[i] = j.varies[before], j.dealt[before], j.loose[before]
			}
			j.varies[i] = j.varies[i] || op.Nondeterministic || op.OrderDependent && (!j.ordered[c] || j.loose[i])
			j.loose[i] = j.loose[i] || op.Unordered
		}
	}
}

// order reports whether the input of a chain comes in the same order again: it reads a bounded source, whose splits are
// assigned for good; or stored results, which are read in a fixed order; or the records of a single producer that come in
// the same order again. A stored result that is made in the same region is made again.
func (j *judgement) order(c *jobpb.Chain) bool {
	into := j.into[c.Index]
	if len(into) == 0 {
		return j.g.Operators[c.Operators[0]].Bounded
	}
	for _, e := range into {
		if j.together(e) && !j.fixed(e) {
			return false
		}
		if e.Exchange != jobpb.ExchangeKind_EXCHANGE_BLOCKING && (len(into) > 1 || !j.oneProducer(e)) {
			return false
		}
	}
	return true
}

// oneProducer: each consumer has channels from one subtask at most.
func (j *judgement) oneProducer(e *jobpb.Edge) bool {
	producers, consumers := j.chains[e.FromChain].Parallelism, j.chains[e.ToChain].Parallelism
	for i := range consumers {
		if _, n := graph.Producers(e.Partitioner, producers, consumers, i); n > 1 {
			return false
		}
	}
	return true
}

// fixed: the records of an edge are produced in the same order again.
func (j *judgement) fixed(e *jobpb.Edge) bool {
	return j.ordered[e.FromChain] && !j.loose[e.FromOperator]
}

// deals: which consumer of an edge gets a record may be another one again. In turn, it depends on the records before it; a
// partitioner of the user may do so, too. From subtask to subtask, it depends on who has it.
func (j *judgement) deals(e *jobpb.Edge) bool {
	switch e.Partitioner {
	case jobpb.Partitioner_PARTITIONER_FORWARD:
		return j.dealt[e.FromOperator]
	case jobpb.Partitioner_PARTITIONER_REBALANCE, jobpb.Partitioner_PARTITIONER_RESCALE, jobpb.Partitioner_PARTITIONER_CUSTOM:
		return j.dealt[e.FromOperator] || !j.fixed(e)
	}
	return false
}

func (j *judgement) reproducible(e *jobpb.Edge) bool { return !j.varies[e.FromOperator] && !j.deals(e) }

// inOneRegion tells of an edge whether some region has producers and consumers of it.
func inOneRegion(edges []*jobpb.Edge, regions []*jobpb.Region) func(e *jobpb.Edge) bool {
	inside := make([]bool, len(edges))
	for _, r := range regions {
		for _, i := range r.InputEdges {
			inside[i] = inside[i] || slices.ContainsFunc(r.Subtasks, func(s *jobpb.SubtaskRange) bool { return s.Chain == edges[i].FromChain })
		}
	}
	return func(e *jobpb.Edge) bool { return e.Exchange != jobpb.ExchangeKind_EXCHANGE_BLOCKING || inside[e.Index] }
}
