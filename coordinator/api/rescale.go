package api

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/coordinator/draft"
	"github.com/sluiceio/sluice/coordinator/region"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/commandpb"
)

// Rescale changes the parallelism of a job. What cannot come to anything is refused before the job is touched.
func (s *jobsServer) Rescale(ctx context.Context, req *apipb.RescaleRequest) (*apipb.RescaleResponse, error) {
	until, err := s.reign()
	if err != nil {
		return nil, err
	}
	facts, err := s.facts.Read(ctx)
	if err != nil {
		return nil, err
	}
	job := facts.Job(req.Job)
	if job == nil {
		return nil, unknownJob(req.Job)
	}
	if facts.Request(req.RequestId) == nil {
		if err := rescalable(facts, job, req); err != nil {
			return nil, err
		}
	}
	return pursue(ctx, s.Server, until, req.Job, &commandpb.Command{
		RequestId: req.RequestId,
		Command:   &commandpb.Command_RequestRescale{RequestRescale: &commandpb.RequestRescale{Job: req.Job, Parallelism: req.Parallelism}},
	}, func(_ *state.View, job *state.Job) (*apipb.RescaleResponse, error) {
		return rescaled(job, req.RequestId)
	})
}

// rescaled is the outcome of a change of parallelism, nil if it has none yet; or the job as it is if a later one has taken its place.
func rescaled(job *state.Job, request string) (*apipb.RescaleResponse, error) {
	r := job.Head().Rescale
	if own := r.GetRequestId() == request; own && !r.Ended {
		return nil, nil
	} else if f := r.GetFailure(); own && f != nil {
		return nil, apipb.NewError(codes.Aborted, &apipb.ErrorDetail{Code: f.Code, Where: job.ID()}, "the parallelism stays as it was: %s", f.Message)
	}
	return &apipb.RescaleResponse{
		Checkpoint: r.GetCheckpoint(), Parallelism: job.Head().Spec.Parallelism, Subtasks: int32(job.Size()), Slots: int32(job.Slots()), Status: job.Status(),
	}, nil
}

// rescalable finds reasons against a change of parallelism: the job has no plan or no checkpoints, the plan would be none, or there
// are not slots enough for it.
func rescalable(facts *state.View, job *state.Job, req *apipb.RescaleRequest) error {
	if job.Plan() == nil || !job.Checkpointed() || state.Terminal(job.Status()) {
		return apipb.NewError(codes.FailedPrecondition, &apipb.ErrorDetail{
			Code: CodeWrongStatus, Where: job.ID(), Hints: []string{"only a running job that takes checkpoints can go on at another parallelism"},
		}, "job %s is %s, or takes no checkpoints", job.ID(), state.StatusName(job.Status()))
	}
	p, f := draft.Rescaled(facts, job, int(req.Parallelism), time.UnixMicro(facts.TimeMicros()))
	if f != nil {
		return apipb.NewError(codes.FailedPrecondition, &apipb.ErrorDetail{Code: f.Code, Where: job.ID()}, "%s", f.Message)
	}
	groups := region.SlotGroups(p)
	need, have := int(groups.First[len(groups.First)-1]), 0
	for w := range facts.Workers() {
		if w.Health == commandpb.WorkerHealth_WORKER_ALIVE && !w.Draining {
			have += max(0, int(w.Slots)-facts.UsedSlots(w.Id))
		}
	}
	for i := range job.Slots() {
		if _, _, held := job.Grant(i); held {
			have++
		}
	}
	if need > have {
		return apipb.NewError(codes.FailedPrecondition, &apipb.ErrorDetail{
			Code: CodeSlots, Where: job.ID(), Retryable: true, Hints: []string{"start more workers, or choose a lower parallelism"},
		}, "at parallelism %d job %s needs %d slots; %d are free or its own", req.Parallelism, job.ID(), need, have)
	}
	return nil
}
