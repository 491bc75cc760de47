package schedule

import (
	"fmt"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// history is where the records of a finished job came from.
//
// The sink of a record that was made twice must have got it once: from each producer all consumers of an edge must have
// read the same records, however often attempts ran again. Records are not simulated; what an attempt made is named by
// what it read: its records (whatever their order), and their order.
type history struct {
	w     *world
	j     *state.Job
	known map[string]version
}

// version of what an attempt made.
type version struct{ records, order string }

// check compares, for each stored result, what its consumers have read of it.
func (h *history) check() {
	l := h.j.Layout()
	for _, e := range h.j.Plan().Edges {
		if !l.Blocking(e.Index) {
			continue
		}
		seen := map[int32]version{} // by producer
		for c := range h.j.Plan().Chains[e.ToChain].Parallelism {
			t := h.j.Subtask(e.ToChain, c)
			read := map[int32]uint32{}
			for _, r := range h.w.read[h.name(t.Chain, t.Index, t.Attempt)] {
				if r.edge == e.Index {
					read[r.producer] = r.attempt
				}
			}
			from := l.Producers(e.Index, c)
			for i := range from.Count {
				p := from.First + i - l.First(e.FromChain)
				attempt, ok := read[p]
				if !ok {
					h.w.r.Fatalf("job %s: %d[%d] finished without reading %d[%d]", h.j.ID(), t.Chain, t.Index, e.FromChain, p)
				}
				v := h.over(e, h.of(e.FromChain, p, attempt))
				if before, other := seen[p]; other && before.records != v.records {
					h.w.r.Fatalf("job %s: consumers of %d[%d] over edge %d have read different results of it: %s and %s",
						h.j.ID(), e.FromChain, p, e.Index, before.records, v.records)
				}
				seen[p] = v
			}
		}
	}
}

func (h *history) name(chain, index int32, attempt uint32) string {
	return fmt.Sprintf("%s/%d[%d]#%d", h.j.ID(), chain, index, attempt)
}

// over is what consumers of an edge get: where records are dealt out by their order, they depend on it.
func (h *history) over(e *jobpb.Edge, v version) version {
	if e.Partitioner == jobpb.Partitioner_PARTITIONER_REBALANCE {
		v.records += "/" + v.order
	}
	return v
}

// of is what an attempt made. Splits belong to a subtask for good, so a source always makes the same; several PIPELINED
// producers are merged in an order that is new every time; all attempts of a region have the same number.
func (h *history) of(chain, index int32, attempt uint32) version {
	name := h.name(chain, index, attempt)
	if v, ok := h.known[name]; ok {
		return v
	}
	l, v, merged := h.j.Layout(), version{records: fmt.Sprintf("%d[%d]", chain, index)}, 0
	add := func(e *jobpb.Edge, p version) {
		p = h.over(e, p)
		v.records += "(" + p.records + ")"
		v.order += "(" + p.order + ")"
	}
	for _, e := range h.j.Plan().Edges {
		if e.ToChain != chain || l.Blocking(e.Index) {
			continue
		}
		from := l.Producers(e.Index, index)
		for i := range from.Count {
			merged++
			add(e, h.of(e.FromChain, from.First+i-l.First(e.FromChain), attempt))
		}
	}
	for _, r := range h.w.read[name] {
		e := h.j.Plan().Edges[r.edge]
		add(e, h.of(e.FromChain, r.producer, r.attempt))
	}
	if merged > 1 {
		v.order = fmt.Sprint("merged", attempt)
	}
	h.known[name] = v
	return v
}
