package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/task/fault"
)

const (
	running   = jobpb.SubtaskState_SUBTASK_RUNNING
	done      = jobpb.SubtaskState_SUBTASK_FINISHED
	broken    = jobpb.SubtaskState_SUBTASK_FAILED
	cancelled = jobpb.SubtaskState_SUBTASK_CANCELLED
)

// waiting is a job whose source waits for ever, after n records.
func waiting(t *testing.T, n int) (*job, *collected[int]) {
	src := ints(n + 1)
	src.endless = true
	src.poll = func(ctx context.Context, i int) error {
		if i == n {
			<-ctx.Done()
		}
		return nil
	}
	sink := &collected[int]{}
	j := newJob(t)
	out := j.then(j.source("src", 1, NewSource(src, SourceOptions[int]{})), "out", NewSink(sink))
	j.prog.Nodes[out].Committer = sink.committer
	return j, sink
}

func deploy(t *testing.T, c *cluster, d *taskpb.Deployment) {
	t.Helper()
	if err := c.proc.Deploy(d); err != nil {
		t.Fatal(err)
	}
}

// states reads n updates.
func (c *cluster) states(n int) (out []string) {
	for range n {
		u := <-c.updates
		out = append(out, fmt.Sprintf("#%d %s", u.Attempt, strings.TrimPrefix(u.State.String(), "SUBTASK_")))
	}
	return out
}

func (c *cluster) expect(want ...string) {
	c.t.Helper()
	if got := c.states(len(want)); !slices.Equal(got, want) {
		c.t.Fatalf("reports %q, want %q", got, want)
	}
}

func TestADeploymentThatArrivesTwiceStartsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, sink := waiting(t, 10)
		c := start(t, j)
		d := j.deployment(1, 1)
		deploy(t, c, d)
		c.expect("#1 RUNNING")
		deploy(t, c, d)
		c.expect("#1 RUNNING")
		c.proc.Cancel(&taskpb.Cancel{Job: "job-1", JobEpoch: 1})
		c.expect("#1 CANCELLED")
		deploy(t, c, d) // late, after its end
		c.expect("#1 CANCELLED")
		synctest.Wait()
		if n := len(sink.writers); n != 1 {
			t.Errorf("%d writers were opened", n)
		}
	})
}

func TestDeploymentsBeforeRunWaitForIt(t *testing.T) {
	j, sink := waiting(t, 1)
	c := start(t, j, func(cfg *Config) {}) // Run may or may not have begun
	deploy(t, c, j.deployment(1, 1))
	c.expect("#1 RUNNING")
	if len(sink.writers) != 1 {
		t.Error("not started")
	}
	if err := c.proc.Run(t.Context()); err == nil {
		t.Error("Run ran twice")
	}

	p, err := NewProcess(Config{Program: j.prog, Job: "job-1", Process: 1, Network: c.proc.cfg.Network, Host: c.host})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Deploy(j.deployment(7, 1)); err != nil {
		t.Fatal(err)
	}
	p.Cancel(&taskpb.Cancel{Job: "job-1", JobEpoch: 1})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Run(ctx); err != nil { // it was cancelled before it began
		t.Fatal(err)
	}
	c.expect("#7 CANCELLED")
	if err := p.Deploy(j.deployment(8, 1)); !errors.Is(err, ErrClosed) {
		t.Errorf("deploy after the end of Run: %v", err)
	}
}

