package api

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// read returns facts as fresh as the client asked for.
func (s *Server) read(ctx context.Context, accepts bool) (*state.View, freshness, error) {
	if accepts {
		facts, _ := s.facts.Changed()
		return facts, staleRead, nil
	}
	facts, err := s.facts.Read(ctx)
	return facts, freshRead, err
}

// List shows the jobs in the order of their submission.
func (s *jobsServer) List(ctx context.Context, req *apipb.ListRequest) (*apipb.ListResponse, error) {
	facts, how, err := s.read(ctx, req.Stale)
	if err != nil {
		return nil, err
	}
	resp := &apipb.ListResponse{Read: s.readInfo(facts.Index(), how)}
	for job := range facts.Jobs() {
		if len(req.Status) == 0 || slices.Contains(req.Status, job.Status()) {
			resp.Jobs = append(resp.Jobs, summary(job))
		}
	}
	return resp, nil
}

// Status shows one job in full.
func (s *jobsServer) Status(ctx context.Context, req *apipb.StatusRequest) (*apipb.StatusResponse, error) {
	facts, how, err := s.read(ctx, req.Stale)
	if err != nil {
		return nil, err
	}
	return s.status(facts, req.Job, how)
}

func (s *jobsServer) status(facts *state.View, id string, how freshness) (*apipb.StatusResponse, error) {
	job := facts.Job(id)
	if job == nil {
		return nil, unknownJob(id)
	}
	resp := statusOf(job, s.workers.Samples(id))
	resp.Read = s.readInfo(facts.Index(), how)
	return resp, nil
}

// Wait answers when the job is in one of the statuses, or can change no more.
func (s *jobsServer) Wait(ctx context.Context, req *apipb.WaitRequest) (*apipb.StatusResponse, error) {
	until, err := s.reign()
	if err != nil {
		return nil, err
	}
	if _, err := s.facts.Read(ctx); err != nil {
		return nil, err
	}
	for {
		facts, changed := s.facts.Changed()
		job := facts.Job(req.Job)
		if job == nil {
			return nil, unknownJob(req.Job)
		}
		if state.Terminal(job.Status()) || slices.Contains(req.Until, job.Status()) {
			return s.status(facts, req.Job, freshRead)
		}
		select {
		case <-changed:
		case <-until:
			return nil, ErrNotLeader
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// reign returns a channel that is closed when this node stops leading: what a long call shows after that may be old.
func (s *Server) reign() (<-chan struct{}, error) {
	leader, _ := s.leadership.Leader()
	if !leader.Here {
		return nil, ErrNotLeader
	}
	return leader.Until, nil
}

// Cancel asks for the end of a job. It answers as soon as that is committed; asking again changes nothing.
func (s *jobsServer) Cancel(ctx context.Context, req *apipb.CancelRequest) (*apipb.CancelResponse, error) {
	facts, err := s.facts.Read(ctx)
	if err != nil {
		return nil, err
	}
	job := facts.Job(req.Job)
	if job == nil {
		return nil, unknownJob(req.Job)
	}
	if state.Terminal(job.Status()) {
		return nil, apipb.NewError(codes.FailedPrecondition, &apipb.ErrorDetail{Code: CodeWrongStatus, Where: req.Job},
			"job %s is %s already", req.Job, state.StatusName(job.Status()))
	}
	result, err := s.facts.Propose(ctx, &commandpb.Command{
		RequestId: req.RequestId,
		Command:   &commandpb.Command_CancelJob{CancelJob: &commandpb.CancelJob{Job: req.Job}},
	})
	if err != nil {
		return nil, err
	}
	if result.Status == state.Refused {
		return nil, refused(result)
	}
	facts, _ = s.facts.Changed()
	if job = facts.Job(req.Job); job == nil {
		return nil, unknownJob(req.Job)
	}
	return &apipb.CancelResponse{Status: job.Status()}, nil
}

// Events streams the kept history, and what follows if asked to.
func (s *jobsServer) Events(req *apipb.EventsRequest, stream grpc.ServerStreamingServer[jobpb.Event]) error {
	ctx := stream.Context()
	until, err := s.reign()
	if err != nil {
		return err
	}
	if err := req.Validate(); err != nil {
		return invalid(err)
	}
	if _, err := s.facts.Read(ctx); err != nil {
		return err
	}
	after := req.AfterIndex
	for {
		facts, changed := s.facts.Changed()
		if req.Job != "" && facts.Job(req.Job) == nil {
			return unknownJob(req.Job)
		}
		for e := range facts.Events(after) {
			after = max(after, e.Index)
			if req.Job != "" && e.Job != req.Job {
				continue
			}
			if err := stream.Send(e); err != nil {
				return err
			}
		}
		if !req.Follow {
			return nil
		}
		select {
		case <-changed:
		case <-until:
			return ErrNotLeader
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
