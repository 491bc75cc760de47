package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluiceio/sluice/coordinator/plan"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// large is a cluster with room for a job of four keyed stages.
type large struct {
	s        *state.State
	l        *Leader
	index    uint64
	now      time.Time
	width    int32
	stages   int
	exchange jobpb.ExchangeKind
	deploys  map[string]*taskpb.Deployment
	issued   []*taskpb.SubtaskDeployment
	where    map[*taskpb.SubtaskDeployment]string
	reports  map[string]uint64
	events   []Event
	held     []Event
	slow     bool // the log does not answer
}

func newLarge(width int32, stages, workers int) *large {
	return newCluster(width, stages, workers, width/int32(workers), jobpb.ExchangeKind_EXCHANGE_PIPELINED)
}

func newCluster(width int32, stages, workers int, slots int32, x jobpb.ExchangeKind) *large {
	g := &large{s: state.New(), l: New(DefaultConfig()), now: time.UnixMicro(1_000_000_000), width: width, stages: stages, exchange: x,
		deploys: map[string]*taskpb.Deployment{}, where: map[*taskpb.SubtaskDeployment]string{}, reports: map[string]uint64{}}
	g.apply(&commandpb.Command{Command: &commandpb.Command_PutArtifact{PutArtifact: &commandpb.PutArtifact{Digest: digest, Size: 1}}})
	for i := range workers {
		g.step(Attached{Register: &controlpb.Register{Worker: fmt.Sprintf("w%04d", i), Incarnation: 1, Address: "a:1", DataAddress: "a:2",
			Slots: slots, Memory: 1 << 30, ProtocolMin: 1, ProtocolMax: 1, Os: "linux", Arch: "amd64"}})
	}
	return g
}

func (g *large) apply(c *commandpb.Command) state.Result {
	if c.Version == 0 {
		c.Version, c.TimeUs = state.Version, g.now.UnixMicro()
	}
	g.index++
	return g.s.Apply(g.index, 1, c)
}

func (g *large) step(e Event) {
	g.events = append(g.events, e)
	g.answer()
}

// answer feeds what is on its way. While the log is slow, its answers wait.
func (g *large) answer() {
	if !g.slow {
		g.events, g.held = append(g.held, g.events...), nil
	}
	for len(g.events) > 0 {
		e := g.events[0]
		g.events = g.events[1:]
		if _, ok := e.(ProposalDone); ok && g.slow {
			g.held = append(g.held, e)
			continue
		}
		for _, a := range g.l.Step(g.s.View(), e, g.now) {
			switch a := a.(type) {
			case Propose:
				g.events = append(g.events, ProposalDone{Key: a.Key, Result: g.apply(a.Command)})
			case Send:
				switch m := a.Message.Message.(type) {
				case *controlpb.CoordinatorMessage_Build:
					g.events = append(g.events, Built{Worker: a.Worker, Incarnation: 1, Result: &controlpb.BuildResult{Job: m.Build.Job, Build: m.Build.Build, Built: &taskpb.Built{Graph: g.graph()}}})
				case *controlpb.CoordinatorMessage_Deploy:
					g.deploys[a.Worker] = m.Deploy.Deployment
					for _, t := range m.Deploy.Deployment.Subtasks {
						g.issued = append(g.issued, t)
						g.where[t] = a.Worker
					}
				}
			}
		}
	}
}

func (g *large) graph() *jobpb.Graph {
	gr := &jobpb.Graph{Name: "large", MaxParallelism: jobpb.MaxParallelism, Operators: []*jobpb.Operator{{Id: "s0", Kind: "source", Bounded: true, Parallelism: g.width}}}
	for i := 1; i < g.stages; i++ {
		gr.Operators = append(gr.Operators, &jobpb.Operator{Id: fmt.Sprint("s", i), Kind: "map", Bounded: true, Parallelism: g.width,
			Inputs: []*jobpb.Input{{Operator: int32(i - 1), Partitioner: jobpb.Partitioner_PARTITIONER_HASH, Exchange: g.exchange}}})
	}
	return gr
}

func (g *large) submit(b testing.TB) *state.Job {
	r := g.apply(&commandpb.Command{RequestId: fmt.Sprint("r", g.index), Command: &commandpb.Command_SubmitJob{SubmitJob: &commandpb.SubmitJob{Spec: &jobpb.JobSpec{Name: "large", Artifact: digest}}}})
	g.step(Applied{Index: g.index})
	j := g.s.View().Job(r.Job)
	if j == nil || j.Status() != jobpb.JobStatus_JOB_RUNNING {
		b.Fatalf("%s: %v", r, j)
	}
	return j
}

// reportAll has every attempt report a state, one by one, as workers do; the log answers at once, which is the worst
// case for batching.
func (g *large) reportAll(j *state.Job, s jobpb.SubtaskState) {
	for t := range j.Subtasks() {
		g.reports[t.Worker]++
		g.step(Reported{Worker: t.Worker, Incarnation: 1, Report: &controlpb.Report{Sequence: g.reports[t.Worker], Job: j.ID(), Process: t.Process,
			Fact: &controlpb.Report_Subtask{Subtask: &taskpb.SubtaskUpdate{Chain: t.Chain, Index: t.Index, Attempt: t.Attempt, Region: t.Region, RegionEpoch: 1, State: s}}}})
	}
}

