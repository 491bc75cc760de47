package state

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// log applies commands one by one, as Raft would, with a clock that the test moves.
type log struct {
	t     *testing.T
	s     *State
	index uint64
	now   int64
	data  [][]byte
}

func newLog(t *testing.T) *log { return &log{t: t, s: New(), now: 1_000_000} }

func (l *log) do(request string, c *commandpb.Command) Result {
	l.t.Helper()
	c.Version, c.TimeUs, c.Proposer, c.RequestId = Version, l.now, "c1", request
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
	if err != nil {
		l.t.Fatal(err)
	}
	l.data = append(l.data, b)
	l.index += 2 // Raft's own entries lie between commands
	return l.s.ApplyBytes(l.index, 1, b)
}

func (l *log) must(want Status, r Result) Result {
	l.t.Helper()
	if r.Status != want {
		l.t.Fatalf("got %s, want %s", r, want)
	}
	return r
}

func (l *log) job(id string) *Job {
	l.t.Helper()
	j := l.s.View().Job(id)
	if j == nil {
		l.t.Fatalf("no job %s", id)
	}
	return j
}

const digest = "00000000000000000000000000000000000000000000000000000000000000aa"

func register(id string, incarnation uint64, slots int32) *commandpb.Command {
	return &commandpb.Command{Command: &commandpb.Command_RegisterWorker{RegisterWorker: &commandpb.RegisterWorker{Worker: &commandpb.Worker{
		Id: id, Incarnation: incarnation, Slots: slots, Address: "127.0.0.1:1", DataAddress: "127.0.0.1:2"}}}}
}

func artifact() *commandpb.Command {
	return &commandpb.Command{Command: &commandpb.Command_PutArtifact{PutArtifact: &commandpb.PutArtifact{Digest: digest, Size: 1, Nodes: []string{"c1"}}}}
}

func submit(name string) *commandpb.Command {
	return &commandpb.Command{Command: &commandpb.Command_SubmitJob{SubmitJob: &commandpb.SubmitJob{Spec: &jobpb.JobSpec{Name: name, Artifact: digest}}}}
}

func startPlanning(job string, n uint32, worker string) *commandpb.Command {
	return &commandpb.Command{Command: &commandpb.Command_StartPlanning{StartPlanning: &commandpb.StartPlanning{Job: job, Attempt: n, Worker: worker}}}
}

// twoStage is a plan of a source and a counting sink, joined by hash, each with parallelism n: one region.
func twoStage(n int32) *jobpb.Plan {
	return &jobpb.Plan{
		Graph: &jobpb.Graph{Name: "two", Operators: []*jobpb.Operator{
			{Id: "in", Kind: "source", Bounded: true},
			{Id: "out", Kind: "sink", Inputs: []*jobpb.Input{{Operator: 0, Partitioner: jobpb.Partitioner_PARTITIONER_HASH}}},
		}},
		Chains: []*jobpb.Chain{{Index: 0, Operators: []int32{0}, Parallelism: n}, {Index: 1, Operators: []int32{1}, Parallelism: n}},
		Edges: []*jobpb.Edge{{FromOperator: 0, ToOperator: 1, FromChain: 0, ToChain: 1,
			Partitioner: jobpb.Partitioner_PARTITIONER_HASH, Exchange: jobpb.ExchangeKind_EXCHANGE_PIPELINED}},
		Regions: []*jobpb.Region{{Index: 0, Subtasks: []*jobpb.SubtaskRange{{Chain: 0, Count: n}, {Chain: 1, Count: n}}}},
		Slots:   n,
	}
}

func planJob(job string, n uint32, p *jobpb.Plan) *commandpb.Command {
	return &commandpb.Command{Command: &commandpb.Command_PlanJob{PlanJob: &commandpb.PlanJob{Job: job, Attempt: n, Plan: p}}}
}

// scheduleAll assigns every region of a job that waits; place gives the worker of each slot.
func scheduleAll(v *View, job string, place func(slot int) string) *commandpb.Command {
	j := v.Job(job)
	c := &commandpb.ScheduleRegions{Job: job, JobEpoch: j.Epoch()}
	in := map[int32]bool{}
	for r := range j.Regions() {
		if r.Status == jobpb.RegionStatus_REGION_CREATED || r.Status == jobpb.RegionStatus_REGION_RESTARTING {
			c.Regions = append(c.Regions, &taskpb.RegionEpoch{Region: r.Index, Epoch: r.Epoch})
			in[r.Index] = true
		}
	}
	for s := range j.Subtasks() {
		if in[s.Region] {
			w := place(j.SlotOf(s.Chain, s.Index))
			inc := uint64(0)
			if worker := v.Worker(w); worker != nil {
				inc = worker.Incarnation
			}
			c.Assignments = append(c.Assignments, &commandpb.Assignment{Chain: s.Chain, Index: s.Index, Worker: w, Incarnation: inc})
		}
	}
	return &commandpb.Command{Command: &commandpb.Command_ScheduleRegions{ScheduleRegions: c}}
}

