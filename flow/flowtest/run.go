package flowtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/launch"
	"github.com/sluiceio/sluice/proto/jobpb"
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

// Source makes From(id, …) read these records, in one split. The options that the job gives to From hold.
func Source[T any](id string, records ...T) Option {
	return option(func(p *flow.Pipeline, _ *launch.Embedding) { p.ReplaceSource(id, flow.Values(records...)) })
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
	e := launch.Embedding{Name: "test", Settings: map[string]string{}, Slots: 2}
	p, err := flow.Build(e.Name, cfg, func(p *flow.Pipeline, cfg *C) error {
		for _, o := range opts {
			o.prepare(p, &e)
		}
		return build(p, cfg)
	})
	if err != nil {
		return err
	}
	prog, err := p.Program()
	if err != nil {
		return err
	}
	job, err := launch.Embed(t.Context(), prog, e)
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
}

func jobError(job *jobpb.Job) *JobError {
	f := job.Failure
	return &JobError{
		Status: strings.TrimPrefix(job.Status.String(), "JOB_"), Code: f.GetCode(), Message: f.GetMessage(),
		Operator: f.GetOperator(), Position: f.GetPosition(), Stack: f.GetStack(), Restarts: int(job.Restarts),
	}
}

func (e *JobError) Error() string {
	s := fmt.Sprintf("the job %s: %s %s: %s", strings.ToLower(e.Status), e.Code, e.Operator, e.Message)
	if e.Position != "" {
		s += " (" + e.Position + ")"
	}
	return s
}

// Deterministic builds the job repeatedly and fails the test at the first difference between two graphs.
func Deterministic[C any](t testing.TB, cfg *C, build func(*flow.Pipeline, *C) error) {
	t.Helper()
	graph := func() (*jobpb.Graph, []*jobpb.Diagnostic) {
		p, err := flow.Build("test", cfg, build)
		if err != nil {
			t.Fatal(err)
		}
		prog, err := p.Program()
		if err != nil {
			t.Fatal(err)
		}
		return prog.Graph, nil
	}
	first, _ := graph()
	if diags := launch.Deterministic(first, graph); len(diags) > 0 {
		t.Error(&flow.PlanError{Diagnostics: diags})
	}
}
