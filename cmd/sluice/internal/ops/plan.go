package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// PlanOptions of Plan.
type PlanOptions struct {
	What string // a job's id, or the path of a program
	Spec SpecOptions
}

// Plan shows the plan of a job, or the one that a program would get; that one is made by a worker, and no job comes of it.
func Plan(ctx context.Context, s *Session, o PlanOptions) error {
	if !isPath(o.What) {
		return showPlan(ctx, s, &apipb.PlanRequest{What: &apipb.PlanRequest_Job{Job: o.What}})
	}
	spec, err := prepare(ctx, s, o.What, o.Spec)
	if err != nil {
		return err
	}
	return planSpec(ctx, s, spec)
}

// isPath: job ids have no slash, so what has one, or is a file here, is a program.
func isPath(what string) bool {
	if strings.ContainsAny(what, `/\`) {
		return true
	}
	_, err := os.Stat(what)
	return err == nil
}

func planSpec(ctx context.Context, s *Session, spec *jobpb.JobSpec) error {
	return showPlan(ctx, s, &apipb.PlanRequest{What: &apipb.PlanRequest_Spec{Spec: spec}})
}

func showPlan(ctx context.Context, s *Session, req *apipb.PlanRequest) error {
	var resp *apipb.PlanResponse
	err := s.Client.DoStream(ctx, func(ctx context.Context, to Coordinator) (err error) { // it runs the user's code, for up to 30 s
		resp, err = to.Jobs.Plan(ctx, req)
		return err
	})
	if err != nil {
		return err
	}
	if resp.Output != "" {
		s.remark("the program wrote while it was planned:\n%s", strings.TrimRight(resp.Output, "\n"))
	}
	if len(resp.Errors) > 0 {
		if s.Format == JSON {
			if err := s.printJSON(resp); err != nil {
				return err
			}
		}
		return &PlanError{Diagnostics: resp.Errors}
	}
	text, err := planText(resp.Plan)
	if err != nil {
		return err
	}
	return s.print(resp, func(w *tabwriter.Writer) { _, _ = io.WriteString(w, text) }) // a buffer
}

// planText is the plan as the program itself prints it.
func planText(p *jobpb.Plan) (string, error) {
	if p == nil {
		return "", errors.New("the coordinator has answered without a plan")
	}
	if err := p.Validate(); err != nil {
		return "", fmt.Errorf("the coordinator's plan cannot be read; sluice version shows whether it is of another release: %w", err)
	}
	return graph.Text(p), nil
}
