package state

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/coordinator/region"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

const (
	isStored   = jobpb.PartitionState_PARTITION_STORED
	isLost     = jobpb.PartitionState_PARTITION_LOST
	isReleased = jobpb.PartitionState_PARTITION_RELEASED

	isRunning  = jobpb.SubtaskState_SUBTASK_RUNNING
	isFinished = jobpb.SubtaskState_SUBTASK_FINISHED
	isFailed   = jobpb.SubtaskState_SUBTASK_FAILED
)

// stages is a plan of a bounded source and two shuffles, each subtask a region: in → count → out, all BLOCKING.
func stages(n int32) *jobpb.Plan {
	p := &jobpb.Plan{Graph: &jobpb.Graph{Name: "stages"}, Slots: n}
	for i, id := range []string{"in", "count", "out"} {
		o := &jobpb.Operator{Id: id, Kind: "map", Bounded: true}
		if i > 0 {
			o.Inputs = []*jobpb.Input{{Operator: int32(i - 1), Partitioner: jobpb.Partitioner_PARTITIONER_HASH}}
			p.Edges = append(p.Edges, &jobpb.Edge{
				Index: int32(i - 1), FromOperator: int32(i - 1), ToOperator: int32(i), FromChain: int32(i - 1), ToChain: int32(i),
				Partitioner: jobpb.Partitioner_PARTITIONER_HASH, Exchange: jobpb.ExchangeKind_EXCHANGE_BLOCKING, Reproducible: true, Ordered: true,
			})
		}
		p.Graph.Operators = append(p.Graph.Operators, o)
		p.Chains = append(p.Chains, &jobpb.Chain{Index: int32(i), Operators: []int32{int32(i)}, Parallelism: n, Name: id})
	}
	p.Regions = region.Build(p.Chains, p.Edges, nil)
	return p
}

// storing adds to a report what an attempt stored.
func storing(j *Job) func(*taskpb.SubtaskUpdate) {
	return func(u *taskpb.SubtaskUpdate) {
		for _, e := range j.Layout().Out(u.Chain) {
			u.Partitions = append(u.Partitions, &jobpb.Partition{
				Edge: e, State: isStored, Bytes: 100, Records: 10, Digest: make([]byte, jobpb.DigestBytes), RegionEpoch: u.RegionEpoch, Attempt: u.Attempt,
			})
		}
	}
}

// only keeps the reports about a subtask.
func only(c *commandpb.Command, chain, index int32) *commandpb.Command {
	u := c.GetUpdateSubtasks()
	u.Updates = slices.DeleteFunc(u.Updates, func(x *taskpb.SubtaskUpdate) bool { return x.Chain != chain || x.Index != index })
	return c
}

// chainDone lets all subtasks of a chain finish with their results.
func (l *log) chainDone(id string, chain int32) {
	l.t.Helper()
	for i := range l.job(id).Plan().Chains[chain].Parallelism {
		l.must(Applied, l.do("", only(report(l.job(id), isFinished, storing(l.job(id))), chain, i)))
	}
}

func ref(edge, producer int32, attempt uint32) *jobpb.PartitionRef {
	return &jobpb.PartitionRef{Edge: edge, Producer: producer, Attempt: attempt}
}

func release(j *Job, refs ...*jobpb.PartitionRef) *commandpb.Command {
	return &commandpb.Command{Command: &commandpb.Command_ReleasePartitions{ReleasePartitions: &commandpb.ReleasePartitions{Job: j.ID(), JobEpoch: j.Epoch(), Partitions: refs}}}
}

// restartOf restarts some regions.
func restartOf(j *Job, regions []int32, lost ...*jobpb.PartitionRef) *commandpb.Command {
	c := &commandpb.RestartRegions{Job: j.ID(), JobEpoch: j.Epoch(), Lost: lost, Cause: &jobpb.Failure{Code: "E121", Kind: jobpb.FailureKind_FAILURE_LOSS, Message: "gone"}}
	for _, r := range regions {
		c.Regions = append(c.Regions, &taskpb.RegionEpoch{Region: r, Epoch: j.Region(r).Epoch})
	}
	return &commandpb.Command{Command: &commandpb.Command_RestartRegions{RestartRegions: c}}
}

