package api

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/coordinator/plan"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// submitted are facts with a job that was submitted, and what applies further commands to them.
func submitted(t *testing.T) (s *state.State, id string, apply func(*commandpb.Command) state.Result) {
	t.Helper()
	s = state.New()
	index := uint64(0)
	apply = func(c *commandpb.Command) state.Result {
		t.Helper()
		index++
		c.Version, c.TimeUs, c.Proposer = state.Version, int64(index), "c1"
		r := s.Apply(index, 1, c)
		if r.Status != state.Applied {
			t.Fatalf("%v: %s", c, r)
		}
		return r
	}
	artifact := strings.Repeat("0", 64)
	apply(&commandpb.Command{Command: &commandpb.Command_PutArtifact{PutArtifact: &commandpb.PutArtifact{
		Digest: artifact, Size: 1, Os: "linux", Arch: "amd64", Nodes: []string{"c1"},
	}}})
	id = apply(&commandpb.Command{RequestId: "r", Command: &commandpb.Command_SubmitJob{SubmitJob: &commandpb.SubmitJob{
		Spec: &jobpb.JobSpec{Name: "j", Artifact: artifact},
	}}}).Job
	return s, id, apply
}

func TestASummaryTellsWhyAJobFailed(t *testing.T) {
	s, id, apply := submitted(t)
	if got := summary(s.View().Job(id)); got.FailureCode != "" || got.FailureLine != "" || got.StartedUs != 0 || got.CreatedUs != 2 {
		t.Errorf("before: %v", got)
	}
	apply(&commandpb.Command{Command: &commandpb.Command_FailJob{FailJob: &commandpb.FailJob{
		Job: id, JobEpoch: s.View().Job(id).Epoch(), Cause: &jobpb.Failure{Kind: jobpb.FailureKind_FAILURE_FATAL, Code: "E031", Message: "unknown parameter --x\n  fix: none"},
	}}})
	if got := summary(s.View().Job(id)); got.FailureCode != "E031" || got.FailureLine != "unknown parameter --x" {
		t.Errorf("after: %v", got)
	}
}

