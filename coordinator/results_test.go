package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/sluiceio/sluice/coordinator/internal/clustertest"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// stored is a cluster with a job of two stages, whose first has finished and whose second is held. Subtask i of both stages
// runs on one of two workers.
func stored(t *testing.T) (c *clustertest.Cluster, leader *clustertest.Node, job string, workers []*clustertest.Worker) {
	t.Helper()
	c = clustertest.New(t, clustertest.Options{})
	leader = c.AwaitLeader()
	for i := range 2 {
		w := c.StartWorker(fmt.Sprint("w", i+1), clustertest.WorkerOptions{Slots: 2, Parallelism: 4})
		w.HoldFrom(1)
		workers = append(workers, w)
	}
	awaitWorkers(c, leader, 2)
	job = mustSubmit(t, leader, mustUpload(t, leader, "a"), "r1").Job
	awaitSubtasks(c, leader, job, "second stage at work", func(s *apipb.SubtaskStatus) bool {
		return s.Chain == 0 && s.State == jobpb.SubtaskState_SUBTASK_FINISHED || s.Chain == 1 && s.State == jobpb.SubtaskState_SUBTASK_RUNNING
	})
	for _, w := range workers {
		if n := w.Results(job); n != 2 {
			t.Fatalf("%d results on worker %s", n, w.ID)
		}
	}
	return c, leader, job, workers
}

func awaitSubtasks(c *clustertest.Cluster, n *clustertest.Node, job, what string, is func(*apipb.SubtaskStatus) bool) {
	c.Eventually(30*time.Second, what, func(ctx context.Context) error {
		status, err := n.Jobs().Status(ctx, &apipb.StatusRequest{Job: job})
		if err != nil {
			return err
		}
		for _, s := range status.Subtasks {
			if !is(s) {
				return fmt.Errorf("%v", s)
			}
		}
		if len(status.Subtasks) == 0 {
			return errors.New("no subtasks")
		}
		return nil
	})
}

// ranAgain is the number of subtasks of a job that ran again, by its history.
func ranAgain(t *testing.T, n *clustertest.Node, job string) (subtasks int) {
	t.Helper()
	stream, err := n.Jobs().Events(call(t), &apipb.EventsRequest{Job: job})
	if err != nil {
		t.Fatal(err)
	}
	for {
		e, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return subtasks
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == "region-restarted" {
			subtasks += int(e.Subtasks)
		}
	}
}

// attempts of the subtasks of a stage, by index.
func attempts(s *apipb.StatusResponse, chain int32) (n []uint32) {
	for _, t := range s.Subtasks {
		if t.Chain == chain {
			n = append(n, t.Attempt)
		}
	}
	return n
}

// finishes lets a held job go on, and checks that it ends well and leaves nothing behind.
func finishes(t *testing.T, n *clustertest.Node, job string, workers ...*clustertest.Worker) *apipb.StatusResponse {
	t.Helper()
	for _, w := range workers {
		w.Finish()
	}
	status := waitFor(t, n, job)
	if status.Status != jobpb.JobStatus_JOB_FINISHED {
		t.Fatalf("ended as %v: %v", status.Status, status.Failure)
	}
	after(t, time.Second)
	var output []string
	for _, w := range workers {
		if left := w.Results(job); left != 0 {
			t.Errorf("%d results are left on worker %s", left, w.ID)
		}
		output = append(output, w.Outputs(job)...)
	}
	if slices.Sort(output); !slices.Equal(output, []string{"out[0]", "out[1]", "out[2]", "out[3]"}) {
		t.Errorf("output %v", output)
	}
	return status
}

func TestResultsAreReadOnceStoredAndDroppedAtTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, leader, job, workers := stored(t)
		finishes(t, leader, job, workers...)
		if n := ranAgain(t, leader, job); n != 0 {
			t.Errorf("%d subtasks ran again", n)
		}
	})
}

func TestLostResultsAreMadeAgainByTheirProducersAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c, leader, job, workers := stored(t)
		if n := workers[0].DeleteResults(job); n != 2 {
			t.Fatalf("%d results were deleted", n)
		}
		awaitSubtasks(c, leader, job, "second stage at work again", func(s *apipb.SubtaskStatus) bool {
			return s.Chain == 0 && s.State == jobpb.SubtaskState_SUBTASK_FINISHED || s.Chain == 1 && s.State == jobpb.SubtaskState_SUBTASK_RUNNING && s.Attempt > 1
		})
		status := finishes(t, leader, job, workers...)
		again := 0
		for _, n := range attempts(status, 0) {
			again += int(n) - 1
		}
		// Two producers, and four readers that had an attempt.
		if n := ranAgain(t, leader, job); again != 2 || n != 6 || status.Restarts != 0 {
			t.Errorf("%v attempts of the first stage, %d subtasks ran again, %d restarts by user code", attempts(status, 0), n, status.Restarts)
		}
	})
}

func TestALostWorkerCostsWhatLayOnIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, leader, job, workers := stored(t)
		workers[0].Stop()
		after(t, 10*time.Second)
		status := finishes(t, leader, job, workers[1])
		again := 0
		for _, n := range attempts(status, 0) {
			again += int(n) - 1
		}
		if n := ranAgain(t, leader, job); again != 2 || n != 6 || status.Losses != 1 {
			t.Errorf("%v attempts of the first stage, %d subtasks ran again, %d losses", attempts(status, 0), n, status.Losses)
		}
	})
}

func TestAnAgentThatComesBackBringsItsResults(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c, leader, job, workers := stored(t)
		workers[0].Stop()
		back := c.StartWorker(workers[0].ID, clustertest.WorkerOptions{Slots: 2, Parallelism: 4, Incarnation: 2})
		status := finishes(t, leader, job, back, workers[1])
		if first := attempts(status, 0); slices.Max(first) != 1 {
			t.Errorf("attempts of the first stage: %v", first)
		}
		// Only the readers that ran on it have run again.
		if n := ranAgain(t, leader, job); n != 2 {
			t.Errorf("%d subtasks ran again", n)
		}
	})
}

func TestFinishedRegionsSurviveTheirLeaders(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c, leader, job, workers := stored(t)
		for range 2 {
			if err := leader.Kill(); err != nil {
				t.Fatal(err)
			}
			next := c.AwaitLeader()
			leader.Start()
			leader = next
			awaitWorkers(c, leader, 2)
		}
		finishes(t, leader, job, workers...)
		if n := ranAgain(t, leader, job); n != 0 {
			t.Errorf("%d subtasks ran again", n)
		}
	})
}

// A live stream waits at its gate until what stands in front of it has been loaded, and again after its restart.
func TestGatesOpenWhenAllHasBeenLoaded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		opts := clustertest.WorkerOptions{Slots: 4, Graph: &jobpb.Graph{Name: "mixed", Operators: []*jobpb.Operator{
			{Id: "history", Kind: "source", Bounded: true, Parallelism: 2},
			{Id: "live", Kind: "source", Parallelism: 2},
			{Id: "serve", Kind: "bootstrap", Parallelism: 2, Inputs: []*jobpb.Input{
				{Operator: 0, Partitioner: jobpb.Partitioner_PARTITIONER_HASH, Exchange: jobpb.ExchangeKind_EXCHANGE_BLOCKING},
				{Operator: 1, Partitioner: jobpb.Partitioner_PARTITIONER_HASH, Phase: 1, Gated: true},
			}},
			{Id: "out", Kind: "sink", Parallelism: 2, Guarantee: jobpb.Guarantee_GUARANTEE_AT_LEAST_ONCE, Inputs: []*jobpb.Input{{Operator: 2}}},
		}}}
		w := c.StartWorker("w1", opts)
		w.Hold() // of history: nothing can be loaded
		awaitWorkers(c, leader, 1)
		job := mustSubmit(t, leader, mustUpload(t, leader, "a"), "r1").Job
		waitFor(t, leader, job, jobpb.JobStatus_JOB_RUNNING)
		after(t, 5*time.Second)
		if n := w.Opened(job); n != 0 {
			t.Fatalf("the gate was opened %d times before anything was loaded", n)
		}
		w.HoldFrom(1)
		opened := func(w *clustertest.Worker) {
			c.Eventually(30*time.Second, "open gate", func(context.Context) error {
				if w.Opened(job) == 0 {
					return errors.New("closed")
				}
				return nil
			})
		}
		opened(w)
		other := c.StartWorker("w2", opts)
		awaitWorkers(c, leader, 2)
		w.Stop() // takes the stream and its history along
		opened(other)
		status, err := leader.Jobs().Status(call(t), &apipb.StatusRequest{Job: job})
		if err != nil || status.Status != jobpb.JobStatus_JOB_RUNNING || status.Losses != 1 {
			t.Errorf("%v, %v", status, err)
		}
	})
}
