package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/coordinator/internal/clustertest"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

func awaitWorkers(c *clustertest.Cluster, n *clustertest.Node, want int) {
	c.Eventually(20*time.Second, fmt.Sprintf("%d live workers", want), func(ctx context.Context) error {
		resp, err := n.Cluster().Workers(ctx, &apipb.WorkersRequest{})
		if err != nil {
			return err
		}
		alive := 0
		for _, w := range resp.Workers {
			if w.Worker.Health == commandpb.WorkerHealth_WORKER_ALIVE && w.LastHeartbeatUs >= 0 {
				alive++
			}
		}
		if alive != want {
			return fmt.Errorf("%d live workers", alive)
		}
		return nil
	})
}

func waitFor(t *testing.T, n *clustertest.Node, job string, until ...jobpb.JobStatus) *apipb.StatusResponse {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	status, err := n.Jobs().Wait(ctx, &apipb.WaitRequest{Job: job, Until: until})
	if err != nil {
		t.Fatalf("wait for %s of %s: %v", until, job, err)
	}
	return status
}

func TestJobRunsToItsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		w := c.StartWorker("w1", clustertest.WorkerOptions{})
		follower := c.Followers(leader)[0]
		awaitWorkers(c, leader, 1)
		digest := mustUpload(t, follower, "a")
		job := mustSubmit(t, follower, digest, "r1").Job
		status := waitFor(t, follower, job)
		if status.Status != jobpb.JobStatus_JOB_FINISHED || status.Restarts != 0 || status.Losses != 0 {
			t.Fatalf("the job ended as %v", status)
		}
		if len(status.Subtasks) != 4 || len(status.Edges) != 1 || len(status.Sinks) != 1 || len(status.Regions) == 0 || status.Fingerprint == "" {
			t.Errorf("status lacks parts: %v", status)
		}
		for _, s := range status.Subtasks {
			if s.Attempt != 1 || s.Worker != "w1" || s.State != jobpb.SubtaskState_SUBTASK_FINISHED || s.Operator == "" {
				t.Errorf("subtask %v", s)
			}
		}
		if e := status.Edges[0]; e.From != "in" || e.To != "out" || e.Reason == "" || e.Exchange == jobpb.ExchangeKind_EXCHANGE_AUTO {
			t.Errorf("edge %v", e)
		}
		out := w.Outputs(job)
		slices.Sort(out)
		if !slices.Equal(out, []string{"out[0]", "out[1]"}) {
			t.Errorf("visible output %v", out)
		}
		if reads := w.Reads(job); len(reads) != 8 {
			t.Errorf("splits read: %v", reads)
		}
	})
}

func TestRunningJobIsShownAndCancelled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		w := c.StartWorker("w1", clustertest.WorkerOptions{Exchange: jobpb.ExchangeKind_EXCHANGE_PIPELINED})
		w.Hold()
		follower := c.Followers(leader)[0]
		job := mustSubmit(t, follower, mustUpload(t, follower, "a"), "r1").Job
		waitFor(t, follower, job, jobpb.JobStatus_JOB_RUNNING)
		c.Eventually(10*time.Second, "counters of every subtask", func(ctx context.Context) error {
			status, err := follower.Jobs().Status(ctx, &apipb.StatusRequest{Job: job})
			if err != nil {
				return err
			}
			for _, s := range status.Subtasks {
				if s.State != jobpb.SubtaskState_SUBTASK_RUNNING || s.Counters.GetRecordsIn() != int64(10*(s.Index+1)) {
					return fmt.Errorf("subtask %v", s)
				}
			}
			return nil
		})
		list, err := follower.Jobs().List(call(t), &apipb.ListRequest{Status: []jobpb.JobStatus{jobpb.JobStatus_JOB_RUNNING}})
		if err != nil || len(list.Jobs) != 1 || list.Jobs[0].Running != 4 || list.Jobs[0].Subtasks != 4 {
			t.Errorf("list %v, %v", list, err)
		}
		p, err := follower.Jobs().Plan(call(t), &apipb.PlanRequest{What: &apipb.PlanRequest_Job{Job: job}})
		if err != nil || len(p.Plan.Chains) != 2 {
			t.Errorf("plan %v, %v", p, err)
		}
		if _, err := follower.Jobs().Cancel(call(t), &apipb.CancelRequest{Job: job, RequestId: "c1"}); err != nil {
			t.Fatal(err)
		}
		if status := waitFor(t, follower, job); status.Status != jobpb.JobStatus_JOB_CANCELLED {
			t.Errorf("ended as %v", status.Status)
		}
		if out := w.Outputs(job); len(out) != 0 {
			t.Errorf("a cancelled job has visible output %v", out)
		}
		_, err = follower.Jobs().Cancel(call(t), &apipb.CancelRequest{Job: job})
		mustFail(t, err, codes.FailedPrecondition, "E104")
	})
}

func TestLeaderLossLeavesRunningJobAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		w := c.StartWorker("w1", clustertest.WorkerOptions{Exchange: jobpb.ExchangeKind_EXCHANGE_PIPELINED})
		w.Hold()
		leader := c.AwaitLeader()
		job := mustSubmit(t, leader, mustUpload(t, leader, "a"), "r1").Job
		waitFor(t, leader, job, jobpb.JobStatus_JOB_RUNNING)
		if err := leader.Kill(); err != nil {
			t.Fatal(err)
		}
		next := c.AwaitLeader()
		awaitWorkers(c, next, 1)
		after(t, 10*time.Second)
		status, err := next.Jobs().Status(call(t), &apipb.StatusRequest{Job: job})
		if err != nil || status.Status != jobpb.JobStatus_JOB_RUNNING || status.Restarts+status.Losses != 0 {
			t.Fatalf("status %v, %v", status, err)
		}
		for _, s := range status.Subtasks {
			if s.Attempt != 1 || s.State != jobpb.SubtaskState_SUBTASK_RUNNING {
				t.Errorf("subtask %v", s)
			}
		}
		w.Finish()
		if status := waitFor(t, next, job); status.Status != jobpb.JobStatus_JOB_FINISHED {
			t.Errorf("ended as %v", status.Status)
		}
		if out := w.Outputs(job); len(out) != 2 {
			t.Errorf("visible output %v", out)
		}
	})
}

func TestLostWorkerRestartsItsJob(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		first := c.StartWorker("w1", clustertest.WorkerOptions{})
		first.Hold()
		job := mustSubmit(t, leader, mustUpload(t, leader, "a"), "r1").Job
		waitFor(t, leader, job, jobpb.JobStatus_JOB_RUNNING)
		second := c.StartWorker("w2", clustertest.WorkerOptions{})
		awaitWorkers(c, leader, 2)
		first.Stop()
		status := waitFor(t, leader, job)
		if status.Status != jobpb.JobStatus_JOB_FINISHED || status.Losses == 0 {
			t.Errorf("ended as %v after %d losses", status.Status, status.Losses)
		}
		if out := second.Outputs(job); len(out) != 2 {
			t.Errorf("visible output %v", out)
		}
	})
}

func TestDryRunPlansWithoutAJob(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		follower := c.Followers(leader)[0]
		spec := clustertest.Spec("job", mustUpload(t, leader, "a"))
		dry := func() (*apipb.PlanResponse, error) {
			return follower.Jobs().Plan(call(t), &apipb.PlanRequest{What: &apipb.PlanRequest_Spec{Spec: spec}})
		}
		_, err := dry()
		mustFail(t, err, codes.Unavailable, "E078")

		w := c.StartWorker("w1", clustertest.WorkerOptions{})
		awaitWorkers(c, leader, 1)
		resp, err := dry()
		if err != nil || resp.Plan == nil || len(resp.Plan.Chains) != 2 || resp.Output != "built\n" || len(resp.Errors) != 0 {
			t.Fatalf("plan %v, %v", resp, err)
		}
		w.Stop()
		awaitWorkers(c, leader, 0)
		c.StartWorker("w2", clustertest.WorkerOptions{BuildFails: &jobpb.Failure{Code: "E043", Message: "build panicked: boom", Position: "main.go:7"}})
		awaitWorkers(c, leader, 1)
		resp, err = dry()
		if err != nil || resp.Plan != nil || len(resp.Errors) != 1 || resp.Errors[0].Code != "E043" || resp.Errors[0].Where != "main.go:7" {
			t.Errorf("a build that panics: %v, %v", resp, err)
		}
		if ids := jobIDs(t, leader); len(ids) != 0 {
			t.Errorf("dry runs left jobs %v", ids)
		}
	})
}

func TestForeignBinaryAndForeignRuntimeAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		digest := mustUpload(t, leader, "a")
		arm := c.StartWorker("w1", clustertest.WorkerOptions{OS: "linux", Arch: "arm64"})
		awaitWorkers(c, leader, 1)
		_, err := leader.Jobs().Submit(call(t), &apipb.SubmitRequest{Spec: clustertest.Spec("job", digest), RequestId: "r"})
		mustFail(t, err, codes.InvalidArgument, "E040")
		arm.Stop()
		awaitWorkers(c, leader, 0)
		c.StartWorker("w2", clustertest.WorkerOptions{Protocol: taskpb.ProtocolMax + 7})
		awaitWorkers(c, leader, 1)
		status := waitFor(t, leader, mustSubmit(t, leader, digest, "r").Job)
		if status.Status != jobpb.JobStatus_JOB_FAILED || status.Failure.GetCode() != "E045" {
			t.Errorf("a binary of another protocol ended as %v: %v", status.Status, status.Failure)
		}
	})
}

