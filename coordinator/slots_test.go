package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/coordinator/internal/clustertest"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// awaitHeld waits until a job has no attempt and says which slots it waits for.
func awaitHeld(c *clustertest.Cluster, n *clustertest.Node, job, message string) {
	c.Eventually(30*time.Second, job+" waits for slots", func(ctx context.Context) error {
		status, err := n.Jobs().Status(ctx, &apipb.StatusRequest{Job: job})
		if err != nil {
			return err
		}
		if status.Status != jobpb.JobStatus_JOB_WAITING || !strings.Contains(status.Message, message) {
			return fmt.Errorf("%v: %s", status.Status, status.Message)
		}
		if slices.ContainsFunc(status.Subtasks, func(s *apipb.SubtaskStatus) bool { return s.Attempt > 0 }) {
			return errors.New("some of it runs")
		}
		return nil
	})
}

// Each of two jobs needs every slot. They take turns, whatever happens to the leader and to a worker: all or nothing, so none
// holds what the other waits for.
func TestTwoJobsThatNeedEverySlotTakeTurns(t *testing.T) {
	for name, jobs := range map[string]struct {
		exchange jobpb.ExchangeKind
		whole    bool   // all of a job runs at once, or nothing
		message  string // of the one that waits
	}{
		"AtOnce": {jobpb.ExchangeKind_EXCHANGE_PIPELINED, true, "region 0 needs 4 slots, 0 free of 4"},
		"Staged": {jobpb.ExchangeKind_EXCHANGE_AUTO, false, "region 0 needs 1 slot, 0 free of 4"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := clustertest.New(t, clustertest.Options{})
				leader := c.AwaitLeader()
				var workers []*clustertest.Worker
				start := func(id string) {
					w := c.StartWorker(id, clustertest.WorkerOptions{Slots: 2, Parallelism: 4, Exchange: jobs.exchange})
					w.Hold()
					workers = append(workers, w)
				}
				start("w1")
				start("w2")
				awaitWorkers(c, leader, 2)
				digest := mustUpload(t, leader, "a")
				first := mustSubmit(t, leader, digest, "r1").Job
				waitFor(t, leader, first, jobpb.JobStatus_JOB_RUNNING)
				second := mustSubmit(t, leader, digest, "r2").Job
				awaitHeld(c, leader, second, jobs.message)

				if err := leader.Kill(); err != nil {
					t.Fatal(err)
				}
				leader = c.AwaitLeader()
				awaitWorkers(c, leader, 2)
				awaitHeld(c, leader, second, jobs.message)

				// As a whole the first one keeps what it has left, and what comes is for what it has lost. Stage by stage the
				// second one has waited for longer.
				workers[1].Stop()
				start("w3")
				if jobs.whole {
					awaitSubtasks(c, leader, first, "the first job at work again", func(s *apipb.SubtaskStatus) bool {
						return s.State == jobpb.SubtaskState_SUBTASK_RUNNING && s.Attempt == 2 && s.Worker != "w2"
					})
					awaitHeld(c, leader, second, "region 0 needs 4 slots")
				}

				for _, w := range workers {
					w.Finish()
				}
				for _, job := range []string{first, second} {
					if status := waitFor(t, leader, job); status.Status != jobpb.JobStatus_JOB_FINISHED || status.Restarts != 0 {
						t.Errorf("%s ended as %v after %d restarts: %v", job, status.Status, status.Restarts, status.Failure)
					}
					var output []string
					for _, w := range workers {
						output = append(output, w.Outputs(job)...)
					}
					if slices.Sort(output); !slices.Equal(output, []string{"out[0]", "out[1]", "out[2]", "out[3]"}) {
						t.Errorf("output of %s: %v", job, output)
					}
				}
			})
		})
	}
}