// A newer epoch of a region stops the older attempts and waits for them: two attempts never write at once.
func TestANewerEpochSupersedes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, sink := waiting(t, 10)
		var open, most int
		release := make(chan struct{})
		closing := StageOf[int, int](func(*Runtime, Push[int]) (Push[int], Operator, error) {
			open++
			most = max(most, open)
			return func(int) {}, &events{onClose: func() error { <-release; open--; return nil }}, nil
		})
		j.then(0, "slow to close", closing)
		c := start(t, j)
		deploy(t, c, j.deployment(1, 1))
		c.expect("#1 RUNNING")
		c.restart()
		deploy(t, c, j.deployment(2, 2))
		deploy(t, c, j.deployment(3, 3)) // replaced again before it could begin
		synctest.Wait()
		if len(c.updates) != 0 || open != 1 {
			t.Fatalf("a newer attempt did not wait: %d open", open)
		}
		close(release)
		c.expect("#1 CANCELLED", "#2 CANCELLED", "#3 RUNNING")
		if most != 1 {
			t.Errorf("%d attempts were open at once", most)
		}
		if err := c.proc.Deploy(j.deployment(2, 2)); !errors.Is(err, ErrStale) {
			t.Errorf("stale epoch: %v", err)
		}
		d := j.deployment(9, 9)
		d.JobEpoch = 0
		if err := c.proc.Deploy(d); !errors.Is(err, ErrStale) {
			t.Errorf("stale job epoch: %v", err)
		}
		if want := []string{"abort-unknown 0#1", "abort-unknown 0#3"}; !slices.Equal(sink.calls, want) {
			t.Errorf("committer saw %v, want %v", sink.calls, want)
		}
		c.restart()
		d = j.deployment(1, 1)
		d.JobEpoch = 2 // a rescale: epochs of regions begin again
		deploy(t, c, d)
		c.expect("#3 CANCELLED", "#1 RUNNING")
	})
}

func TestCancelStopsOnlyWhatIsOldEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, _ := waiting(t, 10)
		c := start(t, j)
		deploy(t, c, j.deployment(5, 5))
		c.expect("#5 RUNNING")
		cancel := func(jobEpoch uint64, regions ...*taskpb.RegionEpoch) {
			c.proc.Cancel(&taskpb.Cancel{Job: "job-1", JobEpoch: jobEpoch, Regions: regions})
			synctest.Wait()
		}
		cancel(1, &taskpb.RegionEpoch{Region: 0, Epoch: 4})
		cancel(1, &taskpb.RegionEpoch{Region: 1, Epoch: 9})
		cancel(0)
		c.proc.Cancel(&taskpb.Cancel{Job: "job-2", JobEpoch: 9})
		synctest.Wait()
		if len(c.updates) != 0 {
			t.Fatalf("a cancel that does not concern it stopped it: %v", <-c.updates)
		}
		cancel(1, &taskpb.RegionEpoch{Region: 0, Epoch: 5})
		c.expect("#5 CANCELLED")

		// A deployment that the cancel has overtaken starts nothing.
		cancel(1, &taskpb.RegionEpoch{Region: 0, Epoch: 6})
		deploy(t, c, j.deployment(6, 6))
		c.expect("#6 CANCELLED")
		deploy(t, c, j.deployment(7, 7))
		c.expect("#7 RUNNING")
	})
}

// A cancel may be the first that a process hears of a job's new epoch.
func TestACancelOfANewJobEpochHoldsForDeploymentsBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, _ := waiting(t, 10)
		c := start(t, j)
		deploy(t, c, j.deployment(5, 5))
		c.expect("#5 RUNNING")
		c.proc.Cancel(&taskpb.Cancel{Job: "job-1", JobEpoch: 2, Regions: []*taskpb.RegionEpoch{{Region: 0, Epoch: 1}}})
		c.expect("#5 CANCELLED")
		for i, want := range []string{"#6 CANCELLED", "#7 RUNNING"} {
			epoch := uint64(i + 1)
			d := j.deployment(uint32(5+epoch), epoch)
			d.JobEpoch = 2
			deploy(t, c, d)
			c.expect(want)
		}
		old := j.deployment(9, 9)
		if err := c.proc.Deploy(old); !errors.Is(err, ErrStale) {
			t.Errorf("a deployment of the old epoch: %v", err)
		}
	})
}

