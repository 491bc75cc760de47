package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluiceio/sluice/coordinator"
	"github.com/sluiceio/sluice/coordinator/internal/clustertest"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// storm is eight clients that submit as fast as users do, with a request id each, and ask again through all nodes until
// they are told which job it is.
type storm struct {
	nodes  []apipb.JobsClient
	digest string

	mu struct {
		sync.Mutex
		jobs    map[string]string // request id → job
		existed int               // answers that came from the memory of request ids
		retries int
	}
}

const stormClients = 8

func (s *storm) client(ctx context.Context, client int) error {
	r := rand.New(rand.NewPCG(uint64(client), 1))
	for n := 0; ctx.Err() == nil; n++ {
		if err := s.submit(context.WithoutCancel(ctx), r, fmt.Sprintf("client-%d-request-%d", client, n)); err != nil {
			return err
		}
		pause := time.NewTimer(time.Duration(50+r.IntN(900)) * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
	}
	return nil
}

func (s *storm) submit(ctx context.Context, r *rand.Rand, request string) error {
	for try := range 500 {
		// Short deadlines: many answers are lost on the way back, after the commit.
		call, cancel := context.WithTimeout(ctx, time.Duration(30+r.IntN(300))*time.Millisecond)
		resp, err := s.nodes[r.IntN(len(s.nodes))].Submit(call, &apipb.SubmitRequest{Spec: clustertest.Spec("storm", s.digest), RequestId: request})
		cancel()
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.mu.jobs[request] = resp.Job
			s.mu.retries += try
			if resp.Existed {
				s.mu.existed++
			}
			return nil
		}
		pause := time.NewTimer(time.Duration(10+r.IntN(100)) * time.Millisecond)
		<-pause.C
	}
	return fmt.Errorf("request %s was never answered", request)
}

// TestTwentyLeadersKilledInAStormOfSubmits is the promise of the control plane: no submit is lost or doubled, no task
// notices, every job ends with the right answer.
func TestTwentyLeadersKilledInAStormOfSubmits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{Parts: func(_ string, p *coordinator.Parts) {
			p.Transport = clustertest.Delayed(p.Transport, func() time.Duration { return time.Duration(1+rand.IntN(20)) * time.Millisecond })
		}})
		leader := c.AwaitLeader()
		workers := []*clustertest.Worker{
			c.StartWorker("w1", clustertest.WorkerOptions{}), c.StartWorker("w2", clustertest.WorkerOptions{}), c.StartWorker("w3", clustertest.WorkerOptions{}),
		}
		awaitWorkers(c, leader, 3)
		s := &storm{digest: mustUpload(t, leader, "storm")}
		s.mu.jobs = make(map[string]string)
		for _, n := range c.Nodes() {
			s.nodes = append(s.nodes, n.Jobs())
		}
		stop, end := context.WithCancel(t.Context())
		clients := run.NewGroup(stop, "clients")
		for i := range stormClients {
			clients.Go(fmt.Sprint(i), func(ctx context.Context) error { return s.client(ctx, i) })
		}
		r := rand.New(rand.NewPCG(20, 20))
		for range 20 {
			leader = c.AwaitLeader()
			after(t, time.Duration(r.IntN(1500))*time.Millisecond)
			if err := leader.Kill(); err != nil {
				t.Fatal(err)
			}
			c.AwaitLeader()
			leader.Start()
		}
		end()
		if err := clients.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		judge(t, c, s, workers)
	})
}

func judge(t *testing.T, c *clustertest.Cluster, s *storm, workers []*clustertest.Worker) {
	t.Helper()
	n := c.AwaitLeader()
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Logf("%d submits, %d tries in vain, %d answered from memory", len(s.mu.jobs), s.mu.retries, s.mu.existed)
	if s.mu.retries < 20 || s.mu.existed < 5 {
		t.Error("hardly any answer was lost: the storm was none")
	}
	var told []string
	for _, job := range s.mu.jobs {
		told = append(told, job)
	}
	slices.Sort(told)
	if len(slices.Compact(slices.Clone(told))) != len(told) {
		t.Error("two requests were told the same job")
	}
	known := jobIDs(t, n)
	slices.Sort(known)
	if !slices.Equal(known, told) {
		t.Errorf("the cluster knows %d jobs, the clients %d", len(known), len(told))
	}
	for _, job := range told {
		status := waitFor(t, n, job)
		if status.Status != jobpb.JobStatus_JOB_FINISHED || status.Restarts+status.Losses != 0 {
			t.Errorf("%s: %v after %d restarts and %d losses: %v", job, status.Status, status.Restarts, status.Losses, status.Failure)
		}
		for _, sub := range status.Subtasks {
			if sub.Attempt != 1 {
				t.Errorf("%s: attempt %d of %s[%d]", job, sub.Attempt, sub.Operator, sub.Index)
			}
		}
		var outputs, reads []string
		for _, w := range workers {
			outputs, reads = append(outputs, w.Outputs(job)...), append(reads, w.Reads(job)...)
		}
		slices.Sort(outputs)
		slices.Sort(reads)
		// A commit is idempotent and may be asked of another process when its confirmation was lost with the leader: the
		// same part twice is one part.
		if outputs = slices.Compact(outputs); !slices.Equal(outputs, []string{"out[0]", "out[1]"}) {
			t.Errorf("%s: output %v", job, outputs)
		}
		if !slices.Equal(reads, []string{"s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"}) {
			t.Errorf("%s: read %v", job, reads)
		}
	}
}
