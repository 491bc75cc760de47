package tally

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/coordinator/plan"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

const digest = "00000000000000000000000000000000000000000000000000000000000000aa"

// log is facts to which commands are applied.
type log struct {
	t     *rapid.T
	s     *state.State
	index uint64
	job   string
}

func (l *log) apply(c *commandpb.Command) state.Result {
	l.index++
	c.Version, c.TimeUs = state.Version, int64(l.index)
	return l.s.Apply(l.index, 1, c)
}

func (l *log) facts() *state.Job { return l.s.View().Job(l.job) }

// newLog plans a job with a stored, a pipelined and a gated edge.
func newLog(t *rapid.T, width int32) *log {
	l := &log{t: t, s: state.New()}
	l.apply(&commandpb.Command{Command: &commandpb.Command_PutArtifact{PutArtifact: &commandpb.PutArtifact{Digest: digest, Size: 1}}})
	for i := range 2 {
		l.apply(&commandpb.Command{Command: &commandpb.Command_RegisterWorker{RegisterWorker: &commandpb.RegisterWorker{Worker: &commandpb.Worker{
			Id: fmt.Sprint("w", i), Incarnation: 1, Address: "a:1", DataAddress: "a:2", Slots: 9, ProtocolMin: 1, ProtocolMax: 1, Os: "linux", Arch: "amd64",
			Health: commandpb.WorkerHealth_WORKER_ALIVE,
		}}}})
	}
	l.job = l.apply(&commandpb.Command{RequestId: "r", Command: &commandpb.Command_SubmitJob{SubmitJob: &commandpb.SubmitJob{Spec: &jobpb.JobSpec{Name: "j", Artifact: digest}}}}).Job
	l.apply(&commandpb.Command{Command: &commandpb.Command_StartPlanning{StartPlanning: &commandpb.StartPlanning{Job: l.job, Attempt: 1, Worker: "w0"}}})
	hash := jobpb.Partitioner_PARTITIONER_HASH
	p, ds := plan.Make(&jobpb.Graph{Name: "g", Operators: []*jobpb.Operator{
		{Id: "init", Kind: "source", Bounded: true, Parallelism: width},
		{Id: "live", Kind: "source", Parallelism: width},
		{Id: "boot", Kind: "map", Parallelism: width, Inputs: []*jobpb.Input{
			{Operator: 0, Partitioner: hash, Exchange: jobpb.ExchangeKind_EXCHANGE_BLOCKING},
			{Operator: 1, Partitioner: hash, Exchange: jobpb.ExchangeKind_EXCHANGE_PIPELINED, Phase: 1, Gated: true},
		}},
	}}, plan.Options{})
	if p == nil {
		t.Fatalf("plan: %v", ds)
	}
	l.apply(&commandpb.Command{Command: &commandpb.Command_PlanJob{PlanJob: &commandpb.PlanJob{Job: l.job, Attempt: 1, Plan: p}}})
	return l
}

// happen does one random thing to the job; most of what is refused is refused by the facts.
func (l *log) happen() {
	j := l.facts()
	r := rapid.Int32Range(0, int32(len(j.Plan().Regions)-1)).Draw(l.t, "region")
	epochs := []*taskpb.RegionEpoch{{Region: r, Epoch: j.Region(r).Epoch}}
	switch rapid.IntRange(0, 4).Draw(l.t, "thing") {
	case 0:
		c := &commandpb.ScheduleRegions{Job: l.job, JobEpoch: j.Epoch(), Regions: epochs}
		for t := range j.Subtasks() {
			if t.Region == r {
				c.Assignments = append(c.Assignments, &commandpb.Assignment{Chain: t.Chain, Index: t.Index, Worker: fmt.Sprint("w", t.Index%2), Incarnation: 1})
			}
		}
		l.apply(&commandpb.Command{Command: &commandpb.Command_ScheduleRegions{ScheduleRegions: c}})
	case 1:
		l.apply(&commandpb.Command{Command: &commandpb.Command_RestartRegions{RestartRegions: &commandpb.RestartRegions{
			Job: l.job, JobEpoch: j.Epoch(), Regions: epochs, Cause: &jobpb.Failure{Kind: jobpb.FailureKind_FAILURE_LOSS}}}})
	default:
		l.report(j, j.At(rapid.IntRange(0, j.Size()-1).Draw(l.t, "subtask")))
	}
}

