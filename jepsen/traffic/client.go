package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/jepsen/history"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Client asks whichever coordinator it happens on, as a user's retrying tool would. It belongs to one goroutine.
type Client struct {
	name string
	c    *cluster.Cluster
	log  *history.Recorder
	rnd  *rand.Rand
}

// NewClient is a client that draws from a seed.
func NewClient(c *cluster.Cluster, log *history.Recorder, name string, seed, n uint64) *Client {
	return &Client{name: name, c: c, log: log, rnd: rand.New(rand.NewPCG(seed, n))}
}

// Cluster that it asks.
func (cl *Client) Cluster() *cluster.Cluster { return cl.c }

func (cl *Client) any() *cluster.Node {
	nodes := cl.c.Role(cluster.Coordinator)
	return nodes[cl.rnd.IntN(len(nodes))]
}

// Submit asks until it has an answer or ctx ends. Every try carries the same request id, so that it does not matter
// which of them took effect.
func (cl *Client) Submit(ctx context.Context, spec *jobpb.JobSpec, request string) (job string, err error) {
	call := cl.log.Invoke(cl.name, history.Submit, request)
	for {
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		resp, err := apipb.NewJobsClient(cl.c.Conn(cl.any())).Submit(try, &apipb.SubmitRequest{Spec: spec, RequestId: request})
		cancel()
		if err == nil {
			call.OK(resp.Job)
			return resp.Job, nil
		}
		if !Retryable(err) {
			call.Fail(err)
			return "", fmt.Errorf("submit %s: %w", request, err)
		}
		if stop := cluster.Rest(ctx, time.Duration(20+cl.rnd.IntN(80))*time.Millisecond); stop != nil {
			call.Unknown(err)
			return "", fmt.Errorf("submit %s: outcome unknown: %w", request, errors.Join(stop, err))
		}
	}
}

// Wait returns the terminal status of a job.
func (cl *Client) Wait(ctx context.Context, job string) (*apipb.StatusResponse, error) {
	return ask(ctx, cl, "wait "+job, 10*time.Second, func(ctx context.Context, jobs apipb.JobsClient) (*apipb.StatusResponse, error) {
		return jobs.Wait(ctx, &apipb.WaitRequest{Job: job})
	})
}

// Status is that of the newest facts, not stale.
func (cl *Client) Status(ctx context.Context, job string) (*apipb.StatusResponse, error) {
	return ask(ctx, cl, "status "+job, 2*time.Second, func(ctx context.Context, jobs apipb.JobsClient) (*apipb.StatusResponse, error) {
		return jobs.Status(ctx, &apipb.StatusRequest{Job: job})
	})
}

// List is every job of the newest facts, not stale.
func (cl *Client) List(ctx context.Context) ([]*apipb.JobSummary, error) {
	resp, err := ask(ctx, cl, "list", 2*time.Second, func(ctx context.Context, jobs apipb.JobsClient) (*apipb.ListResponse, error) {
		return jobs.List(ctx, &apipb.ListRequest{})
	})
	return resp.GetJobs(), err
}

// Events is the history of the cluster behind an index.
func (cl *Client) Events(ctx context.Context, after uint64) (events []*jobpb.Event, err error) {
	return ask(ctx, cl, "events", 5*time.Second, func(ctx context.Context, jobs apipb.JobsClient) ([]*jobpb.Event, error) {
		var events []*jobpb.Event
		stream, err := jobs.Events(ctx, &apipb.EventsRequest{AfterIndex: after})
		if err != nil {
			return nil, err
		}
		for {
			e, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return events, nil
			}
			if err != nil {
				return nil, err
			}
			events = append(events, e)
		}
	})
}

// Plan of a job.
func (cl *Client) Plan(ctx context.Context, job string) (*jobpb.Plan, error) {
	resp, err := ask(ctx, cl, "plan "+job, 5*time.Second, func(ctx context.Context, jobs apipb.JobsClient) (*apipb.PlanResponse, error) {
		return jobs.Plan(ctx, &apipb.PlanRequest{What: &apipb.PlanRequest_Job{Job: job}})
	})
	return resp.GetPlan(), err
}

// Cancel a job, again and again until somebody answers. It is no error that the job has ended.
func (cl *Client) Cancel(ctx context.Context, job, request string) (jobpb.JobStatus, error) {
	resp, err := ask(ctx, cl, "cancel "+job, 3*time.Second, func(ctx context.Context, jobs apipb.JobsClient) (*apipb.CancelResponse, error) {
		return jobs.Cancel(ctx, &apipb.CancelRequest{Job: job, RequestId: request})
	})
	return resp.GetStatus(), err
}

// Checkpoints of a job.
func (cl *Client) Checkpoints(ctx context.Context, job string) (*apipb.CheckpointsResponse, error) {
	return ask(ctx, cl, "checkpoints "+job, 2*time.Second, func(ctx context.Context, jobs apipb.JobsClient) (*apipb.CheckpointsResponse, error) {
		return jobs.Checkpoints(ctx, &apipb.CheckpointsRequest{Job: job})
	})
}