// report has one attempt report a state.
func (g *large) report(j *state.Job, t *taskpb.SubtaskDeployment, s jobpb.SubtaskState) {
	u := &taskpb.SubtaskUpdate{Chain: t.Chain, Index: t.Index, Attempt: t.Attempt, Region: t.Region, RegionEpoch: t.RegionEpoch, State: s}
	if s == jobpb.SubtaskState_SUBTASK_FINISHED {
		for _, e := range j.Layout().Out(t.Chain) {
			u.Partitions = append(u.Partitions, &jobpb.Partition{Edge: e, State: jobpb.PartitionState_PARTITION_STORED, Bytes: 1, Records: 1,
				Digest: make([]byte, 32), Attempt: t.Attempt, RegionEpoch: t.RegionEpoch})
		}
	}
	w := g.where[t]
	g.reports[w]++
	g.step(Reported{Worker: w, Incarnation: 1, Report: &controlpb.Report{Sequence: g.reports[w], Job: j.ID(), Fact: &controlpb.Report_Subtask{Subtask: u}}})
}

// looks counts the subtasks of a job that the leader has looked at.
func looks(j *job) int { return j.visits + j.counts.Visits() + j.supply.Visits() }

// The promise: of a shuffle of 10,000 × 10,000 no report costs a look at more than a few subtasks, whether all of them run
// at once or a hundred at a time; only the completion of a stage concerns all of the next one. The log takes a while, so
// that reports gather.
func TestReportsOfALargeShuffleCostNoPassOverIt(t *testing.T) {
	const few = 100
	for name, c := range map[string]struct{ width, slots, gather int32 }{
		"all at once":       {10_000, 10_000, 50},
		"hundred at a time": {3_000, 100, 10},
	} {
		t.Run(name, func(t *testing.T) {
			const workers = 10
			g := newCluster(c.width, 2, workers, c.slots/workers, jobpb.ExchangeKind_EXCHANGE_BLOCKING)
			j := g.submit(t)
			if n := len(j.Plan().Regions); n != int(2*c.width) {
				t.Fatalf("%d regions", n)
			}
			followed := g.l.jobs[j.ID()]
			reports, begun := 0, looks(followed)
			for len(g.issued) > 0 {
				batch := g.issued[:min(int(c.gather), len(g.issued))]
				g.issued = g.issued[len(batch):]
				g.slow = true
				for _, x := range batch {
					before := looks(followed)
					g.report(j, x, jobpb.SubtaskState_SUBTASK_RUNNING)
					g.report(j, x, jobpb.SubtaskState_SUBTASK_FINISHED)
					reports += 2
					if n := looks(followed) - before; n > few {
						t.Fatalf("two reports cost a look at %d subtasks", n)
					}
				}
				g.slow = false
				g.answer()
			}
			now := g.s.View().Job(j.ID())
			if n := now.Count(jobpb.SubtaskState_SUBTASK_FINISHED); n != int(2*c.width) || now.Status() != jobpb.JobStatus_JOB_FINISHING && !state.Terminal(now.Status()) {
				t.Fatalf("%d subtasks have finished, the job is %s", n, now.Status())
			}
			if all := looks(followed) - begun; all > few*reports {
				t.Errorf("%d reports cost a look at %d subtasks", reports, all)
			} else {
				t.Logf("%d reports, %d looks at subtasks", reports, all)
			}
		})
	}
}

// The promise: ten thousand subtasks are planned, divided into regions, granted and deployed within a second.
func BenchmarkPlanAndScheduleTenThousandSubtasks(b *testing.B) {
	for b.Loop() {
		g := newLarge(2500, 4, 50)
		j := g.submit(b)
		if j.Size() != 10_000 || len(g.deploys) != 50 {
			b.Fatal(j.Size(), len(g.deploys))
		}
	}
}

func BenchmarkPlanTenThousandSubtasks(b *testing.B) {
	g := &large{width: 2500, stages: 4}
	for b.Loop() {
		if p, ds := plan.Make(g.graph(), plan.Options{}); p == nil {
			b.Fatal(ds)
		}
	}
}

func BenchmarkTenThousandSubtasksReportRunning(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		g := newLarge(2500, 4, 50)
		j := g.submit(b)
		b.StartTimer()
		g.reportAll(j, jobpb.SubtaskState_SUBTASK_RUNNING)
		if n := g.s.View().Job(j.ID()).Count(jobpb.SubtaskState_SUBTASK_RUNNING); n != 10_000 {
			b.Fatal(n)
		}
	}
}

// A heartbeat costs the same with one job as with a thousand.
func BenchmarkHeartbeat(b *testing.B) {
	for _, jobs := range []int{1, 1000} {
		b.Run(fmt.Sprint(jobs, "jobs"), func(b *testing.B) {
			g := newLarge(4, 2, 1)
			for i := range jobs {
				r := g.apply(&commandpb.Command{RequestId: fmt.Sprint("q", i), Command: &commandpb.Command_SubmitJob{SubmitJob: &commandpb.SubmitJob{Spec: &jobpb.JobSpec{Name: "x", Artifact: digest}}}})
				g.step(Applied{Index: r.Index})
			}
			e := Heartbeat{Worker: "w0000", Incarnation: 1}
			for b.Loop() {
				g.now = g.now.Add(time.Nanosecond)
				if as := g.l.Step(g.s.View(), e, g.now); len(as) > 0 {
					b.Fatal(as)
				}
			}
		})
	}
}
