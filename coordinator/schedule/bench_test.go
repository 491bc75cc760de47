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
	s       *state.State
	l       *Leader
	index   uint64
	now     time.Time
	width   int32
	stages  int
	workers int
	deploys map[string]*taskpb.Deployment
	reports map[string]uint64
}

func newLarge(b *testing.B, width int32, stages, workers int) *large {
	g := &large{s: state.New(), l: New(DefaultConfig()), now: time.UnixMicro(1_000_000_000), width: width, stages: stages, workers: workers,
		deploys: map[string]*taskpb.Deployment{}, reports: map[string]uint64{}}
	g.apply(&commandpb.Command{Command: &commandpb.Command_PutArtifact{PutArtifact: &commandpb.PutArtifact{Digest: digest, Size: 1}}})
	for i := range workers {
		g.step(Attached{Register: &controlpb.Register{Worker: fmt.Sprintf("w%04d", i), Incarnation: 1, Address: "a:1", DataAddress: "a:2",
			Slots: width / int32(workers), Memory: 1 << 30, ProtocolMin: 1, ProtocolMax: 1, Os: "linux", Arch: "amd64"}})
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
	events := []Event{e}
	for len(events) > 0 {
		e, events = events[0], events[1:]
		for _, a := range g.l.Step(g.s.View(), e, g.now) {
			switch a := a.(type) {
			case Propose:
				events = append(events, ProposalDone{Key: a.Key, Result: g.apply(a.Command)})
			case Send:
				switch m := a.Message.Message.(type) {
				case *controlpb.CoordinatorMessage_Build:
					events = append(events, Built{Worker: a.Worker, Incarnation: 1, Result: &controlpb.BuildResult{Job: m.Build.Job, Build: m.Build.Build, Built: &taskpb.Built{Graph: g.graph()}}})
				case *controlpb.CoordinatorMessage_Deploy:
					g.deploys[a.Worker] = m.Deploy.Deployment
				}
			}
		}
	}
}

func (g *large) graph() *jobpb.Graph {
	gr := &jobpb.Graph{Name: "large", MaxParallelism: jobpb.MaxParallelism, Operators: []*jobpb.Operator{{Id: "s0", Kind: "source", Bounded: true, Parallelism: g.width}}}
	for i := 1; i < g.stages; i++ {
		gr.Operators = append(gr.Operators, &jobpb.Operator{Id: fmt.Sprint("s", i), Kind: "map", Bounded: true, Parallelism: g.width,
			Inputs: []*jobpb.Input{{Operator: int32(i - 1), Partitioner: jobpb.Partitioner_PARTITIONER_HASH}}})
	}
	return gr
}

func (g *large) submit(b *testing.B) *state.Job {
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

// The promise: ten thousand subtasks are planned, divided into regions, granted and deployed within a second.
func BenchmarkPlanAndScheduleTenThousandSubtasks(b *testing.B) {
	for b.Loop() {
		g := newLarge(b, 2500, 4, 50)
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
		g := newLarge(b, 2500, 4, 50)
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
			g := newLarge(b, 4, 2, 1)
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