func lastEvent(v *View, kind string) *jobpb.Event {
	var last *jobpb.Event
	for e := range v.Events(0) {
		if e.Kind == kind {
			last = e
		}
	}
	return last
}

// staged is a job of stages that runs; all its regions have attempts.
func staged(t *testing.T, n int32) (*log, string) {
	t.Helper()
	l := newLog(t)
	l.must(Applied, l.do("", register("w1", 1, 3*n)))
	return l, l.running(stages(n), on("w1"))
}

func TestAFinishedAttemptHasTheResultsOfThePlan(t *testing.T) {
	l, id := staged(t, 2)
	l.chainDone(id, 0)
	j := l.job(id)
	p := j.Partition(0, 1)
	if p == nil || p.State != isStored || p.Bytes != 100 || p.Attempt != 1 || p.RegionEpoch != 1 {
		t.Fatal(p)
	}
	if got := j.Results(0); got != (Results{Stored: 2, Bytes: 200, Records: 20}) {
		t.Fatal(got)
	}
	for _, none := range []*jobpb.Partition{j.Partition(1, 0), j.Partition(0, 2), j.Partition(0, -1), j.Partition(2, 0), j.Partition(-1, 0)} {
		if none != nil {
			t.Fatal("a result that nobody stored:", none)
		}
	}
	if j.Results(-1) != (Results{}) || j.Results(2) != (Results{}) || j.Results(1) != (Results{}) {
		t.Fatal("results of edges that have none")
	}
	if e := lastEvent(l.s.View(), "regions-finished"); e == nil || e.Message != "in[1]" {
		t.Fatal(e)
	}
}

func TestOtherResultsThanThePlanSaysFailTheJobLoudly(t *testing.T) {
	for name, change := range map[string]func(*taskpb.SubtaskUpdate){
		"none":                 func(u *taskpb.SubtaskUpdate) { u.Partitions = nil },
		"two of one edge":      func(u *taskpb.SubtaskUpdate) { u.Partitions = append(u.Partitions, u.Partitions[0]) },
		"of another edge":      func(u *taskpb.SubtaskUpdate) { u.Partitions[0].Edge = 1 },
		"of no edge":           func(u *taskpb.SubtaskUpdate) { u.Partitions[0].Edge = 7 },
		"of an earlier try":    func(u *taskpb.SubtaskUpdate) { u.Partitions[0].Attempt = 9 },
		"of another epoch":     func(u *taskpb.SubtaskUpdate) { u.Partitions[0].RegionEpoch = 9 },
		"lost already":         func(u *taskpb.SubtaskUpdate) { u.Partitions[0].State = isLost },
		"in no state":          func(u *taskpb.SubtaskUpdate) { u.Partitions[0].State = 0 },
		"without a digest":     func(u *taskpb.SubtaskUpdate) { u.Partitions[0].Digest = nil },
		"of a negative length": func(u *taskpb.SubtaskUpdate) { u.Partitions[0].Bytes = -1 },
	} {
		l, id := staged(t, 1)
		c := only(report(l.job(id), isFinished, storing(l.job(id))), 0, 0)
		change(c.GetUpdateSubtasks().Updates[0])
		l.must(Applied, l.do("", c))
		j := l.job(id)
		if s := j.Subtask(0, 0); s.State != isFailed || len(s.Partitions) > 0 || j.Results(0) != (Results{}) {
			t.Errorf("%s: %v", name, s)
		}
		if f := j.Failures(); len(f) != 1 || f[0].Code != CodeBadResults || f[0].Kind != jobpb.FailureKind_FAILURE_FATAL {
			t.Errorf("%s: %v", name, f)
		}
	}
	// A chain without BLOCKING edges behind it has nothing to store.
	l, id := staged(t, 1)
	c := only(report(l.job(id), isFinished, nil), 2, 0)
	c.GetUpdateSubtasks().Updates[0].Partitions = []*jobpb.Partition{{Edge: 0, State: isStored, Attempt: 1, RegionEpoch: 1, Digest: make([]byte, 32)}}
	l.must(Applied, l.do("", c))
	if s := l.job(id).Subtask(2, 0); s.State != isFailed {
		t.Error("a sink stored something:", s)
	}
}

