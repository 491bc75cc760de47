package rollout

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluiceio/sluice/coordinator/plan"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/coordinator/tally"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

const (
	digest    = "00000000000000000000000000000000000000000000000000000000000000aa"
	hash      = jobpb.Partitioner_PARTITIONER_HASH
	rescale   = jobpb.Partitioner_PARTITIONER_RESCALE
	blocking  = jobpb.ExchangeKind_EXCHANGE_BLOCKING
	pipelined = jobpb.ExchangeKind_EXCHANGE_PIPELINED
)

// cluster is the facts of one job.
type cluster struct {
	t     *testing.T
	s     *state.State
	index uint64
	job   string
}

func (c *cluster) apply(cmd *commandpb.Command) state.Result {
	c.t.Helper()
	c.index++
	cmd.Version, cmd.TimeUs = state.Version, int64(c.index)
	r := c.s.Apply(c.index, 1, cmd)
	if r.Status != state.Applied {
		c.t.Fatalf("%T: %s", cmd.Command, r)
	}
	return r
}

func (c *cluster) facts() *state.Job { return c.s.View().Job(c.job) }

// newCluster plans a job in which all attempts are scheduled, subtask i on worker i.
func newCluster(t *testing.T, schedule string, ops ...*jobpb.Operator) *cluster {
	t.Helper()
	c := &cluster{t: t, s: state.New()}
	c.apply(&commandpb.Command{Command: &commandpb.Command_PutArtifact{PutArtifact: &commandpb.PutArtifact{Digest: digest, Size: 1}}})
	for i := range 4 {
		c.apply(&commandpb.Command{Command: &commandpb.Command_RegisterWorker{RegisterWorker: &commandpb.RegisterWorker{Worker: &commandpb.Worker{
			Id: fmt.Sprint("w", i), Incarnation: 1, Address: "a:1", DataAddress: fmt.Sprint("d:", i), Slots: 9, ProtocolMin: 1, ProtocolMax: 1,
			Os: "linux", Arch: "amd64", Health: commandpb.WorkerHealth_WORKER_ALIVE,
		}}}})
	}
	c.job = c.apply(&commandpb.Command{RequestId: "r", Command: &commandpb.Command_SubmitJob{SubmitJob: &commandpb.SubmitJob{Spec: &jobpb.JobSpec{Name: "j", Artifact: digest}}}}).Job
	c.apply(&commandpb.Command{Command: &commandpb.Command_StartPlanning{StartPlanning: &commandpb.StartPlanning{Job: c.job, Attempt: 1, Worker: "w0"}}})
	p, ds := plan.Make(&jobpb.Graph{Name: "g", Operators: ops}, plan.Options{Settings: map[string]string{"schedule": schedule}})
	if p == nil {
		t.Fatalf("plan: %v", ds)
	}
	c.apply(&commandpb.Command{Command: &commandpb.Command_PlanJob{PlanJob: &commandpb.PlanJob{Job: c.job, Attempt: 1, Plan: p}}})
	cmd := &commandpb.ScheduleRegions{Job: c.job, JobEpoch: 1}
	for _, r := range p.Regions {
		cmd.Regions = append(cmd.Regions, &taskpb.RegionEpoch{Region: r.Index, Epoch: 1})
	}
	for task := range c.facts().Subtasks() {
		cmd.Assignments = append(cmd.Assignments, &commandpb.Assignment{Chain: task.Chain, Index: task.Index, Worker: fmt.Sprint("w", task.Index), Incarnation: 1})
	}
	c.apply(&commandpb.Command{Command: &commandpb.Command_ScheduleRegions{ScheduleRegions: cmd}})
	return c
}

func (c *cluster) report(chain, index int32, change func(*taskpb.SubtaskUpdate)) {
	c.t.Helper()
	t := c.facts().Subtask(chain, index)
	u := &taskpb.SubtaskUpdate{Chain: chain, Index: index, Attempt: t.Attempt, Region: t.Region, RegionEpoch: 1, State: jobpb.SubtaskState_SUBTASK_RUNNING}
	change(u)
	c.apply(&commandpb.Command{Command: &commandpb.Command_UpdateSubtasks{UpdateSubtasks: &commandpb.UpdateSubtasks{Job: c.job, JobEpoch: 1, Updates: []*taskpb.SubtaskUpdate{u}}}})
}

