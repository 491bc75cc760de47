package schedule

import (
	"github.com/sluiceio/sluice/coordinator/region"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/coordinator/supply"
	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// track is how the leader follows a planned job: what it derives from the facts, change by change. All of it could be
// computed from the facts at any time, and is, by the first look of a new leader. But one report of ten thousand must not
// cost a look at ten thousand subtasks.
type track struct {
	seen      *state.Job // the facts that are in here
	shape     *shape
	supply    *supply.Supply
	acting    map[uint64]int32 // by process: attempts that may act
	held      map[string]int32 // slots by worker
	producing []int32          // by chain: subtasks that have handed over records, or finished
	finished  []int32          // by chain: subtasks that have finished
	gates     []gate           // by region; nil: no region has one
	opening   opening
	issued    []int32          // attempts that may have to be deployed, by position
	spots     []*taskpb.Location // by position; nil: to be made again
	stores    map[string]bool      // workers that may have stored results of the job
	lost      map[resultKey]string // stored results that cannot be read although the facts say so, and why
	idle      int                  // slots that are granted and in which nothing acts
	finishes  int                  // how often a region has finished
	released  int                  // finishes when results were released last
	closed    int                  // edges that were read to their end when results were released last
	releasing bool                 // look again for results to release
	visits    int                  // subtasks looked at: what a test holds against the number of reports
}

// resultKey names what one attempt stored for an edge: attempts are never numbered twice.
type resultKey struct {
	edge, producer int32
	attempt        uint32
}

// modes of setting schedule.
type mode uint8

const (
	byRegion mode = iota
	eager
	lazy
)

// shape is what of a plan is looked up all the time.
type shape struct {
	mode   mode
	in     [][]*jobpb.Edge // by chain: PIPELINED edges that enter it
	out    [][]*jobpb.Edge // by chain: PIPELINED edges that leave it
	writes []bool          // by chain: it prepares output that a process has to commit
	gated  []bool          // by chain: its sources emit nothing before a gate opens
	guards []bool          // by chain: it loads before it reads what lies behind a gate
}

func shapeOf(l *region.Layout) *shape {
	p := l.Plan()
	n := len(p.Chains)
	s := &shape{in: make([][]*jobpb.Edge, n), out: make([][]*jobpb.Edge, n), writes: make([]bool, n), guards: make([]bool, n)}
	s.gated = gatedChains(p)
	switch setting.Values(p.Settings).Text(setting.Schedule) {
	case "eager":
		s.mode = eager
	case "lazy":
		s.mode = lazy
	}
	for _, e := range p.Edges {
		if e.Exchange != jobpb.ExchangeKind_EXCHANGE_BLOCKING {
			s.in[e.ToChain] = append(s.in[e.ToChain], e)
			s.out[e.FromChain] = append(s.out[e.FromChain], e)
		}
	}
	for c, chain := range p.Chains {
		s.guards[c] = l.Gated(int32(c))
		for _, o := range chain.Operators {
			s.writes[c] = s.writes[c] || p.Graph.Operators[o].Guarantee != jobpb.Guarantee_GUARANTEE_UNSPECIFIED
		}
	}
	return s
}

// follow brings what is tracked of a job up to its facts.
func (l *Leader) follow(j *job, facts *state.Job) {
	if facts.Plan() == nil || j.seen == facts {
		return
	}
	old := j.seen
	if old == nil || old.Plan() == nil {
		old = nil
		j.begin(facts)
	}
	drops := drops{}
	for r := range facts.RegionChanges(old) {
		status := facts.Region(int32(r)).Status
		j.supply.Region(int32(r), status)
		if status == jobpb.RegionStatus_REGION_FINISHED && (old == nil || old.Region(int32(r)).Status != status) {
			j.finishes++
		}
	}
	for pos := range facts.Changes(old) {
		var was *jobpb.Subtask
		if old != nil {
			was = old.At(pos)
		}
		l.followSubtask(j, facts, pos, was, drops)
	}
	for i := range facts.SlotChanges(old) {
		j.followSlot(old, facts, i)
	}
	j.seen = facts
	j.want = nil
	l.sendDrops(j, drops)
}

// begin tracks a job from its plan on.
func (j *job) begin(facts *state.Job) {
	p := facts.Plan()
	j.track = track{
		shape: shapeOf(facts.Layout()), supply: supply.New(facts.Layout()), acting: map[uint64]int32{}, held: map[string]int32{},
		producing: make([]int32, len(p.Chains)), finished: make([]int32, len(p.Chains)), spots: make([]*taskpb.Location, facts.Size()), stores: map[string]bool{}, lost: map[resultKey]string{},
	}
	j.gates = gatesOf(facts.Layout(), j.shape)
}

func (l *Leader) followSubtask(j *job, facts *state.Job, pos int, was *jobpb.Subtask, d drops) {
	t := facts.At(pos)
	j.visits++
	j.spots[pos] = nil
	if was != nil {
		j.count(was, -1)
		if acts(was.State) && j.acting[was.Process] == 0 {
			delete(j.acting, was.Process)
			j.scan = j.scan || !acts(t.State) || t.Process != was.Process // the process may be needed no more
		}
	}
	j.count(t, +1)
	if t.State == jobpb.SubtaskState_SUBTASK_SCHEDULED && (was == nil || was.Attempt != t.Attempt) {
		j.issued = append(j.issued, int32(pos))
	}
	if j.shape.mode == lazy && producing(t) && (was == nil || !producing(was)) {
		j.scan = j.scan || j.producing[t.Chain] == 1
		j.wakeConsumers(facts, t)
	}
	out := facts.Layout().Out(t.Chain)
	if len(out) == 0 {
		return
	}
	if t.Worker != "" {
		j.stores[t.Worker] = true
	}
	if was != nil {
		d.superseded(facts, was, t)
	}
	for _, e := range out {
		j.supply.Put(e, t.Index, l.holding(j, t, e))
	}
}

// count keeps what is counted of subtasks in step.
func (j *job) count(t *jobpb.Subtask, delta int32) {
	if acts(t.State) {
		j.acting[t.Process] += delta
	}
	if producing(t) {
		j.producing[t.Chain] += delta
	}
	if t.State == jobpb.SubtaskState_SUBTASK_FINISHED {
		j.finished[t.Chain] += delta
	}
	if j.shape.guards[t.Chain] && (t.Loaded || t.State == jobpb.SubtaskState_SUBTASK_FINISHED) {
		j.gates[t.Region].loaded += delta
		j.opening.look = true
	}
}

func (j *job) followSlot(old, facts *state.Job, i int) {
	if old != nil {
		j.countSlot(old, i, -1)
	}
	j.countSlot(facts, i, +1)
}

func (j *job) countSlot(facts *state.Job, i int, delta int32) {
	w, _, ok := facts.Grant(i)
	if !ok {
		return
	}
	if j.held[w] += delta; j.held[w] == 0 {
		delete(j.held, w)
	}
	if facts.InSlot(i) == 0 {
		j.idle += int(delta)
	}
}

// producing reports whether a consumer of a subtask can find something to do.
func producing(t *jobpb.Subtask) bool {
	return t.Produced || t.State == jobpb.SubtaskState_SUBTASK_FINISHED
}
