package flow

import (
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/worker/task/reject"
)

// Fatal marks err as one that trying again cannot cure: it fails the job at once, whatever the error policy and the
// restart strategy say. Fatal(nil) is nil.
func Fatal(err error) error { return connector.Fatal(err) }

// ErrorPolicy says what becomes of a record for which a function returns an error, that a source cannot decode, or that a sink
// does not take. A panic fails the attempt in any case.
type ErrorPolicy string

const (
	// Fail fails the attempt; the job restarts by its restart strategy. The default.
	Fail ErrorPolicy = "fail"
	// Skip counts the record and drops it.
	Skip ErrorPolicy = "skip"
	// DeadLetters counts the record and makes a DeadLetter of it, which goes to the sink of Pipeline.DeadLetters, or to whom reads
	// the DeadLetters of the stream. What the operator did before the error stays.
	DeadLetters ErrorPolicy = "dead-letters"
)

// Retry tries a record that fails n more times, resting for backoff first and twice as long before each further time; then
// decides about one that fails again. While a record rests its subtask does nothing else, except behind AsyncMap. It is for
// TryMap, TryFlatMap, MapWith, AsyncMap and sinks, and for sources, which read again after an error (E015 elsewhere).
func Retry(n int, backoff time.Duration, then ErrorPolicy) ErrorPolicy {
	return ErrorPolicy(reject.Retry(n, backoff, string(then)))
}

// DeadLetter is a record that an operator could not process: what it was, where it came from, and why it failed.
type DeadLetter = reject.DeadLetter

// DeadLetters are the records that the operator of s has rejected. It needs OnError(DeadLetters).
func (s Stream[T]) DeadLetters() Stream[DeadLetter] {
	s.end.modifies("DeadLetters")
	return rejected(s.end.p, s.end.n)
}

func rejected(p *Pipeline, n *node) Stream[DeadLetter] {
	if _, is := n.side(reject.Port); !is {
		sideOutput[DeadLetter](p, n, reject.Port)
	}
	return Stream[DeadLetter]{end: &outlet{p: p, n: n, port: reject.Port}}
}

// DeadLetters is where the records go that operators with OnError(DeadLetters) reject, unless their DeadLetters are read.
func (p *Pipeline) DeadLetters(id string, sink Sink[DeadLetter]) {
	where := caller()
	p.letters = func(all Stream[DeadLetter], more []Stream[DeadLetter]) {
		first := len(p.nodes)
		if len(more) > 0 {
			all = all.Union(more...)
		}
		all.To(id, sink)
		for _, n := range p.nodes[first:] {
			n.op.Location = where
		}
	}
}

// post leads what operators reject to the sink of DeadLetters.
func (p *Pipeline) post() {
	var all []Stream[DeadLetter]
	for _, n := range p.nodes {
		_, read := n.side(reject.Port)
		switch writes := n.policyOf(p).Action == reject.Letter; {
		case read && !writes:
			p.fault("E019", n.op.Location, "the dead letters of "+n.op.Id+" are read, and it writes none", "add OnError(flow.DeadLetters)")
		case writes && !read && p.letters == nil:
			p.fault("E019", n.op.Location, n.op.Id+" writes dead letters, and nobody reads them", "name a sink with Pipeline.DeadLetters, or read the stream's DeadLetters()")
		case writes && !read:
			all = append(all, rejected(p, n))
		}
	}
	if len(all) > 0 {
		p.letters(all[0], all[1:])
	}
}