func on(worker string) func(int) string { return func(int) string { return worker } }

// report says the same of every active attempt of a job, as the attempts would.
func report(j *Job, state jobpb.SubtaskState, change func(*taskpb.SubtaskUpdate)) *commandpb.Command {
	c := &commandpb.UpdateSubtasks{Job: j.ID(), JobEpoch: j.Epoch()}
	for s := range j.Subtasks() {
		if !active(s.State) {
			continue
		}
		u := &taskpb.SubtaskUpdate{Chain: s.Chain, Index: s.Index, Attempt: s.Attempt, Region: s.Region, RegionEpoch: j.Region(s.Region).Epoch, State: state}
		if change != nil {
			change(u)
		}
		c.Updates = append(c.Updates, u)
	}
	return &commandpb.Command{Command: &commandpb.Command_UpdateSubtasks{UpdateSubtasks: c}}
}

func endJob(j *Job, note string) *commandpb.Command {
	return &commandpb.Command{Command: &commandpb.Command_EndJob{EndJob: &commandpb.EndJob{Job: j.ID(), JobEpoch: j.Epoch(), Note: note}}}
}

// running brings a job of the plan to RUNNING with every attempt running.
func (l *log) running(p *jobpb.Plan, place func(int) string) string {
	l.t.Helper()
	l.s.View()
	l.do("", artifact())
	id := l.must(Applied, l.do(fmt.Sprint("r", l.index), submit("two"))).Job
	l.must(Applied, l.do("", startPlanning(id, 1, place(0))))
	l.must(Applied, l.do("", planJob(id, 1, p)))
	l.must(Applied, l.do("", scheduleAll(l.s.View(), id, place)))
	l.must(Applied, l.do("", report(l.job(id), jobpb.SubtaskState_SUBTASK_RUNNING, nil)))
	return id
}

func TestJobLivesFromSubmitToFinished(t *testing.T) {
	l := newLog(t)
	l.must(Applied, l.do("", register("w1", 1, 2)))
	id := l.running(twoStage(2), on("w1"))
	if j := l.job(id); j.Status() != jobpb.JobStatus_JOB_RUNNING || j.Region(0).Status != jobpb.RegionStatus_REGION_RUNNING || l.s.View().UsedSlots("w1") != 2 {
		t.Fatalf("after all attempts run: %s, %s, %d slots", j.Status(), j.Region(0).Status, l.s.View().UsedSlots("w1"))
	}
	l.must(Applied, l.do("", report(l.job(id), jobpb.SubtaskState_SUBTASK_FINISHED, func(u *taskpb.SubtaskUpdate) {
		if u.Chain == 1 {
			u.Committables = []*jobpb.Committable{{Sink: "out", Subtask: u.Index, Data: []byte{byte(u.Index)}}}
		}
	})))
	j := l.job(id)
	if j.Status() != jobpb.JobStatus_JOB_FINISHING || len(j.Committables()) != 2 || l.s.View().UsedSlots("w1") != 0 {
		t.Fatalf("after the end of input: %s, %d parts, %d slots", j.Status(), len(j.Committables()), l.s.View().UsedSlots("w1"))
	}
	l.must(Stale, l.do("", endJob(j, ""))) // no terminal status before the output is confirmed
	l.must(Applied, l.do("", &commandpb.Command{Command: &commandpb.Command_ConfirmCommits{ConfirmCommits: &commandpb.ConfirmCommits{Job: id, JobEpoch: 1}}}))
	l.must(Applied, l.do("", endJob(j, "")))
	if j := l.job(id); j.Status() != jobpb.JobStatus_JOB_FINISHED || j.Head().EndedUs == 0 {
		t.Fatalf("after EndJob: %s", j.Status())
	}
	var kinds []string
	for e := range l.s.View().Events(0) {
		kinds = append(kinds, e.Kind)
	}
	want := "worker-registered job-submitted job-planning job-planned job-running job-finishing output-committed job-finished"
	if got := strings.Join(kinds, " "); got != want {
		t.Fatalf("events\n%s\nwant\n%s", got, want)
	}
}

func TestSnapshotHoldsEverythingAndIsDeterministic(t *testing.T) {
	l := newLog(t)
	l.must(Applied, l.do("", register("w1", 1, 4)))
	l.running(twoStage(2), on("w1"))
	var a, b bytes.Buffer
	if err := l.s.View().Save(&a); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(bytes.NewReader(a.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if err := loaded.View().Save(&b); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Fatal("a loaded snapshot is saved as other bytes")
	}
}