func TestCancelDuringDeploy(t *testing.T) {
	j, _ := waiting(t, 3)
	c := start(t, j)
	for i := range 50 {
		attempt := uint32(i + 1)
		d := j.deployment(attempt, uint64(attempt))
		g := run.NewGroup(t.Context(), "test")
		g.Go("deploy", func(context.Context) error { return c.proc.Deploy(d) })
		c.proc.Cancel(&taskpb.Cancel{Job: "job-1", JobEpoch: 1, Regions: []*taskpb.RegionEpoch{{Region: 0, Epoch: uint64(attempt)}}})
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	last := map[uint32]jobpb.SubtaskState{}
	for len(last) < 50 || slices.Contains(valuesOf(last), running) {
		u := <-c.updates
		last[u.Attempt] = u.State
	}
	for a, s := range last {
		if s != cancelled {
			t.Errorf("attempt %d: %v", a, s)
		}
	}
}

func valuesOf[K comparable, V any](m map[K]V) (out []V) {
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

// full is a job of two subtasks whose consumer does not take records until release, so that the producer waits for
// credit.
func full(t *testing.T, release <-chan struct{}) *job {
	j := newJob(t)
	src := j.source("src", 1, NewSource(ints(1_000_000), SourceOptions[int]{}))
	stuck := StageOf[int, int](func(rt *Runtime, out Push[int]) (Push[int], Operator, error) {
		return func(v int) {
			select {
			case <-release:
			case <-rt.Ctx.Done():
			}
			out(v)
		}, Base{}, nil
	})
	j.join("slow", 1, end{from: src, by: jobpb.Partitioner_PARTITIONER_REBALANCE, x: NewExchange(mustCodec[int](t)), st: stuck})
	return j
}

func TestCancelReachesAProducerThatWaitsForCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, full(t, nil))
		deploy(t, c, c.job.deployment(1, 1))
		c.awaitRunning(2)
		synctest.Wait() // everything waits
		began := time.Now()
		c.proc.Cancel(&taskpb.Cancel{Job: "job-1", JobEpoch: 1})
		for _, u := range c.await(2) {
			if u.State == done {
				t.Errorf("chain %d finished", u.Chain)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

func TestBackpressureIsCountedWhereItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := start(t, full(t, release))
		deploy(t, c, c.job.deployment(1, 1))
		c.awaitRunning(2)
		<-time.After(10 * time.Second)
		close(release)
		s := c.proc.Sample().Counters
		for _, u := range c.await(2) {
			if u.State != done {
				t.Fatalf("%v %v", u.State, u.Failure)
			}
			s[u.Chain] = u.Counters // the last words, which outlive the process
		}
		const ten = 10_000_000
		if src := s[0]; src.BackpressuredUs != ten || src.BusyUs != 0 || src.RecordsOut != 1_000_000 || src.RecordsIn != 1_000_000 {
			t.Errorf("source %v", src)
		}
		if slow := s[1]; slow.BusyUs != ten || slow.BackpressuredUs != 0 || slow.RecordsIn != 1_000_000 {
			t.Errorf("consumer %v", slow)
		}
	})
}

// One failing subtask: its peers learn of a loss, which is not their fault.
func TestTheFailureOfAPeerIsALoss(t *testing.T) {
	j := newJob(t)
	many := ints(1_000_000)
	many.splits = 2
	src := j.source("src", 2, NewSource(many, SourceOptions[int]{}))
	j.join("bad", 2, end{from: src, by: jobpb.Partitioner_PARTITIONER_REBALANCE, x: NewExchange(mustCodec[int](t)), st: mapped(boomAt(500))})
	c := start(t, j)
	deploy(t, c, j.deployment(1, 1))
	users, losses := 0, 0
	for _, u := range c.await(4) {
		switch f := u.Failure; {
		case u.State != broken:
			t.Errorf("chain %d subtask %d: %v", u.Chain, u.Index, u.State)
		case f.Kind == jobpb.FailureKind_FAILURE_LOSS && f.Code == fault.CodePeer:
			losses++
		case f.Kind == jobpb.FailureKind_FAILURE_USER:
			users++
			if f.Operator != "bad" || !strings.HasPrefix(f.Position, "record ") || !strings.Contains(f.Position, " from subtask ") || !strings.HasSuffix(f.Position, " of src") {
				t.Errorf("failure %v", f)
			}
		}
	}
	if users != 1 || losses != 3 {
		t.Errorf("%d failures of user code, %d losses", users, losses)
	}
}

