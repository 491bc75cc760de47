package plan

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"github.com/sluiceio/sluice/coordinator/region"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// waits finds the exchanges that cannot be PIPELINED, because an operator would wait for its own output, and makes them
// BLOCKING. There are three reasons.
//
// Diamonds. An operator wants one input to its end before another one (Input.phase), and both come from one producer by
// PIPELINED paths. The producer cannot send to the one without sending to the other; the operator would have to keep all
// of what comes too early.
//
// Gates. Nothing of a gated input is read, and no source of its region emits, before what is wanted first has been read: so
// nothing that this is made of may stand in the region of the gate. Regions that read each other's results in a circle
// are one, so a gate can wait for itself by way of another region.
//
// Live input. An operator that spills keeps nothing in checkpoints; it must not share a region with input that never ends.
//
// A part of the graph with everything upstream of it is left by edges in one direction only. Each reason names such a part,
// all of it bounded, so to store what leaves it always helps. And a BLOCKING exchange never joins regions that were apart, so
// what one reason has parted the next one does not bring together. Of several exchanges that would do, those nearest to the
// operator that waits are taken; those that turn out not to be needed are given back at the end.
type waits struct {
	*planner
	stored []stored
	// remote: some of them are not inputs of the operator that waits, so others may have become superfluous.
	remote bool
}

// stored is an exchange that was made BLOCKING.
type stored struct {
	op, input int
	before    link
}

// unlock leaves no operator that waits for itself.
func (p *planner) unlock() {
	if !slices.ContainsFunc(p.g.Operators, waitsForInput) {
		return
	}
	w := &waits{planner: p}
	w.part()
	for _, s := range w.stored {
		in := p.g.Operators[s.op].Inputs[s.input]
		if in.Exchange == jobpb.ExchangeKind_EXCHANGE_PIPELINED {
			op := p.g.Operators[s.op]
			p.report(CodeOverridden, cmp.Or(in.Location, op.Location),
				fmt.Sprintf("the exchange from %q to %q was asked to be pipelined and is blocking (%s)", p.g.Operators[in.Operator].Id, op.Id, p.links[s.op][s.input].reason),
				"leave this exchange to the planner")
		}
	}
}

// part parts everything that has to be.
func (w *waits) part() {
	w.frontOfGates()
	w.diamonds()
	w.gates()
	w.liveInput()
	w.giveBack()
}

// waitsForInput: an operator that can be the cause of any of the three.
func waitsForInput(op *jobpb.Operator) bool {
	return op.BatchMemory || slices.ContainsFunc(op.Inputs, func(in *jobpb.Input) bool { return in.Phase > 0 })
}

// store makes an exchange BLOCKING.
func (w *waits) store(op, input int, reason string) {
	l := &w.links[op][input]
	if l.blocking() {
		return
	}
	w.stored = append(w.stored, stored{op, input, *l})
	l.joint, l.exchange, l.reason = false, jobpb.ExchangeKind_EXCHANGE_BLOCKING, reason
}

// mostGivenBack bounds the time that a plan takes: what comes from a job's process may be made to take long. More exchanges
// than needed may stay BLOCKING, which is no fault.
const mostGivenBack = 256

// giveBack undoes what the others have made superfluous.
func (w *waits) giveBack() {
	if !w.remote || len(w.stored) > mostGivenBack {
		return
	}
	kept := w.stored[:0]
	for _, s := range w.stored {
		after := w.links[s.op][s.input]
		w.links[s.op][s.input] = s.before
		if !w.sound() {
			w.links[s.op][s.input] = after
			kept = append(kept, s)
		}
	}
	w.stored = kept
}

// sound: nobody waits for itself.
func (w *waits) sound() bool {
	up := w.upstream()
	for i, op := range w.g.Operators {
		for k := range op.Inputs {
			if w.early(up, i, k) != nil || w.ungated(i, k) {
				return false
			}
		}
	}
	rooms := w.rooms()
	for i := range w.g.Operators {
		if w.gateWaits(rooms, i) || w.spillsLive(rooms, i) {
			return false
		}
	}
	return true
}