func (l *log) report(j *state.Job, t *jobpb.Subtask) {
	u := &taskpb.SubtaskUpdate{Chain: t.Chain, Index: t.Index, Attempt: t.Attempt, Region: t.Region, RegionEpoch: j.Region(t.Region).Epoch,
		State: rapid.SampledFrom([]jobpb.SubtaskState{jobpb.SubtaskState_SUBTASK_RUNNING, jobpb.SubtaskState_SUBTASK_FINISHED, jobpb.SubtaskState_SUBTASK_FAILED}).Draw(l.t, "state")}
	switch u.State {
	case jobpb.SubtaskState_SUBTASK_RUNNING:
		u.Produced, u.Loaded = rapid.Bool().Draw(l.t, "produced"), rapid.Bool().Draw(l.t, "loaded")
	case jobpb.SubtaskState_SUBTASK_FINISHED:
		for _, e := range j.Layout().Out(t.Chain) {
			u.Partitions = append(u.Partitions, &jobpb.Partition{Edge: e, State: jobpb.PartitionState_PARTITION_STORED, Digest: make([]byte, 32), Attempt: t.Attempt, RegionEpoch: u.RegionEpoch})
		}
	}
	l.apply(&commandpb.Command{Command: &commandpb.Command_UpdateSubtasks{UpdateSubtasks: &commandpb.UpdateSubtasks{Job: l.job, JobEpoch: j.Epoch(), Updates: []*taskpb.SubtaskUpdate{u}}}})
}

func count(j *state.Job, f func(*jobpb.Subtask) bool) (n int32) {
	for t := range j.Subtasks() {
		if f(t) {
			n++
		}
	}
	return n
}

// What is counted change by change is what counting all over would find.
func TestATallyThatFollowsCountsWhatIsThere(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		l := newLog(r, rapid.Int32Range(1, 3).Draw(r, "width"))
		c := New(l.facts())
		finishes, was := 0, map[int32]bool{}
		for range rapid.IntRange(1, 60).Draw(r, "things") {
			l.happen()
			j := l.facts()
			for x := range j.Regions() {
				done := x.Status == jobpb.RegionStatus_REGION_FINISHED
				if done && !was[x.Index] {
					finishes++
				}
				was[x.Index] = done
			}
			c.Follow(j)
			check(r, j, c)
			if c.Finishes() != finishes {
				r.Fatalf("regions finished %d times, counted %d", finishes, c.Finishes())
			}
		}
	})
}

func check(r *rapid.T, j *state.Job, c *Tally) {
	for _, ch := range j.Plan().Chains {
		if got, want := c.Finished(ch.Index), count(j, func(t *jobpb.Subtask) bool {
			return t.Chain == ch.Index && t.State == jobpb.SubtaskState_SUBTASK_FINISHED
		}); got != want {
			r.Fatalf("chain %d: %d finished, want %d", ch.Index, got, want)
		}
		if got, want := c.Producing(ch.Index), count(j, func(t *jobpb.Subtask) bool { return t.Chain == ch.Index && Produces(t) }); got != want {
			r.Fatalf("chain %d: %d produce, want %d", ch.Index, got, want)
		}
	}
	for x := range j.Regions() {
		if got, want := c.Loaded(x.Index), count(j, func(t *jobpb.Subtask) bool {
			return t.Region == x.Index && j.Layout().Gated(t.Chain) && (t.Loaded || t.State == jobpb.SubtaskState_SUBTASK_FINISHED)
		}); got != want {
			r.Fatalf("region %d: %d have loaded, want %d", x.Index, got, want)
		}
	}
	idle, held := 0, map[string]int32{}
	for i := range j.Slots() {
		if w, _, ok := j.Grant(i); ok {
			held[w]++
			if j.InSlot(i) == 0 {
				idle++
			}
		}
	}
	if c.Idle() != idle || c.Held("w0") != held["w0"] || c.Held("w1") != held["w1"] {
		r.Fatalf("%d idle slots, %d and %d held; want %d, %v", c.Idle(), c.Held("w0"), c.Held("w1"), idle, held)
	}
	acting := map[uint64]int32{}
	for t := range j.Subtasks() {
		if Acts(t.State) {
			acting[t.Process]++
		}
	}
	if len(acting) != len(c.acting) {
		r.Fatalf("processes that act: %v, want %v", c.acting, acting)
	}
	for p, n := range acting {
		if c.acting[p] != n {
			r.Fatalf("processes that act: %v, want %v", c.acting, acting)
		}
	}
}

func TestAJobThatIsNotPlannedHoldsNothing(t *testing.T) {
	var c *Tally
	if n := c.Held("w"); n != 0 {
		t.Error(n)
	}
}