func TestPositionBehindAnExchangeCountsTheChannel(t *testing.T) {
	j := newJob(t)
	src := j.source("src", 1, NewSource(ints(5000), SourceOptions[int]{}))
	j.join("bad", 1, end{from: src, by: jobpb.Partitioner_PARTITIONER_FORWARD, x: NewExchange(mustCodec[int](t)), st: mapped(boomAt(1999))})
	c := start(t, j)
	deploy(t, c, j.deployment(1, 1))
	for _, u := range c.await(2) {
		if u.Chain == 1 {
			expect(t, u.Failure, fault.CodePanic, "bad", "record 2000 from subtask 0 of src")
		}
	}
}

func TestAKeyFunctionThatPanicsIsBlamedOnTheKeyedOperator(t *testing.T) {
	j := newJob(t)
	src := j.then(j.source("src", 1, NewSource(ints(5000), SourceOptions[int]{})), "m", mapped(same))
	x := NewKeyedExchange(mustCodec[int](t), boomAt(77), mustHash[int](t))
	j.join("count", 2, end{from: src, by: jobpb.Partitioner_PARTITIONER_HASH, x: x, st: mapped(same)})
	c := start(t, j)
	deploy(t, c, j.deployment(1, 1))
	for _, u := range c.await(3) {
		if u.Chain == 0 {
			expect(t, u.Failure, fault.CodePanic, "count", "row 77 of split 0")
		}
	}
}

// A goroutine cannot be killed: the host learns where it is stuck.
func TestUserCodeThatDoesNotReturnIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		j := newJob(t)
		stuck := mapped(func(v int) int { <-release; return v })
		j.then(j.source("src", 1, NewSource(ints(10), SourceOptions[int]{})), "stuck", stuck)
		c := start(t, j)
		deploy(t, c, j.deployment(4, 1))
		c.expect("#4 RUNNING")
		synctest.Wait()
		c.proc.Cancel(&taskpb.Cancel{Job: "job-1", JobEpoch: 1})
		began := time.Now()
		f := <-c.failed
		if took := time.Since(began); took != DefaultStopTimeout {
			t.Errorf("reported after %v", took)
		}
		if f.Code != fault.CodeStuck || f.Attempt != 4 || !strings.Contains(f.Message, "did not return within 10s") || !strings.Contains(f.Stack, "TestUserCodeThatDoesNotReturnIsReported") {
			t.Errorf("failure %v", f)
		}
		close(release)
		c.expect("#4 CANCELLED")
		if len(c.failed) != 0 {
			t.Error("reported twice")
		}
	})
}

func TestTheEndOfRunStopsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, sink := waiting(t, 10)
		c := start(t, j)
		deploy(t, c, j.deployment(1, 1))
		c.expect("#1 RUNNING")
		if err := c.stop(); err != nil {
			t.Fatal(err)
		}
		c.expect("#1 CANCELLED")
		if calls := sink.writers[0].calls; !slices.Equal(calls, []string{"close"}) {
			t.Errorf("a cancelled sink saw %v", calls)
		}
	})
}

func TestFinishedReportsCarryThePreparedOutput(t *testing.T) {
	j := newJob(t)
	sink := &collected[int]{}
	out := j.then(j.source("src", 2, NewSource(ints(10), SourceOptions[int]{})), "out", NewSink(sink))
	j.prog.Nodes[out].Committer = sink.committer
	us := finished(t, j)
	for _, u := range us {
		if len(u.Committables) != 1 {
			t.Fatalf("subtask %d: %v", u.Index, u.Committables)
		}
		k := u.Committables[0]
		if k.Sink != "out" || k.Subtask != u.Index || k.Checkpoint != uint64(FinalCheckpoint) || string(k.Data) != fmt.Sprintf("%d/1/1", u.Index) {
			t.Errorf("committable %v", k)
		}
	}
}

// ---------------------------------------------------------------- refused deployments