// upstream is, by operator, itself and everything that reaches it by PIPELINED paths.
func (w *waits) upstream() []set {
	up := make([]set, len(w.g.Operators))
	for i := range up {
		w.reach(up, i)
	}
	return up
}

// reach completes up for operator i, whose producers are done.
func (w *waits) reach(up []set, i int) {
	up[i] = makeSet(len(up))
	up[i].add(i)
	for k, in := range w.g.Operators[i].Inputs {
		if !w.links[i][k].blocking() {
			up[i].join(up[in.Operator])
		}
	}
}

// diamond is why input late of an operator comes too early: input first, which is wanted before it, has a producer in
// common with it.
type diamond struct{ producer, first int }

// early finds the diamond that ends in input k of operator i; nil: there is none.
func (w *waits) early(up []set, i, k int) *diamond {
	ins := w.g.Operators[i].Inputs
	if w.links[i][k].blocking() {
		return nil
	}
	for j, first := range ins {
		if first.Phase >= ins[k].Phase || w.links[i][j].blocking() {
			continue
		}
		if producer := up[first.Operator].newest(up[ins[k].Operator]); producer >= 0 {
			return &diamond{producer, j}
		}
	}
	return nil
}

func (w *waits) diamonds() {
	up := make([]set, len(w.g.Operators))
	for i, op := range w.g.Operators {
		for _, k := range byPhase(op.Inputs) {
			for d := w.early(up, i, k); d != nil; d = w.early(up, i, k) { // each storing parts at least this one
				reason := fmt.Sprintf("diamond: %q also feeds input %d of %q, which is read first", w.g.Operators[d.producer].Id, d.first, op.Id)
				if from := op.Inputs[k].Operator; w.g.Operators[from].Bounded {
					w.store(i, k, reason)
					continue
				}
				w.storeFrontier(up[:i], up[op.Inputs[k].Operator], up[op.Inputs[d.first].Operator], reason)
				for j := range i {
					w.reach(up, j)
				}
			}
		}
		w.reach(up, i)
	}
}

// byPhase are the indices of inputs, those that are wanted first before the others.
func byPhase(ins []*jobpb.Input) []int {
	order := make([]int, len(ins))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ins[a].Phase, ins[b].Phase) })
	return order
}

// storeFrontier stores what the bounded part of an unbounded path has from the producers: the edges from a bounded operator
// to an unbounded one, among the operators that up is known of.
func (w *waits) storeFrontier(up []set, path, producers set, reason string) {
	w.remote = true
	for i := range up {
		op := w.g.Operators[i]
		if op.Bounded || !path.has(i) {
			continue
		}
		for k, in := range op.Inputs {
			if w.g.Operators[in.Operator].Bounded && up[in.Operator].newest(producers) >= 0 {
				w.store(i, k, reason)
			}
		}
	}
}

// ungated: input k is read in front of a gate, and would be read while it is produced.
func (w *waits) ungated(i, k int) bool {
	ins := w.g.Operators[i].Inputs
	return !w.links[i][k].blocking() && slices.ContainsFunc(ins, func(in *jobpb.Input) bool { return in.Gated && in.Phase > ins[k].Phase })
}

// rooms is, by operator, the region that it would be in if every operator were a chain of one subtask.
func (w *waits) rooms() []int32 {
	chains := make([]*jobpb.Chain, len(w.g.Operators))
	var edges []*jobpb.Edge
	for i, op := range w.g.Operators {
		chains[i] = &jobpb.Chain{Index: int32(i), Operators: []int32{int32(i)}, Parallelism: 1}
		for k, in := range op.Inputs {
			edges = append(edges, &jobpb.Edge{Index: int32(len(edges)), FromChain: in.Operator, ToChain: int32(i), Exchange: w.links[i][k].exchange})
		}
	}
	rooms := make([]int32, len(chains))
	for _, r := range region.Build(chains, edges, nil) {
		for _, s := range r.Subtasks {
			rooms[s.Chain] = r.Index
		}
	}
	return rooms
}

