package coordinator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/coordinator"
	"github.com/sluiceio/sluice/coordinator/internal/clustertest"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// inBubble runs a test in fake time.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// after lets time pass.
func after(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

func call(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func mustUpload(t *testing.T, to *clustertest.Node, payload string) string {
	t.Helper()
	digest, _, err := clustertest.Upload(call(t), to.Artifacts(), clustertest.Binary(payload))
	if err != nil {
		t.Fatalf("upload through %s: %v", to.Name, err)
	}
	return digest
}

func mustSubmit(t *testing.T, to *clustertest.Node, digest, request string) *apipb.SubmitResponse {
	t.Helper()
	resp, err := to.Jobs().Submit(call(t), &apipb.SubmitRequest{Spec: clustertest.Spec("job", digest), RequestId: request})
	if err != nil {
		t.Fatalf("submit %s through %s: %v", request, to.Name, err)
	}
	return resp
}

func mustFail(t *testing.T, err error, code codes.Code, stable string) {
	t.Helper()
	if err := clustertest.Fault(err, code, stable); err != nil {
		t.Fatal(err)
	}
}

func jobIDs(t *testing.T, n *clustertest.Node) []string {
	t.Helper()
	resp, err := n.Jobs().List(call(t), &apipb.ListRequest{})
	if err != nil {
		t.Fatalf("list through %s: %v", n.Name, err)
	}
	var ids []string
	for _, j := range resp.Jobs {
		ids = append(ids, j.Id)
	}
	return ids
}

func TestNodesFormOneCluster(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		info, err := leader.Cluster().Info(call(t), &apipb.InfoRequest{})
		if err != nil || info.Cluster == "" {
			t.Fatalf("info %v, %v: want a cluster id", info, err)
		}
		c.Eventually(5*time.Second, "three voters", func(ctx context.Context) error {
			resp, err := c.Followers(leader)[0].Cluster().Peers(ctx, &apipb.PeersRequest{})
			if err != nil {
				return err
			}
			for _, p := range resp.Peers {
				if !p.Voter || p.Role == "unreachable" || p.ApiAddress == "" || p.Version != "test" {
					return fmt.Errorf("peer %v", p)
				}
			}
			if len(resp.Peers) != 3 || resp.FailureTolerance != 1 {
				return fmt.Errorf("%d peers, tolerance %d", len(resp.Peers), resp.FailureTolerance)
			}
			return nil
		})
	})
}

func TestSingleNodeIsACluster(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{Nodes: 1})
		leader := c.AwaitLeader()
		mustSubmit(t, leader, mustUpload(t, leader, "a"), "r1")
		if err := leader.Stop(); err != nil {
			t.Fatal(err)
		}
		leader.Start()
		if ids := jobIDs(t, c.AwaitLeader()); !slices.Equal(ids, []string{"job-1"}) {
			t.Errorf("jobs after a restart: %v", ids)
		}
	})
}

func TestAnyNodeAnswersAnyCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		digest := mustUpload(t, c.Followers(leader)[0], "a")
		for i, n := range c.Nodes() {
			if resp := mustSubmit(t, n, digest, fmt.Sprint("r", i)); resp.Job != fmt.Sprint("job-", i+1) || resp.Existed {
				t.Errorf("submit through %s: %v", n.Name, resp)
			}
		}
		for _, n := range c.Nodes() {
			if ids := jobIDs(t, n); !slices.Equal(ids, []string{"job-1", "job-2", "job-3"}) {
				t.Errorf("%s lists %v", n.Name, ids)
			}
			status, err := n.Jobs().Status(call(t), &apipb.StatusRequest{Job: "job-2"})
			if err != nil || status.RequestId != "r1" || status.Artifact != digest || status.Read.Stale {
				t.Errorf("%s: status %v, %v", n.Name, status, err)
			}
		}
	})
}

func TestSameRequestIsOneJob(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		digest := mustUpload(t, leader, "a")
		first := mustSubmit(t, leader, digest, "same")
		for _, n := range c.Nodes() {
			if again := mustSubmit(t, n, digest, "same"); again.Job != first.Job || !again.Existed {
				t.Errorf("again through %s: %v, first %v", n.Name, again, first)
			}
		}
		_, err := leader.Jobs().Submit(call(t), &apipb.SubmitRequest{Spec: clustertest.Spec("other", digest), RequestId: "same"})
		mustFail(t, err, codes.FailedPrecondition, "E100")
		if ids := jobIDs(t, leader); len(ids) != 1 {
			t.Errorf("jobs %v", ids)
		}
	})
}

func TestSubmitRefusesWhatCannotRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		digest := mustUpload(t, leader, "a")
		script, _, err := clustertest.Upload(call(t), leader.Artifacts(), []byte("#!/bin/sh\necho no job\n"))
		if err != nil {
			t.Fatal(err)
		}
		submit := func(spec *jobpb.JobSpec, request string) error {
			_, err := c.Followers(leader)[0].Jobs().Submit(call(t), &apipb.SubmitRequest{Spec: spec, RequestId: request})
			return err
		}
		mustFail(t, submit(clustertest.Spec("job", clustertest.Digest([]byte("x"))), "r"), codes.FailedPrecondition, "E103")
		mustFail(t, submit(clustertest.Spec("job", script), "r"), codes.InvalidArgument, "E041")
		mustFail(t, submit(clustertest.Spec("job", digest), ""), codes.InvalidArgument, "E075")
		mustFail(t, submit(clustertest.Spec("../job", digest), "r"), codes.InvalidArgument, "E075")
		mustFail(t, submit(clustertest.Spec("job", "../../etc/passwd"), "r"), codes.InvalidArgument, "E075")
		mustFail(t, submit(nil, "r"), codes.InvalidArgument, "E075")
		if ids := jobIDs(t, leader); len(ids) != 0 {
			t.Errorf("refused submits left %v", ids)
		}
	})
}

func TestUnknownJobIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		n := c.Followers(c.AwaitLeader())[0]
		_, err := n.Jobs().Status(call(t), &apipb.StatusRequest{Job: "none-7"})
		mustFail(t, err, codes.NotFound, "E102")
		_, err = n.Jobs().Cancel(call(t), &apipb.CancelRequest{Job: "none-7"})
		mustFail(t, err, codes.NotFound, "E102")
		_, err = n.Jobs().Wait(call(t), &apipb.WaitRequest{Job: "none-7"})
		mustFail(t, err, codes.NotFound, "E102")
		_, err = n.Jobs().Plan(call(t), &apipb.PlanRequest{What: &apipb.PlanRequest_Job{Job: "none-7"}})
		mustFail(t, err, codes.NotFound, "E102")
		logs, err := n.Jobs().Logs(call(t), &apipb.LogsRequest{Job: "none-7"})
		if err == nil {
			_, err = logs.Recv()
		}
		mustFail(t, err, codes.NotFound, "E102")
	})
}

func TestWithoutLeaderCallsEndInTimeAndStaleReadsAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		digest := mustUpload(t, leader, "a")
		mustSubmit(t, leader, digest, "r1")
		left := c.Followers(leader)[0]
		c.Eventually(5*time.Second, "the follower has applied the job", func(ctx context.Context) error {
			resp, err := left.Jobs().List(ctx, &apipb.ListRequest{Stale: true})
			if err == nil && len(resp.Jobs) != 1 {
				err = fmt.Errorf("%d jobs", len(resp.Jobs))
			}
			return err
		})
		for _, n := range c.Nodes() {
			if n != left {
				if err := n.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		after(t, 3*time.Second)
		for _, limit := range []time.Duration{time.Second, time.Minute} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			start := time.Now()
			_, err := left.Jobs().Submit(ctx, &apipb.SubmitRequest{Spec: clustertest.Spec("job", digest), RequestId: "r2"})
			cancel()
			mustFail(t, err, codes.Unavailable, "E069")
			if took := time.Since(start); took > min(limit, 6*time.Second) {
				t.Errorf("with %s to go, the refusal took %s", limit, took)
			}
		}
		_, err := left.Jobs().List(call(t), &apipb.ListRequest{})
		mustFail(t, err, codes.Unavailable, "E069")
		stale, err := left.Jobs().List(call(t), &apipb.ListRequest{Stale: true})
		if err != nil || len(stale.Jobs) != 1 {
			t.Fatalf("stale list %v, %v", stale, err)
		}
		if r := stale.Read; !r.Stale || r.Leader != "" || r.WithoutLeaderUs < 2_000_000 || r.Node != left.ID {
			t.Errorf("a stale answer without leader says %v", r)
		}
		peers, err := left.Cluster().Peers(call(t), &apipb.PeersRequest{Stale: true})
		if err != nil || len(peers.Peers) != 3 || peers.FailureTolerance != 0 {
			t.Errorf("stale peers %v, %v", peers, err)
		}
	})
}

func TestLeaderKilledNothingForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		digest := mustUpload(t, c.AwaitLeader(), "a")
		var want []string
		for i := range 6 {
			leader := c.AwaitLeader()
			want = append(want, mustSubmit(t, leader, digest, fmt.Sprint("r", i)).Job)
			if err := leader.Kill(); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			next := c.AwaitLeader()
			if took := time.Since(start); took > 4*time.Second {
				t.Errorf("the next leader took %s", took)
			}
			if got := jobIDs(t, next); !slices.Equal(got, want) {
				t.Fatalf("after kill %d the jobs are %v, want %v", i, got, want)
			}
			leader.Start()
		}
	})
}

func TestPlannedStopHandsLeadershipOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		start := time.Now()
		if err := leader.Stop(); err != nil {
			t.Fatal(err)
		}
		c.AwaitLeader()
		// Less than the election timeout: nobody had to notice anything.
		if took := time.Since(start); took >= 500*time.Millisecond {
			t.Errorf("the cluster was without a leader for up to %s", took)
		}
	})
}

func TestAllNodesRestartedKeepTheirFacts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		digest := mustUpload(t, leader, "a")
		job := mustSubmit(t, leader, digest, "r1").Job
		before, err := leader.Cluster().Info(call(t), &apipb.InfoRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range c.Nodes() {
			if err := n.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		for _, n := range c.Nodes() {
			n.Start()
		}
		leader = c.AwaitLeader()
		after, err := leader.Cluster().Info(call(t), &apipb.InfoRequest{})
		if err != nil || after.Cluster != before.Cluster {
			t.Errorf("cluster %q became %q, %v", before.Cluster, after.GetCluster(), err)
		}
		if got := jobIDs(t, leader); !slices.Equal(got, []string{job}) {
			t.Errorf("jobs %v", got)
		}
		if again := mustSubmit(t, leader, digest, "r1"); again.Job != job || !again.Existed {
			t.Errorf("the request id was forgotten: %v", again)
		}
	})
}

func TestLeadershipIsTransferredOnRequest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		to := c.Followers(leader)[1]
		resp, err := c.Followers(leader)[0].Cluster().TransferLeader(call(t), &apipb.TransferLeaderRequest{To: to.ID})
		if err != nil || resp.Leader != to.ID {
			t.Fatalf("transfer to %s: %v, %v", to.ID, resp, err)
		}
		if now := c.AwaitLeader(); now != to {
			t.Errorf("%s leads, want %s", now.Name, to.Name)
		}
		_, err = to.Cluster().TransferLeader(call(t), &apipb.TransferLeaderRequest{To: "nobody"})
		mustFail(t, err, codes.NotFound, "E076")
		resp, err = to.Cluster().TransferLeader(call(t), &apipb.TransferLeaderRequest{})
		if err != nil || resp.Leader == to.ID {
			t.Errorf("transfer to the best one: %v, %v", resp, err)
		}
	})
}

func TestJobsAreWaitedForAndCancelledWithoutWorkers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		follower := c.Followers(leader)[0]
		job := mustSubmit(t, follower, mustUpload(t, leader, "a"), "r1").Job
		status, err := follower.Jobs().Wait(call(t), &apipb.WaitRequest{Job: job, Until: []jobpb.JobStatus{jobpb.JobStatus_JOB_CREATED}})
		if err != nil || status.Status != jobpb.JobStatus_JOB_CREATED {
			t.Fatalf("wait for CREATED: %v, %v", status, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = follower.Jobs().Wait(ctx, &apipb.WaitRequest{Job: job})
		if apipb.CodeOf(err) != codes.DeadlineExceeded {
			t.Errorf("a wait longer than its deadline ended with %v", err)
		}
		events, err := follower.Jobs().Events(call(t), &apipb.EventsRequest{Job: job})
		if err != nil {
			t.Fatal(err)
		}
		if e, err := events.Recv(); err != nil || e.Kind != "job-submitted" {
			t.Errorf("first event %v, %v", e, err)
		}
	})
}

func TestConfigurationReportsEveryFault(t *testing.T) {
	cfg := coordinator.DefaultConfig()
	cfg.Listen, cfg.RaftListen, cfg.BootstrapExpect = "0.0.0.0:1", "nonsense", 2
	cfg.ElectionTimeout, cfg.LeaseTimeout, cfg.WorkerLostAfter = time.Millisecond, time.Hour, time.Millisecond
	cfg.Version, cfg.Log, cfg.SnapshotThreshold = "", nil, 0
	err := cfg.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, fault := range []string{
		"data directory", "must be advertised", `raft listen address "nonsense"`, "use an odd number", "join must list",
		"election timeout", "lease timeout", "worker loss timeout", "version", "log", "snapshot threshold",
	} {
		if !strings.Contains(err.Error(), fault) {
			t.Errorf("%q is not reported in:\n%v", fault, err)
		}
	}
	good := coordinator.DefaultConfig()
	good.DataDir, good.BootstrapExpect = "x", 1
	if err := good.Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
}