func TestTransitionsOfAResult(t *testing.T) {
	all := []jobpb.PartitionState{0, isStored, isLost, isReleased}
	var legal []string
	for _, from := range all {
		for _, to := range all {
			if slices.Contains(nextPartition[from], to) {
				legal = append(legal, strings.ReplaceAll(fmt.Sprintf("%s→%s", from, to), "PARTITION_", ""))
			}
		}
	}
	if want := []string{"STORED→LOST", "STORED→RELEASED", "LOST→RELEASED"}; !slices.Equal(legal, want) {
		t.Errorf("%v, want %v", legal, want)
	}
}

func TestAReaderSaysWhatIsLost(t *testing.T) {
	l, id := staged(t, 2)
	l.chainDone(id, 0)
	failed := func(chain int32, refs ...*jobpb.PartitionRef) *commandpb.Command {
		return only(report(l.job(id), isFailed, func(u *taskpb.SubtaskUpdate) {
			u.Failure = &jobpb.Failure{Code: "E121", Kind: jobpb.FailureKind_FAILURE_LOSS, Message: "checksum", Lost: refs}
		}), chain, 0)
	}
	// Who does not read it knows nothing of it.
	l.must(Applied, l.do("", failed(2, ref(0, 0, 1))))
	if r := l.job(id).Results(0); r.Lost != 0 {
		t.Fatal("a stranger's word was taken")
	}
	// Of other attempts, edges and producers nothing is known either.
	l.must(Applied, l.do("", failed(1, ref(0, 1, 1), ref(0, 0, 9), ref(1, 0, 1), ref(7, 0, 1), ref(0, 7, 1), ref(-1, -1, 1))))
	j := l.job(id)
	if r := j.Results(0); r.Stored != 1 || r.Lost != 1 || r.Bytes != 200 || j.Partition(0, 1).State != isLost || j.Subtask(0, 1).State != isFinished {
		t.Fatal(r, j.Subtask(0, 1))
	}
	if f := j.Failures()[1]; len(f.Lost) != 6 {
		t.Fatal("the history does not say what was lost:", f)
	}
	if e := lastEvent(l.s.View(), "partitions-lost"); e == nil || e.Subtasks != 1 || e.Message != "in[1] → count" {
		t.Fatal(e)
	}
}