func TestAStatusShowsRegionsEdgesAndResults(t *testing.T) {
	s, id, apply := submitted(t)
	apply(&commandpb.Command{Command: &commandpb.Command_RegisterWorker{RegisterWorker: &commandpb.RegisterWorker{Worker: &commandpb.Worker{Id: "w", Incarnation: 1, Slots: 8}}}})
	apply(&commandpb.Command{Command: &commandpb.Command_StartPlanning{StartPlanning: &commandpb.StartPlanning{Job: id, Attempt: 1, Worker: "w"}}})
	p, _ := plan.Make(&jobpb.Graph{Name: "j", Operators: []*jobpb.Operator{
		{Id: "in", Kind: "source", Bounded: true, Parallelism: 2},
		{Id: "sum", Kind: "map", Bounded: true, Parallelism: 2, Inputs: []*jobpb.Input{{Partitioner: jobpb.Partitioner_PARTITIONER_HASH}}},
		{Id: "top", Kind: "map", Bounded: true, Parallelism: 2, Inputs: []*jobpb.Input{{Operator: 1, Partitioner: jobpb.Partitioner_PARTITIONER_GLOBAL, Exchange: jobpb.ExchangeKind_EXCHANGE_BLOCKING}}},
		{Id: "out", Kind: "sink", Bounded: true, Parallelism: 1, Inputs: []*jobpb.Input{{Operator: 2, Partitioner: jobpb.Partitioner_PARTITIONER_REBALANCE, Exchange: jobpb.ExchangeKind_EXCHANGE_PIPELINED}}},
	}}, plan.Options{DefaultParallelism: 2})
	apply(&commandpb.Command{Command: &commandpb.Command_PlanJob{PlanJob: &commandpb.PlanJob{Job: id, Attempt: 1, Plan: p}}})
	grant := &commandpb.ScheduleRegions{Job: id, JobEpoch: 1}
	for _, r := range p.Regions {
		grant.Regions = append(grant.Regions, &taskpb.RegionEpoch{Region: r.Index, Epoch: 1})
	}
	for x := range s.View().Job(id).Subtasks() {
		grant.Assignments = append(grant.Assignments, &commandpb.Assignment{Chain: x.Chain, Index: x.Index, Worker: "w", Incarnation: 1})
	}
	apply(&commandpb.Command{Command: &commandpb.Command_ScheduleRegions{ScheduleRegions: grant}})
	counters := &jobpb.Counters{Attempt: 1, SpilledBytes: 1, StoredBytes: 2, RereadBytes: 3, SpilledRecords: 4, SpillDepth: 5, SpillFiles: 6}
	stores := func(edge int32) []*jobpb.Partition {
		return []*jobpb.Partition{{Edge: edge, State: jobpb.PartitionState_PARTITION_STORED, Bytes: 100, Records: 7, Digest: make([]byte, 32), RegionEpoch: 1, Attempt: 1}}
	}
	apply(&commandpb.Command{Command: &commandpb.Command_UpdateSubtasks{UpdateSubtasks: &commandpb.UpdateSubtasks{Job: id, JobEpoch: 1, Updates: []*taskpb.SubtaskUpdate{
		{Chain: 0, Index: 0, Attempt: 1, RegionEpoch: 1, State: jobpb.SubtaskState_SUBTASK_FINISHED, Counters: counters, Partitions: stores(0)},
		{Chain: 0, Index: 1, Attempt: 1, RegionEpoch: 1, State: jobpb.SubtaskState_SUBTASK_FINISHED, Partitions: stores(0)},
		{Chain: 1, Index: 0, Attempt: 1, RegionEpoch: 1, State: jobpb.SubtaskState_SUBTASK_FAILED,
			Failure: &jobpb.Failure{Code: "E121", Kind: jobpb.FailureKind_FAILURE_LOSS, Lost: []*jobpb.PartitionRef{{Edge: 0, Producer: 1, Attempt: 1}}}},
	}}}})
	got := statusOf(s.View().Job(id), nil)
	wantEdges := []string{
		`from:"in" to:"sum" partitioner:PARTITIONER_HASH exchange:EXCHANGE_BLOCKING reason:"bounded input" from_regions:[0 1] to_regions:[2 3] result:2 producers, 1 stored, 1 lost, 0 released, 200 bytes, 14 records`,
		`from:"sum" to:"top" partitioner:PARTITIONER_GLOBAL exchange:EXCHANGE_BLOCKING reason:"explicit" from_regions:[2 3] to_regions:[4] result:2 producers, 0 stored, 0 lost, 0 released, 0 bytes, 0 records`,
		`from:"top" to:"out" partitioner:PARTITIONER_REBALANCE exchange:EXCHANGE_PIPELINED reason:"explicit" from_regions:[4] to_regions:[4]`,
	}
	for i, e := range got.Edges {
		text := fmt.Sprintf("from:%q to:%q partitioner:%s exchange:%s reason:%q from_regions:%v to_regions:%v", e.From, e.To, e.Partitioner, e.Exchange, e.Reason, e.FromRegions, e.ToRegions)
		if r := e.Result; r != nil {
			text += fmt.Sprintf(" result:%d producers, %d stored, %d lost, %d released, %d bytes, %d records", r.Producers, r.Stored, r.Lost, r.Released, r.Bytes, r.Records)
		}
		if int(e.Index) != i || e.Reproducible != p.Edges[i].Reproducible || text != wantEdges[i] {
			t.Errorf("edge %d:\n%s\nwant\n%s", e.Index, text, wantEdges[i])
		}
	}
	var regions []string
	for _, r := range got.Regions {
		regions = append(regions, fmt.Sprint(r.Index, " ", r.State, " ", r.Subtasks, " reads ", r.InputEdges, " after ", r.After))
	}
	if want := "0 REGION_FINISHED [in[0]] reads [] after []"; regions[0] != want {
		t.Errorf("%s, want %s", regions[0], want)
	}
	if want := "4 REGION_SCHEDULED [top[0] top[1] out[0]] reads [1] after [first:2 last:3]"; strings.ReplaceAll(regions[4], "  ", " ") != want {
		t.Errorf("%s, want %s", regions[4], want)
	}
	planned := explained(&apipb.PlanResponse{Plan: p})
	for i, e := range planned.Edges { // the same as those of the job, before anything has run
		like := proto.CloneOf(got.Edges[i])
		like.Result = nil
		if !proto.Equal(e, like) {
			t.Errorf("edge %d of the plan: %v, of the job %v", i, e, like)
		}
	}
	if len(planned.Regions) != len(got.Regions) || !proto.Equal(planned.Regions[4].After[0], got.Regions[4].After[0]) {
		t.Errorf("regions of the plan: %v", planned.Regions)
	}
	if c := got.Subtasks[0].Counters; !proto.Equal(c, counters) {
		t.Errorf("counters %v", c)
	}
}
