package traffic

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/jepsen/history"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Load is several clients at once, each of which submits small jobs, asks for them through other coordinators, and cancels
// some. Every single try is a call in the history, so that a model can judge them.
type Load struct {
	Cluster  *cluster.Cluster
	Log      *history.Recorder
	Artifact string // of the sluice binary
	Dir      string // output of the jobs goes below it
	Seed     uint64
	Clients  int
	Pause    time.Duration // of a client between two calls
	// Most jobs that one client makes; 0: no bound but time.
	Most int

	mu struct {
		sync.Mutex
		jobs []history.Ask
	}
}

// Run works until ctx ends. That is no error.
func (l *Load) Run(ctx context.Context) error {
	g := run.NewGroup(ctx, "load")
	for i := range l.Clients {
		name := fmt.Sprintf("client-%d", i+1)
		c := NewClient(l.Cluster, l.Log, name, l.Seed, uint64(i)+100)
		g.Go(name, func(ctx context.Context) error { return l.client(ctx, c) })
	}
	return g.Wait()
}

// Jobs that were acknowledged.
func (l *Load) Jobs() []history.Ask {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.mu.jobs)
}

// callLimit bounds one try: a call that takes longer has an unknown outcome.
const callLimit = 2 * time.Second

func (l *Load) client(ctx context.Context, c *Client) error {
	for n := 0; ; n++ {
		if cluster.Rest(ctx, l.Pause/2+time.Duration(c.rnd.Int64N(int64(l.Pause)+1))) != nil {
			return nil
		}
		known := l.Jobs()
		draw := c.rnd.IntN(10)
		switch {
		case len(known) == 0 || draw < 3 && (l.Most == 0 || n < l.Most):
			l.submit(ctx, c, fmt.Sprintf("%s-%d", c.name, n))
		case draw < 8:
			c.StatusOnce(ctx, known[c.rnd.IntN(len(known))])
		case draw < 9:
			c.ListOnce(ctx)
		default:
			c.CancelOnce(ctx, known[c.rnd.IntN(len(known))])
		}
	}
}

// submit tries until it knows the outcome, through one coordinator after another. Each try is a call of its own with the same
// request id.
func (l *Load) submit(ctx context.Context, c *Client, request string) {
	spec := &jobpb.JobSpec{Name: "small", Artifact: l.Artifact, Parallelism: 1, Params: map[string]string{
		"job": "count", "records": fmt.Sprint(1000 * (1 + c.rnd.IntN(5))), "out": filepath.Join(l.Dir, request),
	}}
	for ctx.Err() == nil {
		job, err := c.SubmitOnce(ctx, spec, request)
		if err == nil {
			l.mu.Lock()
			l.mu.jobs = append(l.mu.jobs, history.Ask{Job: job, Request: request})
			l.mu.Unlock()
			if c.rnd.IntN(4) > 0 {
				return
			}
			_, _ = c.SubmitOnce(ctx, spec, request) // again, as a client that has lost the answer: its outcome is in the history
			return
		}
		if !Retryable(err) || cluster.Rest(ctx, 50*time.Millisecond) != nil {
			return
		}
	}
}

// SubmitOnce is one try, in the history.
func (cl *Client) SubmitOnce(ctx context.Context, spec *jobpb.JobSpec, request string) (job string, err error) {
	call := cl.log.Invoke(cl.name, history.Submit, request)
	resp, err := once(ctx, cl, callLimit, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.SubmitResponse, error) {
		return apipb.NewJobsClient(conn).Submit(ctx, &apipb.SubmitRequest{Spec: spec, RequestId: request})
	})
	complete(call, resp.GetJob(), err)
	return resp.GetJob(), err
}

// StatusOnce is one try, in the history.
func (cl *Client) StatusOnce(ctx context.Context, what history.Ask) {
	call := cl.log.Invoke(cl.name, history.Status, what)
	resp, err := once(ctx, cl, callLimit, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.StatusResponse, error) {
		return apipb.NewJobsClient(conn).Status(ctx, &apipb.StatusRequest{Job: what.Job})
	})
	if status.Code(err) == codes.NotFound {
		call.OK("") // an answer: there is no such job
		return
	}
	complete(call, resp.GetStatus().String(), err)
}

// CancelOnce is one try, in the history.
func (cl *Client) CancelOnce(ctx context.Context, what history.Ask) {
	call := cl.log.Invoke(cl.name, history.Cancel, what)
	resp, err := once(ctx, cl, callLimit, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.CancelResponse, error) {
		return apipb.NewJobsClient(conn).Cancel(ctx, &apipb.CancelRequest{Job: what.Job, RequestId: fmt.Sprintf("cancel-%s-%d", cl.name, cl.rnd.Uint32())})
	})
	complete(call, resp.GetStatus().String(), err)
}

// ListOnce is one try, in the history.
func (cl *Client) ListOnce(ctx context.Context) {
	call := cl.log.Invoke(cl.name, history.List, nil)
	resp, err := once(ctx, cl, callLimit, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListResponse, error) {
		return apipb.NewJobsClient(conn).List(ctx, &apipb.ListRequest{})
	})
	var ids []string
	for _, j := range resp.GetJobs() {
		ids = append(ids, j.Id)
	}
	complete(call, ids, err)
}

// complete: whatever broke off may have had its effect.
func complete(call history.Call, answer any, err error) {
	switch {
	case err == nil:
		call.OK(answer)
	case Retryable(err):
		call.Unknown(err)
	default:
		call.Fail(err)
	}
}