func TestDeploymentsThatCannotRunAreRefusedWhole(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*taskpb.Deployment)
		code   string
		text   string
	}{
		"OtherJob":      {func(d *taskpb.Deployment) { d.Job = "job-2" }, fault.CodeDeploy, "it is for process 1 of job job-2"},
		"OtherProcess":  {func(d *taskpb.Deployment) { d.Process = 7 }, fault.CodeDeploy, "it is for process 7"},
		"NoPlan":        {func(d *taskpb.Deployment) { d.Plan = nil }, fault.CodeDeploy, ""},
		"NoSuchSubtask": {func(d *taskpb.Deployment) { d.Subtasks[0].Index = 4 }, fault.CodeDeploy, ""},
		"NoLocation":    {func(d *taskpb.Deployment) { d.Locations = d.Locations[1:] }, fault.CodeDeploy, "nothing says where subtask 0 of chain 0 is"},
		"Enumerate":     {func(d *taskpb.Deployment) { d.Subtasks[1].Enumerate = []int32{0} }, fault.CodeDeploy, "cannot discover"},
		"BufferTimeout": {func(d *taskpb.Deployment) { d.Settings = map[string]string{"buffer.timeout": "soon"} }, "E036", "soon"},
		"Compression":   {func(d *taskpb.Deployment) { d.Settings = map[string]string{"batch.compression": "gzip"} }, "E036", "gzip"},
		"Schedule":      {func(d *taskpb.Deployment) { d.Settings = map[string]string{"schedule": "late"} }, "E036", "late"},
		"OtherOperator": {func(d *taskpb.Deployment) {
			d.Plan.Graph.Operators[1].Id = "count-2"
			d.Plan.Fingerprint = graph.Fingerprint(d.Plan.Graph)
		}, fault.CodePlan, `this process built another job than the plan was made of: operator 1 was op "count-2" at job.go:7, now it is op "count" at job.go:7; the build function must be`},
		"ForeignPartition": {func(d *taskpb.Deployment) {
			d.Locations[0].Partitions = []*jobpb.Partition{{Edge: 0, Attempt: 1, State: jobpb.PartitionState_PARTITION_STORED}}
		}, fault.CodeDeploy, "edge 0 is no BLOCKING one that leaves chain 0"},
		"EmptyChainLink": {func(d *taskpb.Deployment) { d.Plan.Edges = nil }, fault.CodeDeploy, "plan: chain 1: count: input 0 of the head has no edge"},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t)
			src := j.source("src", 1, NewSource(ints(10), SourceOptions[int]{}))
			x := NewKeyedExchange(mustCodec[int](t), same, mustHash[int](t))
			op := j.join("count", 1, end{from: src, by: jobpb.Partitioner_PARTITIONER_HASH, x: x, st: mapped(same)})
			j.prog.Graph.Operators[op].Location = "job.go:7"
			s := start(t, j)
			d := s.job.copied(1, 1)
			c.change(d)
			err := s.proc.Deploy(d)
			if err == nil {
				t.Fatal("accepted")
			}
			f := Failure(err)
			if f.Code != c.code || f.Kind != jobpb.FailureKind_FAILURE_FATAL || !strings.Contains(f.Message, c.text) {
				t.Errorf("failure %v\nwant %s … %s", f, c.code, c.text)
			}
			if len(s.updates) != 0 || len(s.proc.Sample().Counters) != 0 {
				t.Error("something was started")
			}
		})
	}
}

func TestProgramsAndConfigurationsAreChecked(t *testing.T) {
	good := newJob(t)
	good.source("src", 1, NewSource(ints(1), SourceOptions[int]{}))
	for name, p := range map[string]*Program{
		"the program has no operators":       {Graph: &jobpb.Graph{}},
		"the graph has 1 operators, the":     {Graph: good.prog.Graph},
		"a source has no inputs":             {Graph: good.prog.Graph, Nodes: []Node{{}}},
		"0 stages for 1 inputs":              {Graph: graphOf("a", "b"), Nodes: []Node{good.prog.Nodes[0], {}}},
		"a stage is missing":                 {Graph: graphOf("a", "b"), Nodes: []Node{good.prog.Nodes[0], {Stages: []Stage{nil}}}},
		"input 0 does not come from an oper": {Graph: graphOf("a", "b", "c"), Nodes: []Node{good.prog.Nodes[0], {Stages: []Stage{mapped(same)}}, {Stages: []Stage{mapped(same)}}}},
	} {
		if name == "input 0 does not come from an oper" {
			p.Graph.Operators[1].Inputs[0].Operator = 2
		}
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want %s", err, name)
		}
	}
	_, err := NewProcess(Config{})
	for _, want := range []string{"no operators", "no job id", "no network", "no host"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
}