// loads is what the inputs in front of the gate of operator i are made of; nil: it has no gate.
func (w *waits) loads(i int) set {
	ins := w.g.Operators[i].Inputs
	var from set
	for k, in := range ins {
		if !slices.ContainsFunc(ins, func(g *jobpb.Input) bool { return g.Gated && g.Phase > in.Phase }) {
			continue
		}
		if from == nil {
			from = makeSet(len(w.g.Operators))
		}
		from.add(int(ins[k].Operator))
	}
	for j := i - 1; from != nil && j >= 0; j-- {
		if !from.has(j) {
			continue
		}
		for _, in := range w.g.Operators[j].Inputs {
			from.add(int(in.Operator))
		}
	}
	return from
}

// gateWaits: something that operator i loads is made in the region of its gate.
func (w *waits) gateWaits(rooms []int32, i int) bool {
	loads := w.loads(i)
	for j := 0; loads != nil && j < i; j++ {
		if loads.has(j) && rooms[j] == rooms[i] {
			return true
		}
	}
	return false
}

// frontOfGates stores what is read in front of a gate.
func (w *waits) frontOfGates() {
	for i, op := range w.g.Operators {
		for k := range op.Inputs {
			if w.ungated(i, k) {
				w.store(i, k, "read to its end before the gate opens")
			}
		}
	}
}

func (w *waits) gates() {
	rooms := w.rooms()
	for i, op := range w.g.Operators {
		if !w.gateWaits(rooms, i) {
			continue
		}
		w.storeLeaving(rooms, rooms[i], w.loads(i).has, func(from *jobpb.Operator) string {
			return fmt.Sprintf("gate: %q loads what comes of %q before anything passes", op.Id, from.Id)
		})
		rooms = w.rooms()
	}
}

// spillsLive: an operator that spills stands in one region with input that never ends.
func (w *waits) spillsLive(rooms []int32, i int) bool {
	if !w.g.Operators[i].BatchMemory {
		return false
	}
	for j, op := range w.g.Operators {
		if !op.Bounded && rooms[j] == rooms[i] {
			return true
		}
	}
	return false
}

func (w *waits) liveInput() {
	rooms := w.rooms()
	for i, op := range w.g.Operators {
		if !w.spillsLive(rooms, i) {
			continue
		}
		w.storeLeaving(rooms, rooms[i], func(j int) bool { return w.g.Operators[j].Bounded }, func(*jobpb.Operator) string {
			return fmt.Sprintf("live input follows, and %q keeps nothing in checkpoints", op.Id)
		})
		rooms = w.rooms()
	}
}

// storeLeaving stores what leaves a part of the graph for one region.
func (w *waits) storeLeaving(rooms []int32, room int32, part func(op int) bool, reason func(from *jobpb.Operator) string) {
	w.remote = true
	for i, op := range w.g.Operators {
		if part(i) || rooms[i] != room {
			continue
		}
		for k, in := range op.Inputs {
			if part(int(in.Operator)) {
				w.store(i, k, reason(w.g.Operators[in.Operator]))
			}
		}
	}
}

// set is a set of operators.
type set []uint64

func makeSet(n int) set { return make(set, (n+63)/64) }

func (s set) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s set) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }

func (s set) join(o set) {
	for i := range s {
		s[i] |= o[i]
	}
}

// newest is the last operator that is in both sets: the nearest common producer; -1: none.
func (s set) newest(o set) int {
	for i := len(s) - 1; i >= 0; i-- {
		if both := s[i] & o[i]; both != 0 {
			return i*64 + bits.Len64(both) - 1
		}
	}
	return -1
}
