package ops

import (
	"context"
	"errors"
	"text/tabwriter"
	"time"
	"uuid"

	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// SubmitOptions of Submit.
type SubmitOptions struct {
	Program string // a binary, or the directory of a main package
	Spec    SpecOptions
	// RequestID recognises this submit: the same id is the same job, however often it is asked for. Empty: a random one.
	RequestID string
	Then      Then
}

// SpecOptions are what the user says about a job besides its program.
type SpecOptions struct {
	Name        string // empty: the program's base name
	Params      map[string]string
	Settings    map[string]string
	Parallelism int32
	From        *jobpb.Origin // checkpoint to begin with; nil: none
}

// Then says what follows a submit.
type Then int

// What may follow.
const (
	Return Then = iota // as soon as the job exists
	Await              // wait for its end
	DryRun             // only build and plan it: there is no job
)

// NewRequestID draws a request id that nobody else draws: a UUID of version 7, so that ids sort by the time of their
// requests in logs and in the coordinators' tables.
func NewRequestID() string { return uuid.NewV7().String() }

// Submit brings a program to the cluster and makes a job of it.
func Submit(ctx context.Context, s *Session, o SubmitOptions) (err error) {
	spec, err := prepare(ctx, s, o.Program, o.Spec)
	if err != nil {
		return err
	}
	if o.Then == DryRun {
		return planSpec(ctx, s, spec)
	}
	if o.RequestID == "" {
		o.RequestID = NewRequestID()
		s.remark(" · request id %s (repeat with --request-id: it stays one job)", o.RequestID)
	}
	resp, err := submit(ctx, s.Client, &apipb.SubmitRequest{Spec: spec, RequestId: o.RequestID})
	if err != nil {
		return err
	}
	if o.Then == Return {
		if err := planned(ctx, s, resp.Job); err != nil {
			return err
		}
		return s.print(resp, func(w *tabwriter.Writer) { submitted(w, resp) })
	}
	verb := "submitted"
	if resp.Existed {
		verb = "existed already"
	}
	s.remark(" ✓ job %s %s", resp.Job, verb)
	return Wait(ctx, s, WaitOptions{Job: resp.Job})
}

// planWait bounds how long a submit that does not wait for the end waits for the plan: a wrong program is told at once,
// a cluster without workers keeps nobody.
const planWait = 10 * time.Second

// planned returns the error of a program that cannot be planned. That the plan is not there yet is no error: the job
// exists.
func planned(ctx context.Context, s *Session, job string) error {
	ctx, cancel := context.WithTimeout(ctx, planWait)
	defer cancel()
	resp, err := await(ctx, s.Client, WaitOptions{Job: job, Until: []jobpb.JobStatus{
		jobpb.JobStatus_JOB_WAITING, jobpb.JobStatus_JOB_RUNNING, jobpb.JobStatus_JOB_RESTARTING, jobpb.JobStatus_JOB_FINISHING,
		jobpb.JobStatus_JOB_FAILING, jobpb.JobStatus_JOB_CANCELLING,
	}})
	if err != nil {
		s.remark(" · job %s has no plan yet: %v", job, err)
		return nil
	}
	if unplannable(resp) {
		return outcome(resp)
	}
	return nil
}

func submitted(w *tabwriter.Writer, resp *apipb.SubmitResponse) {
	if resp.Existed {
		row(w, "job "+resp.Job+" existed already: an earlier submit had this request id")
		return
	}
	row(w, "job "+resp.Job+" submitted")
}

// submit asks until it is known what has become of the request. Every try carries the same id.
func submit(ctx context.Context, c *Client, req *apipb.SubmitRequest) (*apipb.SubmitResponse, error) {
	var resp *apipb.SubmitResponse
	err := c.Do(ctx, func(ctx context.Context, to Coordinator) (err error) {
		resp, err = to.Jobs.Submit(ctx, req)
		return err
	})
	return resp, err
}

// prepare builds if need be, checks the binary, makes it durable on the cluster, and returns the specification.
func prepare(ctx context.Context, s *Session, program string, o SpecOptions) (spec *jobpb.JobSpec, err error) {
	info, err := Info(ctx, s.Client)
	if err != nil {
		return nil, err
	}
	found, err := locate(ctx, s, program, info.Platforms)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, found.cleanup()) }()
	b, err := inspect(found.path, info.Platforms)
	if err != nil {
		return nil, err
	}
	spec = &jobpb.JobSpec{Name: o.Name, Artifact: b.digest, Params: o.Params, Settings: o.Settings, Parallelism: o.Parallelism, Origin: o.From}
	if spec.Name == "" {
		spec.Name = found.name
	}
	if err := apipb.ValidateSpec(spec); err != nil {
		return nil, Usagef("sluice submit --help lists the options", "%w", err)
	}
	return spec, upload(ctx, s, b)
}