func TestRestartForgetsWhatItsRegionsStored(t *testing.T) {
	l, id := staged(t, 2)
	l.chainDone(id, 0)
	l.must(Applied, l.do("", only(report(l.job(id), isRunning, func(u *taskpb.SubtaskUpdate) { u.Produced, u.Loaded = true, true }), 1, 1)))
	// Results of other regions are only marked. What is said of those that do not exist, or any more, is void.
	l.must(Applied, l.do("", restartOf(l.job(id), []int32{0, 3}, ref(0, 1, 1), ref(0, 1, 8), ref(5, 0, 1))))
	j := l.job(id)
	if s := j.Subtask(0, 0); s.State != jobpb.SubtaskState_SUBTASK_CREATED || len(s.Partitions) != 0 {
		t.Fatal(s)
	}
	if s := j.Subtask(1, 1); s.State != isRunning || s.Produced || s.Loaded {
		t.Fatal("what a fenced attempt has come to counts for the next one:", s)
	}
	if r := j.Results(0); r != (Results{Lost: 1, Bytes: 100, Records: 10}) || j.Partition(0, 1).State != isLost {
		t.Fatal(r)
	}
	e := lastEvent(l.s.View(), "region-restarted")
	if e.Subtasks != 2 || e.Region != 0 || !strings.Contains(e.Message, "2 regions: E121: gone") || !strings.Contains(e.Message, "in[0], count[1]") {
		t.Fatal(e)
	}
	if e := lastEvent(l.s.View(), "partitions-lost"); e.Subtasks != 1 {
		t.Fatal(e)
	}
	// The late words of a fenced attempt store nothing.
	late := only(report(j, isFinished, storing(j)), 1, 1)
	late.GetUpdateSubtasks().Updates[0].RegionEpoch = 1
	l.must(Applied, l.do("", late))
	if s := l.job(id).Subtask(1, 1); s.State != jobpb.SubtaskState_SUBTASK_CANCELLED || len(s.Partitions) != 0 {
		t.Fatal(s)
	}
	l.must(Applied, l.do("", scheduleAll(l.s.View(), id, on("w1"))))
	if s := l.job(id).Subtask(0, 0); s.Attempt != 2 || len(s.Partitions) != 0 {
		t.Fatal(s)
	}
	l.must(Applied, l.do("", only(report(l.job(id), isFinished, storing(l.job(id))), 0, 0)))
	if p := l.job(id).Partition(0, 0); p.Attempt != 2 || p.RegionEpoch != 2 {
		t.Fatal(p)
	}
}

func TestARegionThatKeepsItsResultsRemembersThatItsInputIsNotWhatItWas(t *testing.T) {
	l, id := staged(t, 1)
	l.chainDone(id, 0)
	l.chainDone(id, 1)
	c := restartOf(l.job(id), []int32{0})
	c.GetRestartRegions().Reordered = []int32{1, 0, 7, -1}
	l.must(Applied, l.do("", c))
	if j := l.job(id); !j.Region(1).Reordered || j.Region(0).Reordered || j.Region(1).Status != jobpb.RegionStatus_REGION_FINISHED {
		t.Fatal(j.Region(0), j.Region(1))
	}
	// It stays marked through whatever happens to it, and until it runs again.
	var saved bytes.Buffer
	if err := l.s.View().Save(&saved); err != nil {
		t.Fatal(err)
	}
	if loaded, err := Load(&saved); err != nil || !loaded.View().Job(id).Region(1).Reordered {
		t.Fatal("a snapshot forgot it", err)
	}
	l.must(Applied, l.do("", restartOf(l.job(id), []int32{1})))
	if j := l.job(id); j.Region(1).Reordered {
		t.Fatal("it is marked although it reads again")
	}
}

func TestOnlyWhatNobodyNeedsIsReleased(t *testing.T) {
	l, id := staged(t, 2)
	l.chainDone(id, 0)
	both := []*jobpb.PartitionRef{ref(0, 0, 1), ref(0, 1, 1)}
	l.must(Stale, l.do("", release(l.job(id), both...))) // nobody has read them
	l.chainDone(id, 1)
	l.must(Stale, l.do("", release(l.job(id), both...))) // what was made of them is not read yet
	l.must(Applied, l.do("", only(report(l.job(id), isFinished, nil), 2, 0)))
	l.must(Stale, l.do("", release(l.job(id), ref(1, 0, 1)))) // one reader has finished, the other has not
	late := release(l.job(id), append(both, ref(0, 0, 2), ref(0, 9, 1), ref(1, 0, 1))...)
	l.must(Applied, l.do("", only(report(l.job(id), isFailed, func(u *taskpb.SubtaskUpdate) {
		u.Failure = &jobpb.Failure{Code: "E050", Message: "x"}
	}), 2, 1)))
	l.must(Stale, l.do("", late))
	l.must(Applied, l.do("", restartOf(l.job(id), []int32{5})))
	l.must(Applied, l.do("", scheduleAll(l.s.View(), id, on("w1"))))
	l.must(Stale, l.do("", late))
	// The last reader finishes.
	wrong := release(l.job(id), both...)
	wrong.GetReleasePartitions().JobEpoch = 9
	l.must(Applied, l.do("", only(report(l.job(id), isFinished, nil), 2, 1)))
	l.must(Stale, l.do("", wrong))
	if r := l.must(Applied, l.do("", late)); r.Dropped != 2 {
		t.Fatal(r)
	}
	if e := lastEvent(l.s.View(), "partitions-released"); e.Subtasks != 3 || e.Message != "in[0-1] → count, count[0] → out" {
		t.Fatal(e)
	}
	j := l.job(id)
	if j.Results(0).Released != 2 || j.Results(1) != (Results{Stored: 1, Released: 1, Bytes: 200, Records: 20}) {
		t.Fatal(j.Results(0), j.Results(1))
	}
	l.must(Stale, l.do("", late)) // it is done
	l.must(Applied, l.do("", endJob(j, "")))
	if j := l.job(id); j.Results(1).Released != 2 || j.Status() != jobpb.JobStatus_JOB_FINISHED {
		t.Fatal("a job that has ended keeps results:", j.Results(1))
	}
	l.must(Stale, l.do("", release(l.job(id), ref(1, 1, 1))))
	// A job that has no plan has no results.
	other := l.must(Applied, l.do("r-other", submit("x"))).Job
	l.must(Stale, l.do("", release(l.job(other), ref(0, 0, 1))))
}