// Savepoint takes one, and returns when it is complete.
func (cl *Client) Savepoint(ctx context.Context, job, request string) (*apipb.SavepointResponse, error) {
	return ask(ctx, cl, "savepoint of "+job, 20*time.Second, func(ctx context.Context, jobs apipb.JobsClient) (*apipb.SavepointResponse, error) {
		return jobs.Savepoint(ctx, &apipb.SavepointRequest{Job: job, RequestId: request, Kind: jobpb.CheckpointKind_CHECKPOINT_SAVEPOINT})
	})
}

// DeleteSavepoint gives one up.
func (cl *Client) DeleteSavepoint(ctx context.Context, job string, id uint64) error {
	_, err := ask(ctx, cl, "delete savepoint of "+job, 5*time.Second, func(ctx context.Context, jobs apipb.JobsClient) (*apipb.DeleteSavepointResponse, error) {
		return jobs.DeleteSavepoint(ctx, &apipb.DeleteSavepointRequest{Job: job, Id: id})
	})
	return err
}

// AwaitStatus asks until the job has one of the statuses. It is an error if it ends otherwise.
func (cl *Client) AwaitStatus(ctx context.Context, job string, want ...jobpb.JobStatus) (*apipb.StatusResponse, error) {
	for {
		st, err := cl.Status(ctx, job)
		if err != nil {
			return nil, err
		}
		if slices.Contains(want, st.Status) {
			return st, nil
		}
		if history.Terminal(st.Status.String()) {
			return nil, fmt.Errorf("job %s is %v, not %v: %v", job, st.Status, want, st.Failure)
		}
		if err := cluster.Rest(ctx, 50*time.Millisecond); err != nil {
			return nil, fmt.Errorf("job %s is %v, not %v: %s: %w", job, st.Status, want, st.Message, err)
		}
	}
}

// AwaitRunning asks until every subtask of the job is at work.
func (cl *Client) AwaitRunning(ctx context.Context, job string) (*apipb.StatusResponse, error) {
	for {
		st, err := cl.Status(ctx, job)
		if err != nil {
			return nil, err
		}
		if history.Terminal(st.Status.String()) {
			return nil, fmt.Errorf("job %s is %v: its subtasks have never been at work all at once: %v", job, st.Status, st.Failure)
		}
		if len(st.Subtasks) > 0 && !slices.ContainsFunc(st.Subtasks, func(t *apipb.SubtaskStatus) bool { return t.State != jobpb.SubtaskState_SUBTASK_RUNNING }) {
			return st, nil
		}
		if err := cluster.Rest(ctx, 50*time.Millisecond); err != nil {
			return nil, fmt.Errorf("job %s is %v, not running: %s: %w", job, st.Status, st.Message, err)
		}
	}
}

// Holder is a worker on which a subtask of the job is at work; nil: there is none now.
func (cl *Client) Holder(ctx context.Context, job string) (*cluster.Node, error) {
	st, err := cl.Status(ctx, job)
	if err != nil {
		return nil, err
	}
	leader, err := cl.c.AwaitLeader(ctx, nil)
	if err != nil {
		return nil, err
	}
	got, err := apipb.NewClusterClient(cl.c.Conn(leader)).Workers(ctx, &apipb.WorkersRequest{})
	if err != nil {
		return nil, err
	}
	var nodes []*cluster.Node
	for _, w := range got.Workers {
		holds := slices.ContainsFunc(st.Subtasks, func(t *apipb.SubtaskStatus) bool {
			return t.Worker == w.Worker.Id && t.State == jobpb.SubtaskState_SUBTASK_RUNNING
		})
		for _, n := range cl.c.Role(cluster.Worker) {
			if holds && n.Advertised() == w.Worker.Address && n.Alive() {
				nodes = append(nodes, n)
			}
		}
	}
	if len(nodes) == 0 {
		return nil, nil
	}
	return nodes[cl.rnd.IntN(len(nodes))], nil
}

// ask asks any coordinator, again and again, until one answers or ctx ends. limit bounds one try.
func ask[R any](ctx context.Context, cl *Client, what string, limit time.Duration, f func(context.Context, apipb.JobsClient) (R, error)) (resp R, err error) {
	for {
		try, cancel := context.WithTimeout(ctx, limit)
		resp, err = f(try, apipb.NewJobsClient(cl.c.Conn(cl.any())))
		cancel()
		if err == nil {
			return resp, nil
		}
		if !Retryable(err) {
			return resp, fmt.Errorf("%s: %w", what, err)
		}
		if stop := cluster.Rest(ctx, 50*time.Millisecond); stop != nil {
			return resp, fmt.Errorf("%s: %w", what, errors.Join(stop, err))
		}
	}
}

// once asks one coordinator one time.
func once[R any](ctx context.Context, cl *Client, limit time.Duration, f func(context.Context, *grpc.ClientConn) (R, error)) (R, error) {
	try, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return f(try, cl.c.Conn(cl.any()))
}

// Retryable: the cluster, not the request, was at fault.
func Retryable(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Aborted, codes.Canceled:
		return true
	}
	return false
}
