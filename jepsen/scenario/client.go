package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/jepsen/history"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// client submits jobs through whichever coordinator it happens on, as a user's retrying tool would.
type client struct {
	name string
	c    *cluster.Cluster
	log  *history.Recorder
	rnd  *rand.Rand
}

func (cl *client) any() *cluster.Node {
	nodes := cl.c.Role(cluster.Coordinator)
	return nodes[cl.rnd.IntN(len(nodes))]
}

// submit asks until it has an answer or ctx ends. Every try carries the same request id, so that it does not matter
// which of them took effect.
func (cl *client) submit(ctx context.Context, spec *jobpb.JobSpec, request string) (job string, err error) {
	call := cl.log.Invoke(cl.name, "submit", request)
	for {
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		resp, err := apipb.NewJobsClient(cl.c.Conn(cl.any())).Submit(try, &apipb.SubmitRequest{Spec: spec, RequestId: request})
		cancel()
		if err == nil {
			call.OK(resp.Job)
			return resp.Job, nil
		}
		if !retryable(err) {
			call.Fail(err)
			return "", fmt.Errorf("submit %s: %w", request, err)
		}
		if stop := rest(ctx, time.Duration(20+cl.rnd.IntN(80))*time.Millisecond); stop != nil {
			call.Unknown(err)
			return "", fmt.Errorf("submit %s: outcome unknown: %w", request, errors.Join(stop, err))
		}
	}
}

// wait returns the terminal status of a job.
func (cl *client) wait(ctx context.Context, job string) (*apipb.StatusResponse, error) {
	return ask(ctx, cl, "wait "+job, 10*time.Second, func(ctx context.Context, jobs apipb.JobsClient) (*apipb.StatusResponse, error) {
		return jobs.Wait(ctx, &apipb.WaitRequest{Job: job})
	})
}

// status is that of the newest facts, not stale.
func (cl *client) status(ctx context.Context, job string) (*apipb.StatusResponse, error) {
	return ask(ctx, cl, "status "+job, 2*time.Second, func(ctx context.Context, jobs apipb.JobsClient) (*apipb.StatusResponse, error) {
		return jobs.Status(ctx, &apipb.StatusRequest{Job: job})
	})
}

// list is every job of the newest facts, not stale.
func (cl *client) list(ctx context.Context) ([]*apipb.JobSummary, error) {
	resp, err := ask(ctx, cl, "list", 2*time.Second, func(ctx context.Context, jobs apipb.JobsClient) (*apipb.ListResponse, error) {
		return jobs.List(ctx, &apipb.ListRequest{})
	})
	return resp.GetJobs(), err
}

// ask asks any coordinator, again and again, until one answers or ctx ends. limit bounds one try.
func ask[R any](ctx context.Context, cl *client, what string, limit time.Duration, f func(context.Context, apipb.JobsClient) (R, error)) (resp R, err error) {
	for {
		try, cancel := context.WithTimeout(ctx, limit)
		resp, err = f(try, apipb.NewJobsClient(cl.c.Conn(cl.any())))
		cancel()
		if err == nil {
			return resp, nil
		}
		if !retryable(err) {
			return resp, fmt.Errorf("%s: %w", what, err)
		}
		if stop := rest(ctx, 50*time.Millisecond); stop != nil {
			return resp, fmt.Errorf("%s: %w", what, errors.Join(stop, err))
		}
	}
}

// retryable: the cluster, not the request, was at fault.
func retryable(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Aborted, codes.Canceled:
		return true
	}
	return false
}

func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