func TestAResultThatIsNeededAgainIsNotReleased(t *testing.T) {
	l, id := staged(t, 1)
	l.chainDone(id, 0)
	l.chainDone(id, 1)
	l.must(Applied, l.do("", restartOf(l.job(id), []int32{1})))
	l.must(Stale, l.do("", release(l.job(id), ref(0, 0, 1)))) // its reader waits for the next attempt
}

func TestTheLossOfAWorkerLeavesResultsAlone(t *testing.T) {
	l, id := staged(t, 2)
	l.chainDone(id, 0)
	l.must(Applied, l.do("", lose("w1", 1)))
	l.must(Applied, l.do("", register("w1", 2, 6))) // the agent comes back with what is on its disk
	if r := l.job(id).Results(0); r.Stored != 2 {
		t.Fatal(r)
	}
}

func TestProgressOfAttemptsIsFact(t *testing.T) {
	l, id := staged(t, 1)
	say := func(produced, loaded bool) *commandpb.Command {
		return only(report(l.job(id), isRunning, func(u *taskpb.SubtaskUpdate) { u.Produced, u.Loaded = produced, loaded }), 1, 0)
	}
	began := l.job(id).Subtask(1, 0).StartedUs
	l.now += 5
	l.must(Stale, l.do("", say(false, false)))
	l.must(Applied, l.do("", say(true, false)))
	l.must(Stale, l.do("", say(true, false)))
	l.must(Applied, l.do("", say(false, true)))
	if s := l.job(id).Subtask(1, 0); !s.Produced || !s.Loaded || s.StartedUs != began {
		t.Fatal(s)
	}
}

// One report about a wide job costs what it says, not what the job is: edges have counts.
func TestAResultCostsTheEdgesOfItsChainOnly(t *testing.T) {
	l, id := staged(t, 1000)
	c := only(report(l.job(id), isFinished, storing(l.job(id))), 0, 500)
	b, err := proto.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	l.index += 2
	allocs := testing.AllocsPerRun(1, func() {
		l.index += 2
		l.s.ApplyBytes(l.index, 1, b)
	})
	if r := l.job(id).Results(0); r.Stored != 1 || allocs > 300 {
		t.Errorf("%v, %g allocations", r, allocs)
	}
}