func op(id string, bounded bool, p int32, ins ...*jobpb.Input) *jobpb.Operator {
	kind := "map"
	if len(ins) == 0 {
		kind = "source"
	}
	return &jobpb.Operator{Id: id, Kind: kind, Bounded: bounded, Parallelism: p, Inputs: ins}
}

func in(from int32, p jobpb.Partitioner, x jobpb.ExchangeKind) *jobpb.Input {
	return &jobpb.Input{Operator: from, Partitioner: p, Exchange: x}
}

// running are the subtasks that may be deployed, as chain[index].
func (c *cluster) running() (names []string) {
	facts := c.facts()
	plan, counts := New(facts.Layout()), tally.New(facts)
	counts.Follow(facts)
	for t := range facts.Subtasks() {
		if plan.MayRun(facts, counts, t) {
			names = append(names, fmt.Sprintf("%d[%d]", t.Chain, t.Index))
		}
	}
	return names
}

func TestLazyJobsHoldConsumersBackUntilSomethingWasProduced(t *testing.T) {
	ops := []*jobpb.Operator{op("in", true, 2), op("a", true, 2, in(0, hash, pipelined)), op("b", true, 2, in(1, hash, pipelined))}
	produced := func(u *taskpb.SubtaskUpdate) { u.Produced = true }
	c := newCluster(t, "lazy", ops...)
	for i, want := range [][]string{
		{"0[0]", "0[1]"},
		{"0[0]", "0[1]", "1[0]", "1[1]"},
		{"0[0]", "0[1]", "1[0]", "1[1]", "2[0]", "2[1]"},
	} {
		if got := c.running(); !slices.Equal(got, want) {
			t.Errorf("after %d chains have produced: %v, want %v", i, got, want)
		}
		if i < 2 {
			c.report(int32(i), 1, produced)
		}
	}
	for _, schedule := range []string{"region", "eager"} {
		if got := newCluster(t, schedule, ops...).running(); len(got) != 6 {
			t.Errorf("%s: only %v may run", schedule, got)
		}
	}
}

