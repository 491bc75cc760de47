//go:build unix

package worker

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceio/sluice/internal/pipe"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/stored"
	"github.com/sluiceio/sluice/shuffle/stored/storedtest"
)

const tinyRecords = 1000 // of each partition

// store writes a result for each of its subtasks, one consumer, and reports it.
func (j *tiny) store(d *taskpb.Deployment) {
	for _, s := range d.Subtasks {
		p, err := storedtest.Write(context.Background(), os.Getenv(pipe.EnvResults), tinyName(d.Job, s.Index), tinyRecords)
		u := &taskpb.SubtaskUpdate{Chain: s.Chain, Index: s.Index, Attempt: s.Attempt, Region: s.Region, RegionEpoch: s.RegionEpoch}
		if err == nil {
			u.State, u.Partitions = jobpb.SubtaskState_SUBTASK_FINISHED, []*jobpb.Partition{p}
		} else {
			u.State, u.Failure = jobpb.SubtaskState_SUBTASK_FAILED, &jobpb.Failure{Message: err.Error(), Kind: jobpb.FailureKind_FAILURE_USER}
		}
		j.send(&taskpb.TaskMessage{Message: &taskpb.TaskMessage_Update{Update: u}})
	}
}

func tinyName(job string, producer int32) stored.Name {
	return stored.Name{Job: job, JobEpoch: 1, RegionEpoch: 1, Producer: producer, Attempt: 1}
}

func readTiny(t *testing.T, a Addresses, names ...stored.Name) (int64, error) {
	return storedtest.Sum(t.Context(), shuffle.Peer{Worker: a.ID, Address: a.Data}, names...)
}

const tinySum = tinyRecords * (tinyRecords - 1) / 2

// storeByJob has a task process store two results and ends it.
func storeByJob(t *testing.T, c *coordinator, s *fakeSession, cfg Config) []stored.Name {
	t.Helper()
	s.order(deploy(deployment("job-1", 7, c.tiny(), "run", "store")))
	for range 2 {
		u := s.state(jobpb.SubtaskState_SUBTASK_FINISHED).GetSubtask()
		if len(u.Partitions) != 1 || u.Partitions[0].Records != tinyRecords {
			t.Fatalf("the leader hears of %v", u.Partitions)
		}
	}
	s.order(release("job-1", 7))
	s.exit(7)
	awaitIdle(t, cfg.DataDir)
	return []stored.Name{tinyName("job-1", 0), tinyName("job-1", 1)}
}