// Whatever is stored, lost, released and made again, and whenever nodes are saved and loaded: the counts of an edge are what
// a walk over all producers finds, a result belongs to the attempt that is known, and nothing that is needed is released.
func TestCountsOfResultsAreTrue(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l, id := staged(t, 3)
		draw := func(name string, n int) int32 { return int32(rapid.IntRange(0, n).Draw(rt, name)) }
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			j := l.job(id)
			var c *commandpb.Command
			switch chain, index := draw("chain", 2), draw("index", 2); draw("step", 5) {
			case 0, 1:
				c = only(report(j, isFinished, storing(j)), chain, index)
			case 2:
				r := ref(draw("edge", 2), index, uint32(draw("attempt", 2)))
				c = restartOf(j, []int32{draw("region", 8)}, r)
			case 3:
				c = release(j, ref(draw("edge", 1), index, uint32(1+draw("attempt", 1))), ref(draw("edge", 1), draw("other", 2), 1))
			case 4:
				c = only(report(j, isFailed, func(u *taskpb.SubtaskUpdate) {
					u.Failure = &jobpb.Failure{Code: "E121", Kind: jobpb.FailureKind_FAILURE_LOSS, Lost: []*jobpb.PartitionRef{ref(chain-1, draw("producer", 2), 1)}}
				}), chain, index)
			default:
				c = scheduleAll(l.s.View(), id, on("w1"))
			}
			if u := c.GetUpdateSubtasks(); u != nil && len(u.Updates) == 0 {
				continue
			}
			was := j.Needs()
			if l.do("", c).Status == Applied && c.GetReleasePartitions() != nil {
				for pos := range l.job(id).Size() {
					for i, p := range l.job(id).At(pos).Partitions {
						if s := j.At(pos); p.State == isReleased && s.Partitions[i].State != isReleased && was.Partition(p.Edge, s.Index) {
							rt.Fatalf("what %v stored for edge %d is needed, and was released", s, p.Edge)
						}
					}
				}
			}
			checkCounts(rt, l.job(id))
		}
		var saved bytes.Buffer
		if err := l.s.View().Save(&saved); err != nil {
			rt.Fatal(err)
		}
		loaded, err := Load(&saved)
		if err != nil {
			rt.Fatal(err)
		}
		checkCounts(rt, loaded.View().Job(id))
		if c := release(l.job(id), ref(0, 0, 1)); loaded.Apply(l.index+1, 1, c) != l.s.Apply(l.index+1, 1, c) || loaded.Chain() != l.s.Chain() {
			rt.Fatal("a loaded node goes on otherwise")
		}
	})
}

func checkCounts(t *rapid.T, j *Job) {
	want := make([]Results, len(j.Plan().Edges))
	for s := range j.Subtasks() {
		if s.State == isFinished && len(s.Partitions) != len(j.Layout().Out(s.Chain)) || s.State != isFinished && len(s.Partitions) > 0 {
			t.Fatalf("%v has %d results", s, len(s.Partitions))
		}
		for _, p := range s.Partitions {
			r := &want[p.Edge]
			switch p.State {
			case isStored:
				r.Stored++
			case isLost:
				r.Lost++
			case isReleased:
				r.Released++
			}
			r.Bytes += p.Bytes
			r.Records += p.Records
			if p.Attempt != s.Attempt || j.Partition(p.Edge, s.Index) != p {
				t.Fatalf("attempt %d of %d[%d] has a result of attempt %d", s.Attempt, s.Chain, s.Index, p.Attempt)
			}
		}
	}
	for e, r := range want {
		if got := j.Results(int32(e)); got != r {
			t.Fatalf("edge %d: counted %v, there are %v", e, got, r)
		}
	}
}