func TestFollowerRefusesSessionsAndNamesTheLeader(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		register := &controlpb.Register{
			Worker: "w", Incarnation: 1, Address: "w:1", DataAddress: "w:2", Slots: 1, ProtocolMin: 1, ProtocolMax: 1, Os: "linux", Arch: "amd64",
		}
		attach := func(n *clustertest.Node, m *controlpb.WorkerMessage) error {
			stream, err := controlpb.NewControlClient(n.Client()).Attach(call(t))
			if err != nil {
				return err
			}
			if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			for {
				if _, err := stream.Recv(); err != nil {
					return err
				}
			}
		}
		first := &controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_Register{Register: register}}
		err := attach(c.Followers(leader)[0], first)
		mustFail(t, err, codes.Unavailable, "E069")
		if detail, _ := apipb.DetailOf(err); detail.Leader != leader.API {
			t.Errorf("the refusal names %q, the leader is at %q", detail.Leader, leader.API)
		}
		mustFail(t, attach(leader, &controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_Heartbeat{Heartbeat: &controlpb.Heartbeat{}}}), codes.InvalidArgument, "E082")
		register.Slots = 0
		mustFail(t, attach(leader, first), codes.InvalidArgument, "E082")
		register.Slots, register.TermSeen = 1, 1<<40
		mustFail(t, attach(leader, first), codes.Unavailable, "E069")
		register.TermSeen, register.ProtocolMin, register.ProtocolMax = 0, 90, 99
		mustFail(t, attach(leader, first), codes.FailedPrecondition, "E045")
	})
}

func TestSilentStreamIsNotKept(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		stream, err := controlpb.NewControlClient(leader.Client()).Attach(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		mustFail(t, err, codes.InvalidArgument, "E082")
	})
}

func TestEventsAreFollowed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		c.StartWorker("w1", clustertest.WorkerOptions{})
		awaitWorkers(c, leader, 1)
		job := mustSubmit(t, leader, mustUpload(t, leader, "a"), "r1").Job
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		stream, err := c.Followers(leader)[0].Jobs().Events(ctx, &apipb.EventsRequest{Job: job, Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		var kinds []string
		for !slices.Contains(kinds, "job-finished") {
			e, err := stream.Recv()
			if err != nil {
				t.Fatalf("after %v: %v", kinds, err)
			}
			kinds = append(kinds, e.Kind)
		}
		if kinds[0] != "job-submitted" {
			t.Errorf("events %v", kinds)
		}
		// With the leader the stream ends, and says so.
		if err := leader.Kill(); err != nil {
			t.Fatal(err)
		}
		for {
			_, err := stream.Recv()
			if err == nil {
				continue
			}
			mustFail(t, err, codes.Unavailable, "E069")
			break
		}
	})
}

func TestLogsAreGatheredFromEveryWorker(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		chunks := func(process uint64, lines ...string) map[string][]*controlpb.LogChunk {
			var all []*controlpb.LogChunk
			for _, l := range lines {
				all = append(all, &controlpb.LogChunk{Process: process, Data: []byte(l)})
			}
			return map[string][]*controlpb.LogChunk{"job-1": all}
		}
		c.StartWorker("w1", clustertest.WorkerOptions{Logs: chunks(1, "a\n", "b\n")})
		c.StartWorker("w2", clustertest.WorkerOptions{Logs: chunks(2, "c\n")})
		c.StartWorker("w3", clustertest.WorkerOptions{Logs: map[string][]*controlpb.LogChunk{}}) // never ran it
		c.StartWorker("w4", clustertest.WorkerOptions{})                                         // cannot be reached
		awaitWorkers(c, leader, 4)
		job := mustSubmit(t, leader, mustUpload(t, leader, "a"), "r1").Job
		read := func(ctx context.Context, req *apipb.LogsRequest, n int) map[string]string {
			stream, err := c.Followers(leader)[0].Jobs().Logs(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for i := 0; n == 0 || i < n; i++ {
				line, err := stream.Recv()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				got[line.Worker] += string(line.Data)
			}
			return got
		}
		got := read(call(t), &apipb.LogsRequest{Job: job}, 0)
		if got["w1"] != "a\nb\n" || got["w2"] != "c\n" || got["w3"] != "" || !strings.Contains(got["w4"], "no logs from worker w4") {
			t.Errorf("logs %q", got)
		}
		// Followed, the stream goes on until the client leaves.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if got := read(ctx, &apipb.LogsRequest{Job: job, Follow: true}, 4); got["w1"] != "a\nb\n" {
			t.Errorf("followed logs %q", got)
		}
		cancel()
	})
}