func graphOf(ids ...string) *jobpb.Graph {
	g := &jobpb.Graph{}
	for i, id := range ids {
		o := &jobpb.Operator{Id: id}
		if i > 0 {
			o.Inputs = []*jobpb.Input{{Operator: int32(i - 1)}}
		}
		g.Operators = append(g.Operators, o)
	}
	return g
}

func TestStaleSplitAssignmentsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, sink := waiting(t, 3)
		c := start(t, j)
		deploy(t, c, j.deployment(2, 2))
		c.expect("#2 RUNNING")
		synctest.Wait()
		for _, change := range []func(*taskpb.AssignSplits){
			func(a *taskpb.AssignSplits) { a.Attempt = 1 },
			func(a *taskpb.AssignSplits) { a.RegionEpoch = 1 },
			func(a *taskpb.AssignSplits) { a.Job = "job-2" },
			func(a *taskpb.AssignSplits) { a.Index = 3 },
			func(a *taskpb.AssignSplits) { a.Operator = 1 },
			func(a *taskpb.AssignSplits) { a.Offset = -1 },
		} {
			a := &taskpb.AssignSplits{Job: "job-1", Process: 1, Attempt: 2, RegionEpoch: 2, Offset: 1, Splits: splitsFrom(0, 1)}
			change(a)
			c.proc.AssignSplits(a)
		}
		synctest.Wait()
		if got := sink.written(); !slices.Equal(got, []int{0, 1, 2}) {
			t.Errorf("written %v", got)
		}
	})
}

// ---------------------------------------------------------------- commit

func prepared(t *testing.T) (*cluster, *collected[int], *taskpb.Commit) {
	j := newJob(t)
	sink := &collected[int]{}
	out := j.then(j.source("src", 2, NewSource(ints(10), SourceOptions[int]{})), "out", NewSink(sink))
	j.prog.Nodes[out].Committer = sink.committer
	c := start(t, j)
	deploy(t, c, j.deployment(1, 1))
	m := &taskpb.Commit{Job: "job-1", JobEpoch: 1, Process: 1, Checkpoint: uint64(FinalCheckpoint)}
	for _, u := range c.await(2) {
		m.Committables = append(m.Committables, u.Committables...)
	}
	return c, sink, m
}

func TestCommitTwiceMakesOutputVisibleOnce(t *testing.T) {
	c, sink, m := prepared(t)
	if len(sink.visible) != 0 {
		t.Fatal("visible before the commit")
	}
	for range 2 {
		r := c.proc.Commit(t.Context(), m)
		if r.Failure != nil || r.Retry || r.Job != "job-1" || r.Checkpoint != 1 {
			t.Fatalf("result %v", r)
		}
	}
	var all []int
	for _, vs := range sink.visible {
		all = append(all, vs...)
	}
	if !slices.Equal(sorted(all), []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
		t.Errorf("visible %v", all)
	}
}