func TestSnapshotsWithResultsThatDoNotFitAreRefused(t *testing.T) {
	l, id := staged(t, 1)
	l.chainDone(id, 0)
	for name, change := range map[string]func(*jobpb.Subtask){
		"one too many":          func(s *jobpb.Subtask) { s.Partitions = append(s.Partitions, s.Partitions[0]) },
		"none":                  func(s *jobpb.Subtask) { s.Partitions = nil },
		"of another attempt":    func(s *jobpb.Subtask) { s.Partitions[0].Attempt = 7 },
		"of another edge":       func(s *jobpb.Subtask) { s.Partitions[0].Edge = 1 },
		"in no state":           func(s *jobpb.Subtask) { s.Partitions[0].State = 0 },
		"of one that runs":      func(s *jobpb.Subtask) { s.State = isRunning },
		"without a digest":      func(s *jobpb.Subtask) { s.Partitions[0].Digest = nil },
		"of a state not known":  func(s *jobpb.Subtask) { s.Partitions[0].State = 99 },
		"with negative records": func(s *jobpb.Subtask) { s.Partitions[0].Records = -1 },
	} {
		p := proto.CloneOf(l.job(id).Proto())
		change(p.Subtasks[0])
		ld := &loader{v: View{nextJob: 100, index: 1 << 20}}
		if err := ld.takeJob(p); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	ld := &loader{v: View{nextJob: 100, index: 1 << 20}}
	if err := ld.takeJob(proto.CloneOf(l.job(id).Proto())); err != nil {
		t.Error(err)
	}
	p := proto.CloneOf(l.job(id).Proto())
	p.Plan.Regions[0].Index, p.Plan.Regions[2].Index = 2, 0
	p.Plan.Regions[0], p.Plan.Regions[2] = p.Plan.Regions[2], p.Plan.Regions[0]
	if err := ld.takeJob(p); err == nil {
		t.Error("a plan whose regions read from later ones was taken")
	}
}

func TestPlansWhoseRegionsAreNoneAreRefused(t *testing.T) {
	l := newLog(t)
	l.must(Applied, l.do("", register("w1", 1, 2)))
	l.do("", artifact())
	id := l.must(Applied, l.do("r", submit("j"))).Job
	l.must(Applied, l.do("", startPlanning(id, 1, "w1")))
	p := stages(1)
	p.Edges[0].Exchange = jobpb.ExchangeKind_EXCHANGE_PIPELINED
	p.Regions[1].InputEdges = nil
	if r := l.must(Refused, l.do("", planJob(id, 1, p))); r.Code != CodeMalformed || l.job(id).Status() != jobpb.JobStatus_JOB_PLANNING {
		t.Fatal(r)
	}
	l.must(Applied, l.do("", planJob(id, 1, stages(1))))
}

// One of ten thousand regions finishes and stores what ten thousand others will read.
func BenchmarkFinishOneOfTenThousandRegions(b *testing.B) {
	t := &testing.T{}
	l := newLog(t)
	l.do("", register("w1", 1, 4096))
	id := l.running(stages(4096), on("w1"))
	before, all := l.s.View(), report(l.job(id), isFinished, storing(l.job(id))).GetUpdateSubtasks().Updates
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if i == 4096 {
			b.StopTimer()
			l.s, l.index, i = from(before), before.Index(), 0
			b.StartTimer()
		}
		l.index++
		c := &commandpb.UpdateSubtasks{Job: id, JobEpoch: 1, Updates: all[i : i+1]}
		if r := l.s.Apply(l.index, 1, &commandpb.Command{Command: &commandpb.Command_UpdateSubtasks{UpdateSubtasks: c}}); r.Status != Applied {
			b.Fatal(r)
		}
		i++
	}
}

func BenchmarkReleaseOfTenThousandResults(b *testing.B) {
	t := &testing.T{}
	l := newLog(t)
	l.do("", register("w1", 1, 4096))
	id := l.running(stages(4096), on("w1"))
	l.do("", report(l.job(id), isFinished, func(u *taskpb.SubtaskUpdate) { storing(l.job(id))(u) }))
	var refs []*jobpb.PartitionRef
	for i := range int32(4096) {
		refs = append(refs, ref(0, i, 1), ref(1, i, 1))
	}
	c := release(l.job(id), refs...)
	before := l.s.View()
	b.ReportAllocs()
	for b.Loop() {
		s := from(before)
		if r := s.Apply(l.index+1, 1, c); r.Status != Applied || r.Dropped != 0 {
			b.Fatal(r)
		}
	}
}
