package tally

import (
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Tally of one planned job.
type Tally struct {
	seen      *state.Job
	acting    map[uint64]int32 // attempts that may act, by process
	held      map[string]int32 // slots, by worker
	producing []int32          // by chain
	finished  []int32          // by chain
	loaded    []int32          // by region
	idle      int
	finishes  int
	visits    int
}

// New counts nothing yet.
func New(facts *state.Job) *Tally {
	p := facts.Plan()
	return &Tally{
		acting: map[uint64]int32{}, held: map[string]int32{}, producing: make([]int32, len(p.Chains)), finished: make([]int32, len(p.Chains)),
		loaded: make([]int32, len(p.Regions)),
	}
}

// Change is one record that changed.
type Change struct {
	Position int
	Was      *jobpb.Subtask // nil: it is looked at for the first time
}

// Changes since the facts that were looked at before.
type Changes struct {
	Subtasks []Change
	Regions  []int32
	Loaded   bool // some subtask has loaded what it needs, or no longer has
	Ended    bool // some process has no attempt left that may act
	Woken    bool // a chain of which nothing had produced anything has begun to
}

// Follow looks at newer facts of the job.
func (t *Tally) Follow(facts *state.Job) Changes {
	var c Changes
	for r := range facts.RegionChanges(t.seen) {
		c.Regions = append(c.Regions, int32(r))
		done := jobpb.RegionStatus_REGION_FINISHED
		if facts.Region(int32(r)).Status == done && (t.seen == nil || t.seen.Region(int32(r)).Status != done) {
			t.finishes++
		}
	}
	for pos := range facts.Changes(t.seen) {
		x := Change{Position: pos}
		if t.seen != nil {
			x.Was = t.seen.At(pos)
		}
		t.move(facts, x, &c)
		c.Subtasks = append(c.Subtasks, x)
	}
	for i := range facts.SlotChanges(t.seen) {
		if t.seen != nil {
			t.slot(t.seen, i, -1)
		}
		t.slot(facts, i, +1)
	}
	t.seen = facts
	return c
}

func (t *Tally) move(facts *state.Job, x Change, c *Changes) {
	now := facts.At(x.Position)
	gated := facts.Layout().Gated(now.Chain)
	t.visits++
	if x.Was != nil {
		t.count(x.Was, gated, -1)
	}
	t.count(now, gated, +1)
	c.Woken = c.Woken || Produces(now) && t.producing[now.Chain] == 1 && (x.Was == nil || !Produces(x.Was))
	c.Loaded = c.Loaded || gated && (x.Was == nil || has(x.Was) != has(now))
	if x.Was != nil && Acts(x.Was.State) && t.acting[x.Was.Process] == 0 {
		delete(t.acting, x.Was.Process)
		c.Ended = true
	}
}

func (t *Tally) count(s *jobpb.Subtask, gated bool, delta int32) {
	if Acts(s.State) {
		t.acting[s.Process] += delta
	}
	if Produces(s) {
		t.producing[s.Chain] += delta
	}
	if s.State == jobpb.SubtaskState_SUBTASK_FINISHED {
		t.finished[s.Chain] += delta
	}
	if gated && has(s) {
		t.loaded[s.Region] += delta
	}
}

func (t *Tally) slot(facts *state.Job, i int, delta int32) {
	w, _, ok := facts.Grant(i)
	if !ok {
		return
	}
	if t.held[w] += delta; t.held[w] == 0 {
		delete(t.held, w)
	}
	if facts.InSlot(i) == 0 {
		t.idle += int(delta)
	}
}

// Acts reports whether an attempt in this state may do something.
func Acts(s jobpb.SubtaskState) bool {
	return s == jobpb.SubtaskState_SUBTASK_SCHEDULED || s == jobpb.SubtaskState_SUBTASK_RUNNING || s == jobpb.SubtaskState_SUBTASK_FINISHING
}

// Produces reports whether a consumer of a subtask can find something to do.
func Produces(s *jobpb.Subtask) bool {
	return s.Produced || s.State == jobpb.SubtaskState_SUBTASK_FINISHED
}

// has reports whether a subtask has loaded what it reads in front of its gates.
func has(s *jobpb.Subtask) bool {
	return s.Loaded || s.State == jobpb.SubtaskState_SUBTASK_FINISHED
}

// Held is the number of slots on a worker that are granted to the job; none of a job that is not planned (nil).
func (t *Tally) Held(worker string) int32 {
	if t == nil {
		return 0
	}
	return t.held[worker]
}

// Producing is the number of subtasks of a chain that have handed over records, or finished.
func (t *Tally) Producing(chain int32) int32 { return t.producing[chain] }

// Finished is the number of subtasks of a chain that have finished.
func (t *Tally) Finished(chain int32) int32 { return t.finished[chain] }

// Loaded is the number of subtasks of a region that have loaded what they read in front of their gates.
func (t *Tally) Loaded(region int32) int32 { return t.loaded[region] }

// Idle is the number of slots that are granted to the job and in which nothing acts.
func (t *Tally) Idle() int { return t.idle }

// Finishes is how often a region has finished; it never falls.
func (t *Tally) Finishes() int { return t.finishes }

// Visits counts the subtasks that were looked at: what a test holds against the number of reports.
func (t *Tally) Visits() int { return t.visits }
