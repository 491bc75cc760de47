package ops

import (
	"context"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

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
	return s.print(resp, func(w *tabwriter.Writer) { planTable(w, resp.Plan) })
}

func planTable(w *tabwriter.Writer, p *jobpb.Plan) {
	ops := p.GetGraph().GetOperators()
	table := func(w *tabwriter.Writer) {
		row(w, "OPERATOR", "KIND", "PLACE", "BOUNDED", "CHAIN", "PAR")
		for i, op := range ops {
			chain, par := chainOf(p, int32(i))
			row(w, op.Id, op.Kind, op.Location, op.Bounded, chain, par)
		}
	}
	edges := func(w *tabwriter.Writer) {
		for _, e := range p.GetEdges() {
			row(w, "  <- "+ops[e.FromOperator].Id, strings.ToLower(enum(e.Partitioner)), enum(e.Exchange), "("+e.Reason+")")
		}
	}
	operatorLines, edgeLines := aligned(table), aligned(edges)
	_, _ = fmt.Fprintln(w, operatorLines[0]) // a buffer, like below
	for i := range ops {
		_, _ = fmt.Fprintln(w, operatorLines[i+1])
		for k, e := range p.GetEdges() {
			if e.ToOperator == int32(i) {
				_, _ = fmt.Fprintln(w, edgeLines[k])
			}
		}
	}
	subtasks := int32(0)
	for _, c := range p.GetChains() {
		subtasks += c.Parallelism
	}
	_, _ = fmt.Fprintf(w, "\n%s, %s, %s, %s, %s, fingerprint %s\n", counted(len(ops), "operator"), counted(len(p.GetChains()), "chain"),
		counted(len(p.GetRegions()), "region"), counted(int(subtasks), "subtask"), counted(int(p.GetSlots()), "slot"), short(p.GetFingerprint()))
	for _, op := range ops {
		if op.Guarantee != jobpb.Guarantee_GUARANTEE_UNSPECIFIED {
			_, _ = fmt.Fprintf(w, "sink %s is %s\n", op.Id, strings.ToLower(enum(op.Guarantee)))
		}
	}
	for _, d := range p.GetGraph().GetWarnings() {
		_, _ = fmt.Fprintf(w, "warning %s: %s", d.Code, d.Message)
		if d.Where != "" {
			_, _ = fmt.Fprintf(w, " at %s", d.Where)
		}
		_, _ = fmt.Fprintln(w)
	}
}

func chainOf(p *jobpb.Plan, op int32) (chain, parallelism int32) {
	for _, c := range p.GetChains() {
		for _, o := range c.Operators {
			if o == op {
				return c.Index, c.Parallelism
			}
		}
	}
	return -1, 0
}