func TestLazyJobsHoldBackEachLaneForItself(t *testing.T) {
	c := newCluster(t, "lazy", op("in", true, 2), op("a", true, 4, in(0, rescale, pipelined)), op("b", true, 4, in(1, rescale, pipelined)))
	c.report(0, 1, func(u *taskpb.SubtaskUpdate) { u.Produced = true })
	if got, want := c.running(), []string{"0[0]", "0[1]", "1[2]", "1[3]"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	facts := c.facts()
	if got := New(facts.Layout()).Near(facts, facts.Subtask(0, 1)); !slices.Equal(got, []int32{4, 5}) {
		t.Errorf("consumers of 0[1] at positions %v", got)
	}
}

// Whoever waited for all producers would wait for ever: for one that never has anything, or for one that reads what is
// complete only when the consumer has made room.
func TestALazyConsumerDoesNotWaitForProducersThatAreHeldBack(t *testing.T) {
	produced := func(u *taskpb.SubtaskUpdate) { u.Produced = true }
	c := newCluster(t, "lazy", op("in", true, 1), op("in2", true, 1), op("a", true, 1, in(0, hash, pipelined)),
		op("b", true, 1, in(2, hash, pipelined), in(1, hash, pipelined)))
	c.report(1, 0, produced)
	if got, want := c.running(), []string{"0[0]", "1[0]", "3[0]"}; !slices.Equal(got, want) {
		t.Errorf("a source that has nothing yet: %v, want %v", got, want)
	}
	// in is read as it comes and, by way of stored, as a whole: until in has ended, whole has nothing for both.
	c = newCluster(t, "lazy", op("in", true, 1), op("direct", true, 1, in(0, hash, pipelined)), op("stored", true, 1, in(0, hash, blocking)),
		op("whole", true, 1, in(2, hash, pipelined)), op("both", true, 1, in(1, hash, pipelined), in(3, hash, pipelined)))
	c.report(0, 0, produced)
	c.report(1, 0, produced)
	if got, want := c.running(), []string{"0[0]", "1[0]", "2[0]", "4[0]"}; !slices.Equal(got, want) {
		t.Errorf("a producer behind a stored result: %v, want %v", got, want)
	}
}

func TestSourcesInFrontOfAGateAreFound(t *testing.T) {
	gated := func(i *jobpb.Input) *jobpb.Input {
		i.Phase, i.Gated = 1, true
		return i
	}
	c := newCluster(t, "lazy", op("init", true, 2), op("live", false, 2), op("m", false, 2, in(1, hash, pipelined)),
		op("boot", false, 2, in(0, hash, blocking), gated(in(2, hash, pipelined))), op("other", false, 1))
	l := c.facts().Layout()
	p := New(l)
	var names []string
	for _, ch := range l.Plan().Chains {
		if p.Gated(ch.Index) {
			names = append(names, ch.Name)
		}
	}
	if !slices.Equal(names, []string{"live"}) {
		t.Errorf("gated chains %v", names)
	}
	loads, sources := int32(0), 0
	for _, g := range p.Gates {
		loads += g.Loads
		sources += len(g.Sources)
	}
	if loads != 2 || sources != 2 {
		t.Errorf("%d subtasks load, %d sources wait", loads, sources)
	}
	// Nothing of a region with a gate is held back: its source produces only when all has loaded.
	if got := c.running(); len(got) != c.facts().Size() {
		t.Errorf("only %v may run", got)
	}
	if p := New(newCluster(t, "region", op("in", true, 1)).facts().Layout()); p.Gates != nil {
		t.Error("a gate where nothing is gated")
	}
}

func TestOnlyChainsWithSinksPrepareOutput(t *testing.T) {
	sink := op("out", true, 1, in(0, hash, blocking))
	sink.Guarantee = jobpb.Guarantee_GUARANTEE_EXACTLY_ONCE
	p := New(newCluster(t, "region", op("in", true, 1), sink).facts().Layout())
	if p.Writes(0) || !p.Writes(1) {
		t.Errorf("source %t, sink %t", p.Writes(0), p.Writes(1))
	}
}

func text(ls []*taskpb.Location) (s []string) {
	for _, l := range ls {
		x := fmt.Sprintf("%d[%d]#%d@%d %s %s", l.Chain, l.Index, l.Attempt, l.RegionEpoch, l.Worker, l.DataAddress)
		for _, p := range l.Partitions {
			x += fmt.Sprintf(" %d#%d@%d", p.Edge, p.Attempt, p.RegionEpoch)
		}
		s = append(s, x)
	}
	return s
}

func TestSubtasksAreToldWhereTheirPartnersAreAndWhatTheyStored(t *testing.T) {
	c := newCluster(t, "region", op("in", true, 2), op("a", true, 2, in(0, hash, blocking)), op("b", true, 4, in(1, rescale, blocking)))
	calls := 0
	data := func(w string) string { calls++; return c.s.View().Worker(w).DataAddress }
	d := NewDirectory(c.facts())
	first := int32(c.facts().Layout().First(1))
	at := func(positions ...int32) []string { return text(d.Locations(c.facts(), positions, data)) }
	want := []string{"0[0]#1@1 w0 d:0", "0[1]#1@1 w1 d:1", "2[2]#1@1 w2 d:2", "2[3]#1@1 w3 d:3"}
	if got := at(first + 1); !slices.Equal(got, want) {
		t.Errorf("a[1] is told of %q, want %q", got, want)
	}
	made := calls
	if got := at(first + 1); !slices.Equal(got, want) || calls != made {
		t.Errorf("made again: %q, %d lookups", got, calls-made)
	}
	c.report(0, 1, func(u *taskpb.SubtaskUpdate) {
		u.State = jobpb.SubtaskState_SUBTASK_FINISHED
		u.Partitions = []*jobpb.Partition{{Edge: 0, State: jobpb.PartitionState_PARTITION_STORED, Bytes: 1, Digest: make([]byte, 32), Attempt: 1, RegionEpoch: 1}}
	})
	d.Forget(1, 0)
	want[1] += " 0#1@1"
	if got := at(first + 1); !slices.Equal(got, want) || calls != made+1 {
		t.Errorf("after a producer has finished: %q, %d lookups", got, calls-made)
	}
	// Two subtasks share what both need.
	if got := at(first, first+1); len(got) != 2+4 {
		t.Errorf("both are told of %q", got)
	}
	d.ForgetAll()
	if made = calls; len(at(first)) != 4 || calls != made+4 {
		t.Errorf("%d lookups after everything was forgotten", calls-made)
	}
}
