package blame

import (
	"math"

	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// Event times without a time.
const (
	NoTime = math.MinInt64 // nothing is promised yet
	End    = math.MaxInt64
)

// silence is how long a split has had no records before that counts as the cause: what reads at all is heard more often.
const silence = 2_000_000 // µs

// Facts are what is known of a job.
type Facts struct {
	Plan     *jobpb.Plan      // nil: it is not planned
	Subtasks []*jobpb.Subtask // ordered by chain, then index
	Clocks   []*taskpb.Clock  // the newest, in any order; those of other attempts are left out
}

// Of fills in what stands where, and who is to blame.
func Of(f Facts, r *apipb.WatermarksResponse) {
	r.NewestUs = NoTime
	if f.Plan == nil {
		return
	}
	v := newView(f)
	for _, chain := range v.plan.Chains {
		r.Operators = append(r.Operators, v.operator(chain))
	}
	for i := range v.subtasks {
		if s := v.subtasks[i].clock.GetSource(); s != nil && s.Marking {
			r.NewestUs = max(r.NewestUs, s.NewestUs)
		}
	}
	v.newest = r.NewestUs
	for _, chain := range v.plan.Chains {
		if !v.feeds[chain.Index] && len(v.byChain[chain.Index]) > 0 {
			r.Blames = append(r.Blames, v.blame(chain.Index))
		}
	}
}

// subtask is a subtask with the clock of its attempt.
type subtask struct {
	*jobpb.Subtask
	clock *taskpb.Clock // nil: it has told nothing
}

// view is the facts, by what leads where.
type view struct {
	plan     *jobpb.Plan
	subtasks []subtask
	byChain  [][]subtask
	feeds    []bool           // by chain: an edge leaves it
	edges    [][]*jobpb.Edge  // by chain: those that lead to it, by input
	within   map[int32]int32  // operator → chain
	above    map[int32]int32  // operator → the one in front of it in the same chain
	named    map[string]int32 // operator by id
	newest   int64
}

func newView(f Facts) *view {
	n := len(f.Plan.Chains)
	v := &view{
		plan: f.Plan, byChain: make([][]subtask, n), feeds: make([]bool, n), edges: make([][]*jobpb.Edge, n),
		within: map[int32]int32{}, above: map[int32]int32{}, named: map[string]int32{}, newest: NoTime,
	}
	type attempt struct {
		chain, index int32
		attempt      uint32
	}
	clocks := make(map[attempt]*taskpb.Clock, len(f.Clocks))
	for _, c := range f.Clocks {
		k := attempt{c.Chain, c.Index, c.Attempt}
		if known := clocks[k]; known == nil || known.ReadUs < c.ReadUs {
			clocks[k] = c
		}
	}
	for _, s := range f.Subtasks {
		t := subtask{s, clocks[attempt{s.Chain, s.Index, s.Attempt}]}
		v.subtasks = append(v.subtasks, t)
		v.byChain[s.Chain] = append(v.byChain[s.Chain], t)
	}
	for _, chain := range f.Plan.Chains {
		for _, op := range chain.Operators {
			v.within[op] = chain.Index
		}
	}
	for i, op := range f.Plan.Graph.Operators {
		v.named[op.Id] = int32(i)
		if len(op.Inputs) > 0 && v.within[op.Inputs[0].Operator] == v.within[int32(i)] {
			v.above[int32(i)] = op.Inputs[0].Operator
		}
	}
	for _, e := range f.Plan.Edges {
		v.feeds[e.FromChain] = true
		at := v.edges[e.ToChain]
		for len(at) <= int(e.Input) {
			at = append(at, nil)
		}
		at[e.Input] = e
		v.edges[e.ToChain] = at
	}
	return v
}

// id of an operator.
func (v *view) id(op int32) string { return v.plan.Graph.Operators[op].Id }

func (v *view) operator(chain *jobpb.Chain) *apipb.OperatorClock {
	o := &apipb.OperatorClock{Operator: chain.Name, Chain: chain.Index, WatermarkUs: End, State: taskpb.ClockState_CLOCK_ENDED}
	for _, op := range chain.Operators {
		o.Operators = append(o.Operators, v.id(op))
	}
	for _, e := range v.edges[chain.Index] {
		if e != nil {
			o.Inputs = append(o.Inputs, v.id(e.FromOperator))
		}
	}
	for _, t := range v.byChain[chain.Index] {
		o.Subtasks = append(o.Subtasks, &apipb.SubtaskClock{Index: t.Index, Attempt: t.Attempt, Worker: t.Worker, State: t.State, Clock: t.clock})
		switch {
		case t.State == jobpb.SubtaskState_SUBTASK_FINISHED:
		case t.clock.GetIdle():
			if o.State == taskpb.ClockState_CLOCK_ENDED {
				o.State = taskpb.ClockState_CLOCK_IDLE
			}
		default:
			o.State, o.WatermarkUs = taskpb.ClockState_CLOCK_ACTIVE, min(o.WatermarkUs, t.watermark())
		}
	}
	if o.State == taskpb.ClockState_CLOCK_IDLE {
		o.WatermarkUs = NoTime
		for _, t := range v.byChain[chain.Index] {
			if t.State != jobpb.SubtaskState_SUBTASK_FINISHED {
				o.WatermarkUs = max(o.WatermarkUs, t.watermark())
			}
		}
	}
	return o
}

// watermark that the subtask has told.
func (t subtask) watermark() int64 {
	if t.clock == nil {
		return NoTime
	}
	return t.clock.WatermarkUs
}

// ends: the subtask holds nobody back any more.
func (t subtask) ends() bool { return t.State == jobpb.SubtaskState_SUBTASK_FINISHED }
