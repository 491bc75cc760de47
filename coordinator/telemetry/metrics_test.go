package telemetry

import (
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

type fixture struct {
	facts   *state.State
	samples []*controlpb.ProcessSample
}

func (f *fixture) Raft() Raft {
	return Raft{Term: 3, Commit: 20, Applied: 19, Leads: true, Voters: 3, NonVoters: 1}
}
func (f *fixture) Facts() *state.View                  { return f.facts.View() }
func (f *fixture) Samples() []*controlpb.ProcessSample { return f.samples }

func apply(t *testing.T, facts *state.State, cmds ...*commandpb.Command) {
	t.Helper()
	for _, c := range cmds {
		c.Version = state.Version
		if r := facts.Apply(facts.View().Index()+1, 1, c); r.Status != state.Applied {
			t.Fatalf("%v: %v", c, r)
		}
	}
}

func TestMetricsSayWhatTheFactsAndSamplesSay(t *testing.T) {
	facts := state.New()
	digest := strings.Repeat("a", 64)
	apply(t, facts,
		&commandpb.Command{Command: &commandpb.Command_RegisterWorker{RegisterWorker: &commandpb.RegisterWorker{Worker: &commandpb.Worker{
			Id: "w", Incarnation: 1, Address: "a:1", DataAddress: "a:2", Slots: 4, ProtocolMin: 1, ProtocolMax: 1, Os: "linux", Arch: "amd64",
		}}}},
		&commandpb.Command{Command: &commandpb.Command_PutArtifact{PutArtifact: &commandpb.PutArtifact{Digest: digest, Size: 1, Nodes: []string{"n"}}}},
		&commandpb.Command{RequestId: "r", Command: &commandpb.Command_SubmitJob{SubmitJob: &commandpb.SubmitJob{Spec: &jobpb.JobSpec{Name: "j", Artifact: digest}}}},
	)
	stores(t, facts)
	now := time.Now().UnixMicro()
	f := &fixture{facts: facts, samples: []*controlpb.ProcessSample{
		{Job: "j-1", Process: 2, Sample: &taskpb.Sample{Counters: []*taskpb.Counters{
			{SpilledBytes: 9, User: []*jobpb.UserCounter{{Operator: "in", Name: "empty lines", Value: 3}}},
			{Index: 1, SpilledBytes: 1, User: []*jobpb.UserCounter{{Operator: "in", Name: "empty lines", Value: 4}}},
		}}},
		{Job: "gone-9", Process: 1, Sample: &taskpb.Sample{ResidentBytes: 5, Counters: []*taskpb.Counters{{WatermarkUs: now}}}},
	}}
	m := New()
	m.Watch(f)
	m.Applied(time.Millisecond)
	m.Reigns.Inc()
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	text := recorder.Body.String()
	for _, line := range []string{
		"# TYPE sluice_job_restarts_total counter",
		`sluice_job_restarts_total{job="j-1",reason="failure"} 0`,
		`sluice_job_restarts_total{job="j-1",reason="loss"} 0`,
		`sluice_job_status{status="created"} 0`,
		`sluice_job_status{status="running"} 1`,
		`sluice_raft_peers{suffrage="nonvoter"} 1`,
		`sluice_raft_peers{suffrage="voter"} 3`,
		`sluice_job_stored_bytes{job="j-1"} 100`,
		`sluice_job_partitions{job="j-1",state="stored"} 1`,
		`sluice_job_partitions{job="j-1",state="lost"} 0`,
		`sluice_operator_spilled_bytes_total{job="j-1",op="in"} 10`,
		`sluice_user_counter_total{counter="empty lines",job="j-1",op="in"} 7`,
		`sluice_worker_slots{state="free"} 3`,
		`sluice_worker_slots{state="used"} 1`,
		`sluice_workers{health="alive"} 1`,
		"sluice_artifacts 1",
		"sluice_raft_term 3",
		"sluice_raft_leader 1",
		"sluice_raft_reigns_total 1",
		"sluice_raft_apply_seconds_count 1",
		`sluice_task_process_rss_bytes{job="gone-9"} 5`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %q", line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// stores plans the job and lets one of its two readers finish with a stored result.
func stores(t *testing.T, facts *state.State) {
	t.Helper()
	p := &jobpb.Plan{
		Fingerprint: "f", Slots: 2,
		Graph: &jobpb.Graph{Name: "j", Operators: []*jobpb.Operator{
			{Id: "in", Kind: "source", Bounded: true},
			{Id: "out", Kind: "sink", Bounded: true, Inputs: []*jobpb.Input{{Partitioner: jobpb.Partitioner_PARTITIONER_HASH}}},
		}},
		Chains: []*jobpb.Chain{{Name: "in", Operators: []int32{0}, Parallelism: 2}, {Index: 1, Name: "out", Operators: []int32{1}, Parallelism: 1}},
		Edges:  []*jobpb.Edge{{ToChain: 1, ToOperator: 1, Partitioner: jobpb.Partitioner_PARTITIONER_HASH, Exchange: jobpb.ExchangeKind_EXCHANGE_BLOCKING}},
		Regions: []*jobpb.Region{
			{Subtasks: []*jobpb.SubtaskRange{{Count: 1}}}, {Index: 1, Subtasks: []*jobpb.SubtaskRange{{First: 1, Count: 1}}},
			{Index: 2, Subtasks: []*jobpb.SubtaskRange{{Chain: 1, Count: 1}}, InputEdges: []int32{0}},
		},
	}
	apply(t, facts,
		&commandpb.Command{Command: &commandpb.Command_StartPlanning{StartPlanning: &commandpb.StartPlanning{Job: "j-1", Attempt: 1, Worker: "w"}}},
		&commandpb.Command{Command: &commandpb.Command_PlanJob{PlanJob: &commandpb.PlanJob{Job: "j-1", Attempt: 1, Plan: p}}},
		&commandpb.Command{Command: &commandpb.Command_ScheduleRegions{ScheduleRegions: &commandpb.ScheduleRegions{Job: "j-1", JobEpoch: 1,
			Regions:     []*taskpb.RegionEpoch{{Region: 0, Epoch: 1}, {Region: 1, Epoch: 1}},
			Assignments: []*commandpb.Assignment{{Worker: "w", Incarnation: 1}, {Index: 1, Worker: "w", Incarnation: 1}}}}},
		&commandpb.Command{Command: &commandpb.Command_UpdateSubtasks{UpdateSubtasks: &commandpb.UpdateSubtasks{Job: "j-1", JobEpoch: 1, Updates: []*taskpb.SubtaskUpdate{
			{Attempt: 1, RegionEpoch: 1, State: jobpb.SubtaskState_SUBTASK_FINISHED, Partitions: []*jobpb.Partition{{
				State: jobpb.PartitionState_PARTITION_STORED, Bytes: 100, Records: 7, Digest: make([]byte, 32), RegionEpoch: 1, Attempt: 1}}},
			{Index: 1, Attempt: 1, RegionEpoch: 1, State: jobpb.SubtaskState_SUBTASK_RUNNING},
		}}}},
	)
}

func TestChainsAddUpTheirSubtasks(t *testing.T) {
	s := &chainSum{}
	s.add(&taskpb.Counters{RecordsIn: 1, BusyUs: 10, WatermarkUs: 50})
	s.add(&taskpb.Counters{RecordsIn: 2, BusyUs: 20, WatermarkUs: 40})
	if s.RecordsIn != 3 || s.BusyUs != 30 || s.lowest != 40 {
		t.Errorf("sum %v, lowest %d", s, s.lowest)
	}
	// Neither "none yet" nor "everything read" is a lag.
	for _, end := range []int64{math.MinInt64, math.MaxInt64} {
		s := &chainSum{}
		s.add(&taskpb.Counters{WatermarkUs: end})
		if _, ok := s.lag(time.Now()); ok {
			t.Errorf("watermark %d has a lag", end)
		}
	}
	now := time.Now()
	fresh := &chainSum{}
	fresh.add(&taskpb.Counters{WatermarkUs: now.Add(-3 * time.Second).UnixMicro()})
	if lag, ok := fresh.lag(now); !ok || lag.Round(time.Millisecond) != 3*time.Second {
		t.Errorf("lag %s, %t", lag, ok)
	}
}