func TestCommitsAtTheSameTimeRunOneByOne(t *testing.T) {
	c, sink, m := prepared(t)
	g := run.NewGroup(t.Context(), "test")
	for range 8 {
		g.Go("commit", func(ctx context.Context) error {
			if r := c.proc.Commit(ctx, m); r.Failure != nil || r.Retry {
				t.Errorf("result %v", r)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if len(sink.visible) != 2 {
		t.Errorf("visible %v", sink.visible)
	}
}

func TestAbortRemovesPreparedOutput(t *testing.T) {
	c, sink, m := prepared(t)
	m.Abort = true
	for range 2 {
		if r := c.proc.Commit(t.Context(), m); r.Failure != nil || r.Retry {
			t.Fatalf("result %v", r)
		}
	}
	if len(sink.prepared) != 0 || len(sink.visible) != 0 {
		t.Errorf("prepared %v, visible %v", sink.prepared, sink.visible)
	}
}

func TestCommitSaysWhatBecameOfIt(t *testing.T) {
	outcome := func(r connector.CommitResult) func(connector.Committable) connector.CommitResult {
		return func(connector.Committable) connector.CommitResult { return r }
	}
	for name, x := range map[string]struct {
		change func(*collected[int], *taskpb.Commit)
		retry  bool
		code   string
		kind   jobpb.FailureKind
	}{
		"RetryLater":  {func(s *collected[int], _ *taskpb.Commit) { s.outcome = outcome(connector.RetryLater) }, true, "", 0},
		"Lost":        {func(s *collected[int], _ *taskpb.Commit) { s.outcome = outcome(connector.Lost) }, false, fault.CodeLost, jobpb.FailureKind_FAILURE_FATAL},
		"UnknownSink": {func(_ *collected[int], m *taskpb.Commit) { m.Committables[0].Sink = "gone" }, false, fault.CodeLost, jobpb.FailureKind_FAILURE_FATAL},
		"Panic": {func(s *collected[int], _ *taskpb.Commit) {
			s.outcome = func(connector.Committable) connector.CommitResult { panic("boom") }
		}, true, fault.CodePanic, jobpb.FailureKind_FAILURE_USER},
		"OtherJob":  {func(_ *collected[int], m *taskpb.Commit) { m.Job = "job-2" }, false, fault.CodeDeploy, jobpb.FailureKind_FAILURE_FATAL},
		"Stale":     {func(_ *collected[int], m *taskpb.Commit) { m.JobEpoch = 0 }, true, "", 0},
		"Malformed": {func(_ *collected[int], m *taskpb.Commit) { m.Committables[0].Subtask = -1 }, false, fault.CodeDeploy, jobpb.FailureKind_FAILURE_FATAL},
	} {
		t.Run(name, func(t *testing.T) {
			c, sink, m := prepared(t)
			x.change(sink, m)
			r := c.proc.Commit(t.Context(), m)
			if r.Retry != x.retry || r.GetFailure().GetCode() != x.code || r.GetFailure().GetKind() != x.kind {
				t.Errorf("result %v", r)
			}
		})
	}
}

// ---------------------------------------------------------------- side outputs and several inputs

func TestSideOutputsReachTheirConsumers(t *testing.T) {
	split := StageOf[int, int](func(rt *Runtime, out Push[int]) (Push[int], Operator, error) {
		odd, err := SideOutput[string](rt, "odd")
		if err != nil {
			return nil, nil, err
		}
		unheard, err := SideOutput[bool](rt, "unheard")
		return func(v int) {
			unheard(true)
			if v%2 == 1 {
				odd(fmt.Sprint(v))
			} else {
				out(v)
			}
		}, Base{}, err
	})
	j := newJob(t)
	even, odd1, odd2 := &collected[int]{}, &collected[string]{}, &collected[string]{}
	op := j.then(j.source("src", 1, NewSource(ints(6), SourceOptions[int]{})), "split", split)
	side := func(id string, s *collected[string]) {
		to := j.then(op, id, NewSink(s))
		j.prog.Graph.Operators[to].Inputs[0].Port = "odd"
	}
	side("odd1", odd1)
	j.then(op, "even", NewSink(even))
	side("odd2", odd2)
	finished(t, j)
	if got := even.written(); !slices.Equal(got, []int{0, 2, 4}) {
		t.Errorf("main output %v", got)
	}
	for _, s := range []*collected[string]{odd1, odd2} {
		if got := s.written(); !slices.Equal(got, []string{"1", "3", "5"}) {
			t.Errorf("side output %v", got)
		}
	}
}

func TestStagesOfOneOperatorShare(t *testing.T) {
	type both struct {
		Base
		seen map[int]int
	}
	opened, closed := 0, 0
	side := func(n int) Stage {
		return StageOf[int, int](func(rt *Runtime, out Push[int]) (Push[int], Operator, error) {
			b, err := Shared(rt, func() (*both, error) { opened++; return &both{seen: map[int]int{}}, nil })
			return func(v int) {
				if b.seen[v] |= n; b.seen[v] == 3 {
					out(v)
				}
			}, &events{onClose: func() error { closed++; return nil }}, err
		})
	}
	j := newJob(t)
	a := j.source("a", 2, NewSource(ints(1000), SourceOptions[int]{}))
	b := j.source("b", 1, NewSource(ints(500), SourceOptions[int]{}))
	c, hash := mustCodec[int](t), mustHash[int](t)
	x := func() Exchange { return NewKeyedExchange(c, same, hash) }
	by := jobpb.Partitioner_PARTITIONER_HASH
	sink := &collected[int]{}
	op := j.join("both", 1, end{from: a, by: by, x: x(), st: side(1)}, end{from: b, by: by, x: x(), st: side(2)})
	j.then(op, "out", NewSink(sink))
	finished(t, j)
	if n := len(sink.written()); n != 500 || opened != 1 || closed != 1 {
		t.Errorf("%d pairs; opened %d times, closed %d times", n, opened, closed)
	}
}

// Subtasks that get the same record by broadcast run on goroutines of their own: none may see what another does to it.
func TestBroadcastRecordsAreNotSharedBetweenSubtasks(t *testing.T) {
	const n, consumers = 100, 3
	j := newJob(t)
	src := j.source("src", 1, NewSource(&counted[[]int]{n: n, f: func(i int) ([]int, element.Time) { return []int{i}, 0 }}, SourceOptions[[]int]{}))
	sink := &collected[[]int]{}
	op := j.join("double", consumers, end{from: src, by: jobpb.Partitioner_PARTITIONER_BROADCAST, x: NewExchange(mustCodec[[]int](t)),
		st: mapped(func(v []int) []int { v[0] *= 2; return v })})
	j.then(op, "out", NewSink(sink))
	finished(t, j)
	times := map[int]int{}
	for _, v := range sink.written() {
		times[v[0]]++
	}
	for i := range n {
		if times[2*i] != consumers {
			t.Fatalf("twice %d came %d times, want %d", i, times[2*i], consumers)
		}
	}
}

// ---------------------------------------------------------------- time across exchanges

func TestWatermarksCrossExchangesBehindTheirRecords(t *testing.T) {
	const n, producers = 20_000, 3
	j := newJob(t)
	s := ints(n)
	s.splits = producers
	opts := SourceOptions[int]{Watermarks: WatermarksPerRecord}
	src := j.source("src", producers, NewSource(s, opts))
	x := NewKeyedExchange(mustCodec[int](t), same, mustHash[int](t))
	var late, marks int
	check := StageOf[int, int](func(rt *Runtime, out Push[int]) (Push[int], Operator, error) {
		return func(v int) {
			if rt.At != element.Time(v) {
				t.Errorf("record %d has time %d", v, rt.At)
			}
			if rt.At <= rt.Watermark {
				late++
			}
		}, &events{onWatermark: func(at element.Time) error { marks++; return nil }}, nil
	})
	j.join("check", 1, end{from: src, by: jobpb.Partitioner_PARTITIONER_HASH, x: x, st: check})
	finished(t, j)
	if late > 0 || marks == 0 {
		t.Errorf("%d records behind the watermark, %d watermarks", late, marks)
	}
}

// What an operator emits at a watermark reaches those behind it before that watermark does, in the same chain as
// behind an exchange: else every result of a window would look late to its consumer.
func TestAnOperatorBehindAnotherSeesTheWatermarkAfterItsRecords(t *testing.T) {
	emitter := StageOf[int, element.Time](func(rt *Runtime, out Push[element.Time]) (Push[int], Operator, error) {
		return func(int) {}, &events{onWatermark: func(at element.Time) error {
			if rt.Watermark != at {
				t.Errorf("the operator stands at %v while it handles the watermark %v", rt.Watermark, at)
			}
			rt.At = at
			out(at)
			return nil
		}}, nil
	})
	var results, late int
	check := StageOf[element.Time, struct{}](func(rt *Runtime, _ Push[struct{}]) (Push[element.Time], Operator, error) {
		return func(element.Time) {
			if results++; rt.At <= rt.Watermark {
				late++
			}
		}, Base{}, nil
	})
	j := newJob(t)
	src := j.source("src", 1, NewSource(ints(100), SourceOptions[int]{Watermarks: WatermarksPerRecord}))
	j.then(j.then(src, "emit", emitter), "check", check)
	finished(t, j)
	if results < 100 || late > 0 {
		t.Errorf("%d of %d results behind the watermark", late, results)
	}
}
