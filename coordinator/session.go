package coordinator

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/coordinator/api"
	"github.com/sluiceio/sluice/coordinator/session"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// control serves workers; it is a type of its own so that node has no methods of the gRPC kind.
type control struct {
	controlpb.UnimplementedControlServer
	node *node
}

// Attach opens the session of a worker. A follower refuses it, with the leader's address.
func (c control) Attach(stream session.Stream) error {
	in, err := session.Receive(c.node.group, stream)
	if err != nil {
		return err
	}
	r := c.node.reigning()
	if r == nil {
		return c.node.refuseSession(api.ErrNotLeader)
	}
	return c.node.refuseSession(r.sessions.Serve(in))
}

// refuseSession tells a worker why its session is over, and where the leader is; the worker looks for the leader in every
// case.
func (n *node) refuseSession(reason error) error {
	var coded *api.Refusal
	if errors.As(reason, &coded) {
		return reason
	}
	leader, _ := n.Leader()
	code := api.CodeSession
	if errors.Is(reason, api.ErrNotLeader) || errors.Is(reason, session.ErrOver) {
		code = api.CodeNoLeader
	}
	return apipb.NewError(codes.Unavailable, &apipb.ErrorDetail{Code: code, Retryable: true, Leader: leader.Address},
		"session ended: %v", reason)
}

// Samples returns the newest counters of a job's attempts.
func (n *node) Samples(job string) []*taskpb.Counters {
	r := n.reigning()
	if r == nil {
		return nil
	}
	var all []*taskpb.Counters
	for _, p := range r.sessions.Samples() {
		if p.Job == job {
			all = append(all, p.Sample.Counters...)
		}
	}
	return all
}

// Clocks returns the newest clocks of a job's attempts.
func (n *node) Clocks(job string) (all []*taskpb.Clock) {
	if r := n.reigning(); r != nil {
		for _, p := range r.sessions.Samples() {
			if p.Job == job {
				all = append(all, p.Sample.Clocks...)
			}
		}
	}
	return all
}

// Heard returns the age of a worker's newest heartbeat.
func (n *node) Heard(worker string) (time.Duration, bool) {
	r := n.reigning()
	if r == nil {
		return 0, false
	}
	return r.sessions.Heard(worker)
}

// Build runs a build function on some worker.
func (n *node) Build(ctx context.Context, spec *jobpb.JobSpec) (*controlpb.BuildResult, error) {
	r := n.reigning()
	if r == nil {
		return nil, api.ErrNotLeader
	}
	return r.sessions.Build(ctx, spec)
}