func TestResultsAreServedAfterTheirProcessHasGone(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	w := startWorker(t, cfg)
	s := c.session()
	if len(s.register.Partitions) != 0 {
		t.Errorf("a new worker has %v", s.register.Partitions)
	}
	names := storeByJob(t, c, s, cfg)
	if sum, err := readTiny(t, w.addresses, names...); err != nil || sum != 2*tinySum {
		t.Fatalf("read %d, %v", sum, err)
	}
	metrics := get(t, "http://"+w.addresses.HTTP+"/metrics")
	for _, want := range []string{
		"sluice_worker_partitions 2\n", `sluice_worker_partition_reads_total{outcome="served"} 2` + "\n",
		`sluice_worker_data_connections_total{outcome="agent"} 1` + "\n",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %q", want)
		}
	}
	if strings.Contains(metrics, "sluice_worker_partitions_bytes 0\n") {
		t.Error("two results have no size")
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// A reader finds one result gone; the leader is told of every one, and the next inventory lacks them.
func TestTheLeaderHearsOfEveryResultThatIsLost(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	w := startWorker(t, cfg)
	s := c.session()
	names := storeByJob(t, c, s, cfg)
	for _, n := range names {
		if err := os.Remove(filepath.Join(cfg.DataDir, resultsName, n.Path()+".data")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := readTiny(t, w.addresses, names[1]); !errors.Is(err, stored.ErrLost) {
		t.Fatalf("what is gone was read: %v", err)
	}
	lost := await(s, "message of lost results", func(m *controlpb.WorkerMessage) (*controlpb.PartitionInventory, bool) {
		return m.GetLost(), m.GetLost() != nil
	})
	if lost.Job != "job-1" || len(lost.Partitions) != 2 || lost.Partitions[0].Producer != 0 || lost.Partitions[1].Producer != 1 {
		t.Errorf("lost are %v", lost)
	}
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	startWorker(t, cfg)
	if r := c.session().register; len(r.Partitions) != 0 {
		t.Errorf("the worker reports %v", r.Partitions)
	}
}

func TestResultsOutliveTheAgentUntilTheLeaderNamesThem(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	w := startWorker(t, cfg)
	names := storeByJob(t, c, c.session(), cfg)
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	// What a process leaves that dies while it writes.
	unfinished := filepath.Join(cfg.DataDir, resultsName, "job-1", "1-0-1", "e9-p0-a1.data.tmp")
	if err := os.WriteFile(unfinished, []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	w = startWorker(t, cfg)
	s := c.session()
	if len(s.register.Partitions) != 1 || s.register.Partitions[0].Job != "job-1" || len(s.register.Partitions[0].Partitions) != 2 {
		t.Fatalf("the worker reports %v", s.register.Partitions)
	}
	if _, err := os.Stat(unfinished); !os.IsNotExist(err) {
		t.Errorf("an unfinished result was left: %v", err)
	}
	if sum, err := readTiny(t, w.addresses, names...); err != nil || sum != 2*tinySum {
		t.Fatalf("read %d, %v", sum, err)
	}

	s.order(drop(&taskpb.DropPartitions{Job: "job-1", Partitions: []*taskpb.PartitionName{names[0].Proto(), {JobEpoch: 9, Attempt: 9}}}))
	awaitAbsence(t, filepath.Join(cfg.DataDir, resultsName, names[0].Path()+".data"))
	if _, err := readTiny(t, w.addresses, names[0]); !errors.Is(err, stored.ErrLost) {
		t.Errorf("a result that was dropped: %v", err)
	}
	if sum, err := readTiny(t, w.addresses, names[1]); err != nil || sum != tinySum {
		t.Errorf("the other one: read %d, %v", sum, err)
	}

	s.order(drop(&taskpb.DropPartitions{Job: "job-1", All: true}))
	awaitAbsence(t, filepath.Join(cfg.DataDir, resultsName, "job-1"))
	s.order(drop(&taskpb.DropPartitions{Job: "job-1", All: true})) // again: nothing to do
	s.order(drop(&taskpb.DropPartitions{Job: "../processes", All: true}))
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(cfg.DataDir, processesName)); err != nil {
		t.Errorf("a job id led out of the directory of results: %v", err)
	}
	startWorker(t, cfg)
	if r := c.session().register; len(r.Partitions) != 0 {
		t.Errorf("after everything was dropped the worker reports %v", r.Partitions)
	}
}

// TestAProcessThatDiesLeavesNoUnfinishedResult: what it was writing is removed, what it has reported stays.
func TestAProcessThatDiesLeavesNoUnfinishedResult(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	startWorker(t, cfg)
	s := c.session()
	d := deployment("job-1", 7, c.tiny(), "run", "half")
	d.Plan = storingPlan()
	s.order(deploy(d))
	if u := s.state(jobpb.SubtaskState_SUBTASK_FINISHED).GetSubtask(); u.Index != 0 {
		t.Fatalf("subtask %d has finished", u.Index)
	}
	s.exit(7)
	base := filepath.Join(cfg.DataDir, resultsName, "job-1", "1-0-1")
	entries, err := os.ReadDir(base)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"e0-p0-a1.data", "e0-p0-a1.index"}; !slices.Equal(names, want) {
		t.Errorf("there are %v, want %v", names, want)
	}
}

// storingPlan is the tiny plan with a BLOCKING edge behind its source.
func storingPlan() *jobpb.Plan {
	p := tinyPlan(2)
	p.Graph.Operators = append(p.Graph.Operators, &jobpb.Operator{Id: "out", Kind: "sink", Inputs: []*jobpb.Input{{Partitioner: jobpb.Partitioner_PARTITIONER_HASH, KeySchema: "string"}}})
	p.Chains = append(p.Chains, &jobpb.Chain{Index: 1, Operators: []int32{1}, Parallelism: 1, Name: "out"})
	p.Edges = []*jobpb.Edge{{ToOperator: 1, ToChain: 1, Partitioner: jobpb.Partitioner_PARTITIONER_HASH, Exchange: jobpb.ExchangeKind_EXCHANGE_BLOCKING}}
	p.Regions = append(p.Regions, &jobpb.Region{Index: 1, Subtasks: []*jobpb.SubtaskRange{{Chain: 1, Count: 1}}, InputEdges: []int32{0}})
	return p
}

// half stores the result of its first subtask and dies while it writes the second.
func (j *tiny) half(d *taskpb.Deployment) {
	dir := os.Getenv(pipe.EnvResults)
	base := filepath.Join(dir, tinyName(d.Job, 1).Path())
	if err := errors.Join(
		os.MkdirAll(filepath.Dir(base), 0o755), os.WriteFile(base+".data.tmp", []byte("half"), 0o644), os.WriteFile(base+".index.tmp", nil, 0o644),
	); err != nil {
		panic(err)
	}
	j.store(&taskpb.Deployment{Job: d.Job, Subtasks: d.Subtasks[:1]})
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

func drop(d *taskpb.DropPartitions) *controlpb.CoordinatorMessage {
	return &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_DropPartitions{DropPartitions: d}}
}

// awaitAbsence waits until nothing is at path.
func awaitAbsence(t *testing.T, path string) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.Now().Add(limit)
	for {
		if _, err := os.Stat(path); os.IsNotExist(err) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is still there", path)
		}
		<-ticker.C
	}
}

func TestAGateIsOpenedInItsProcess(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	startWorker(t, cfg)
	s := c.session()
	running(t, s, cfg, deployment("job-1", 7, c.tiny()))
	s.order(&controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_OpenGate{OpenGate: &taskpb.OpenGate{
		Job: "job-1", JobEpoch: 1, Process: 7, Regions: []*taskpb.RegionEpoch{{Epoch: 1}},
	}}})
	s.state(jobpb.SubtaskState_SUBTASK_FINISHED) // what the tiny job answers with
}
