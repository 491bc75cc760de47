package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/coordinator/draft"
	"github.com/sluiceio/sluice/coordinator/plan"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

type jobsServer struct {
	apipb.UnimplementedJobsServer
	*Server
}

// Submit commits a job. What can be known to be wrong is refused before; what only the user's build function can tell
// fails the job later.
func (s *jobsServer) Submit(ctx context.Context, req *apipb.SubmitRequest) (*apipb.SubmitResponse, error) {
	facts, err := s.facts.Read(ctx)
	if err != nil {
		return nil, err
	}
	// A request that was served is answered as it was, even if the job could not be submitted any more today.
	if facts.Request(req.RequestId) == nil {
		if err := runnable(facts, req.Spec); err != nil {
			return nil, err
		}
	}
	result, err := s.facts.Propose(ctx, &commandpb.Command{
		RequestId: req.RequestId,
		Command:   &commandpb.Command_SubmitJob{SubmitJob: &commandpb.SubmitJob{Spec: req.Spec}},
	})
	if err != nil {
		return nil, err
	}
	switch result.Status {
	case state.Applied:
		return &apipb.SubmitResponse{Job: result.Job}, nil
	case state.Duplicate:
		return &apipb.SubmitResponse{Job: result.Job, Existed: true}, nil
	}
	return nil, refused(result)
}

// runnable checks that the binary is durable and that some live worker can execute it. Without any live worker the job
// may be submitted and waits for one.
func runnable(facts *state.View, spec *jobpb.JobSpec) error {
	known := facts.Artifact(spec.Artifact)
	if known == nil {
		return apipb.NewError(codes.FailedPrecondition, &apipb.ErrorDetail{
			Code: CodeNoArtifact, Where: spec.Artifact, Retryable: true, Hints: []string{"upload the binary first"},
		}, "artifact %.12s is not stored on a quorum of coordinators", spec.Artifact)
	}
	if known.Os == "" {
		return apipb.NewError(codes.InvalidArgument, &apipb.ErrorDetail{
			Code: CodeNotELF, Where: spec.Artifact, Hints: []string{"build the job with GOOS=linux; a script or an archive cannot be run"},
		}, "artifact %.12s is not an ELF executable", spec.Artifact)
	}
	platforms := platforms(facts)
	binary := known.Os + "/" + known.Arch
	if len(platforms) > 0 && !slices.Contains(platforms, binary) {
		goos, goarch, _ := strings.Cut(platforms[0], "/")
		return apipb.NewError(codes.InvalidArgument, &apipb.ErrorDetail{
			Code: CodeForeignPlatform, Where: spec.Artifact, Hints: []string{fmt.Sprintf("build the job with GOOS=%s GOARCH=%s", goos, goarch)},
		}, "the binary is for %s; the live workers are %s", binary, strings.Join(platforms, ", "))
	}
	return nil
}

// platforms of the live workers, in order.
func platforms(facts *state.View) []string {
	var all []string
	for w := range facts.Workers() {
		if w.Health == commandpb.WorkerHealth_WORKER_ALIVE {
			all = append(all, w.Os+"/"+w.Arch)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Plan shows the plan of a job, or builds and plans a binary without creating one. What is wrong with the user's program is
// part of the answer, not an error of the call.
func (s *jobsServer) Plan(ctx context.Context, req *apipb.PlanRequest) (*apipb.PlanResponse, error) {
	facts, err := s.facts.Read(ctx)
	if err != nil {
		return nil, err
	}
	if id := req.GetJob(); id != "" {
		job := facts.Job(id)
		if job == nil {
			return nil, unknownJob(id)
		}
		if job.Plan() == nil {
			return nil, apipb.NewError(codes.FailedPrecondition, &apipb.ErrorDetail{
				Code: CodeWrongStatus, Where: id, Retryable: !state.Terminal(job.Status()),
			}, "job %s has no plan: it is %s", id, state.StatusName(job.Status()))
		}
		return explained(&apipb.PlanResponse{Plan: job.Plan()}), nil
	}
	spec := req.GetSpec()
	if err := runnable(facts, spec); err != nil {
		return nil, err
	}
	result, err := s.workers.Build(ctx, spec)
	if err != nil {
		return nil, err
	}
	return s.planned(facts, spec, result), nil
}

func (s *jobsServer) planned(facts *state.View, spec *jobpb.JobSpec, result *controlpb.BuildResult) *apipb.PlanResponse {
	if f := result.Failure; f != nil {
		return &apipb.PlanResponse{Errors: []*jobpb.Diagnostic{{Code: f.Code, Message: f.Message, Where: f.Position}}}
	}
	built := result.Built
	if len(built.Errors) > 0 {
		return &apipb.PlanResponse{Errors: built.Errors, Output: built.Output}
	}
	p, diagnostics := plan.Make(built.Graph, draft.Options(facts, spec, 0))
	resp := &apipb.PlanResponse{Plan: p, Output: built.Output}
	if p == nil {
		resp.Errors = diagnostics
		return resp
	}
	return explained(resp)
}

// explained adds what the plan means for its execution.
func explained(resp *apipb.PlanResponse) *apipb.PlanResponse {
	resp.Edges, resp.Regions = edgesOf(resp.Plan), regionsOf(resp.Plan, nil)
	return resp
}
