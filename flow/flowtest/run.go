package flowtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/launch"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task"
)

// Option changes how a job runs in a test.
type Option interface {
	// prepare is called before the job's build function.
	prepare(p *flow.Pipeline, e *launch.Embedding)
}

type option func(p *flow.Pipeline, e *launch.Embedding)

func (o option) prepare(p *flow.Pipeline, e *launch.Embedding) { o(p, e) }

// Cores plans as if the machine had n cores: the parallelism of operators that set none. The default is 2, so that
// results do not depend on the machine.
func Cores(n int) Option {
	return option(func(_ *flow.Pipeline, e *launch.Embedding) { e.Slots = n })
}

// Setting sets the engine, like --sluice.KEY=VALUE.
func Setting(key, value string) Option {
	return option(func(_ *flow.Pipeline, e *launch.Embedding) { e.Settings[key] = value })
}

// Clock is what operators see as the clock of the machine: windows by processing time, lives of states, Ctx.Now. now is called
// by several goroutines at once. Timers by the clock still need real time to pass.
func Clock(now func() time.Time) Option {
	return option(func(_ *flow.Pipeline, e *launch.Embedding) { e.Now = now })
}

// Run runs the job until it has finished, and fails the test if it does not.
func Run[C any](t testing.TB, cfg *C, build func(*flow.Pipeline, *C) error, opts ...Option) {
	t.Helper()
	if err := Try(t, cfg, build, opts...); err != nil {
		t.Fatal(err)
	}
}

// Try is Run for jobs that may fail. The error is a *flow.PlanError if the job could not start, a *JobError if it failed.
func Try[C any](t testing.TB, cfg *C, build func(*flow.Pipeline, *C) error, opts ...Option) error {
	t.Helper()
	prog, e, err := program(cfg, build, opts)
	if err != nil {
		return err
	}
	return finish(t.Context(), prog, e)
}

// program builds a job and how it is to run.
func program[C any](cfg *C, build func(*flow.Pipeline, *C) error, opts []Option) (*task.Program, launch.Embedding, error) {
	e := launch.Embedding{Name: "test", Settings: map[string]string{}, Slots: 2}
	p, err := flow.Build(e.Name, cfg, func(p *flow.Pipeline, cfg *C) error {
		for _, o := range opts {
			o.prepare(p, &e)
		}
		return build(p, cfg)
	})
	if err != nil {
		return nil, e, err
	}
	prog, err := p.Program()
	return prog, e, err
}

// finish runs a job until it has finished.
func finish(ctx context.Context, prog *task.Program, e launch.Embedding) error {
	job, err := launch.Embed(ctx, prog, e)
	if err != nil {
		return err
	}
	if job.Status != jobpb.JobStatus_JOB_FINISHED {
		return jobError(job)
	}
	return nil
}

// JobError is why a job did not finish.
type JobError struct {
	Status   string // FAILED or CANCELLED
	Code     string
	Message  string
	Operator string
	Position string // of the record in flight: file and line, number of the value, …
	Stack    string // of a panic
	Restarts int
	// Repeated is how many attempts have failed at this record; 0: once only, or not always at the same.
	Repeated int
}

func jobError(job *jobpb.Job) *JobError {
	f := job.Failure
	return &JobError{
		Status: strings.TrimPrefix(job.Status.String(), "JOB_"), Code: f.GetCode(), Message: f.GetMessage(),
		Operator: f.GetOperator(), Position: f.GetPosition(), Stack: f.GetStack(), Restarts: int(job.Restarts), Repeated: jobpb.SameRecord(job.Failures),
	}
}

func (e *JobError) Error() string {
	s := fmt.Sprintf("the job %s: %s %s: %s", strings.ToLower(e.Status), e.Code, e.Operator, e.Message)
	if e.Position != "" {
		s += " (" + e.Position + ")"
	}
	if e.Repeated > 0 {
		s += fmt.Sprintf(", at the same record on every attempt, %d times", e.Repeated)
	}
	return s
}
