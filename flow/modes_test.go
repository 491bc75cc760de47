package flow_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/connector/file"
	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/launch"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task"
)

// call runs a mode of a job binary.
func call(job launch.Job, args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = launch.Run(job, args, launch.Streams{Out: &out, Err: &err})
	return code, out.String(), err.String()
}

func words() launch.Job { return flow.JobOf("words", buildWords) }

func TestWrongArgumentsEndWithCodeTwoAndSayTheFix(t *testing.T) {
	for args, want := range map[string]string{
		"--lins=x":                  "error E031: unknown parameter --lins\n  fix: did you mean --lines?",
		"plan --every=soon":         "error E032: --every=\"soon\": invalid duration \"soon\"\n  fix: --every wants a duration, as in 1m30s",
		"plam":                      "error E031: unknown verb \"plam\"\n  fix: did you mean plan?",
		"--sluice.paralelism=4":     "error E034",
		"vet --sluice.parallelism=": "error E036",
		"plan --token=hunter2":      "error E032: --token: not a reference to a secret",
		"stray":                     "error E031",
		"--json":                    "error E031: unknown parameter --json",
	} {
		code, stdout, stderr := call(words(), strings.Fields(args)...)
		if code != launch.ExitPlan || !strings.HasPrefix(stderr, want) || stdout != "" {
			t.Errorf("%s: exit %d, stdout %q, stderr:\n%s\nwant %q", args, code, stdout, stderr, want)
		}
	}
}

func TestHelpListsParametersAndSettings(t *testing.T) {
	for _, arg := range []string{"--help", "-h", "help", "plan --help"} {
		code, stdout, stderr := call(words(), strings.Fields(arg)...)
		if code != launch.ExitOK || stderr != "" {
			t.Errorf("%s: exit %d, stderr %q", arg, code, stderr)
		}
		for _, want := range []string{"--lines", "(default a b a,c)", "text to count", "--every", "--token", "--sluice.parallelism", "words plan"} {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s does not say %q:\n%s", arg, want, stdout)
			}
		}
	}
}

func TestVetAcceptsASoundJob(t *testing.T) {
	code, stdout, stderr := call(words(), "vet")
	if code != launch.ExitOK || !strings.HasPrefix(stdout, "words is sound: 4 operators, fingerprint ") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
}

func TestVetFindsPlansThatDependOnTheBuild(t *testing.T) {
	calls := 0
	for name, build := range map[string]func(p *flow.Pipeline, _ *flow.NoConfig) error{
		"an id": func(p *flow.Pipeline, _ *flow.NoConfig) error {
			p.Of("a", 1).Map(double).ID(fmt.Sprint("m", calls)).To("out", drop[int]())
			return nil
		},
		"an operator": func(p *flow.Pipeline, _ *flow.NoConfig) error {
			s := p.Of("a", 1)
			if calls%3 == 0 {
				s = s.Map(double)
			}
			s.To("out", drop[int]())
			return nil
		},
		"a setting": func(p *flow.Pipeline, _ *flow.NoConfig) error {
			p.MaxParallelism(100 + calls)
			p.Of("a", 1).To("out", drop[int]())
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			calls = 0
			counted := func(p *flow.Pipeline, c *flow.NoConfig) error {
				calls++
				return build(p, c)
			}
			code, _, stderr := call(flow.JobOf("unstable", counted), "vet")
			if code != launch.ExitPlan || !strings.HasPrefix(stderr, "error E030: two builds with the same parameters gave different plans") ||
				!strings.Contains(stderr, "fix: build must be a pure function") {
				t.Errorf("exit %d: %s", code, stderr)
			}
			if calls > launch.Builds {
				t.Errorf("%d builds", calls)
			}
		})
	}
}

func TestPanicsAndErrorsOfBuildArePlanErrors(t *testing.T) {
	for want, build := range map[string]func(*flow.Pipeline, *flow.NoConfig) error{
		"error E043: build panicked: boom\n  at flow/modes_test.go:": func(*flow.Pipeline, *flow.NoConfig) error { panic("boom") },
		"error E043: build panicked: runtime error: index out of range [1] with length 0\n  at flow/modes_test.go:": func(p *flow.Pipeline, _ *flow.NoConfig) error {
			var none []int
			_ = none[1+len(none)]
			return nil
		},
		"error E046: build returned an error: no input\n  at flow/modes_test.go:": func(*flow.Pipeline, *flow.NoConfig) error {
			return fmt.Errorf("no input")
		},
	} {
		code, _, stderr := call(flow.JobOf("broken", build), "plan")
		if code != launch.ExitPlan || !strings.HasPrefix(stderr, want) {
			t.Errorf("exit %d: %s\nwant %s", code, stderr, want)
		}
	}
}

func TestConfigurationsThatCannotBeParameters(t *testing.T) {
	type bad struct{ M map[string]string }
	code, _, stderr := call(flow.JobOf("bad", func(*flow.Pipeline, *bad) error { return nil }), "plan")
	if code != launch.ExitPlan || !strings.HasPrefix(stderr, "error E035: configuration field M has type map[string]string") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// slow is an endless source that says when it is read.
type slow struct {
	endless[int]
	reading chan<- struct{}
}

func (s slow) OpenEnumerator(context.Context, int, []byte) (flow.Enumerator, error) {
	return &timedSplits{n: 1}, nil
}
func (s slow) OpenReader(context.Context, *flow.Task) (flow.Reader[int], error) {
	return &slowReader{slow: s}, nil
}

type slowReader struct {
	timedReader
	slow slow
}

func (r *slowReader) Assign(splits []flow.Split) error {
	r.open = append(r.open, len(splits))
	return nil
}
func (r *slowReader) Poll(ctx context.Context, out *flow.Records[int]) error {
	if len(r.open) == 0 {
		return io.EOF
	}
	select {
	case r.slow.reading <- struct{}{}:
	default:
	}
	out.Add(0, 1, 0, 0)
	return nil
}

// lines is a sink that prints, as a command of Unix does.
type lines[T any] struct{ w io.Writer }

func (l lines[T]) Guarantee() flow.Guarantee { return flow.AtLeastOnce }
func (l lines[T]) OpenWriter(context.Context, *flow.Task, [][]byte) (flow.Writer[T], error) {
	return lineWriter[T]{w: l.w}, nil
}

type lineWriter[T any] struct {
	connector.NoCommit
	w io.Writer
}

func (l lineWriter[T]) Write(_ context.Context, v T, _ flow.Time) error {
	_, err := fmt.Fprintln(l.w, v)
	return err
}
func (lineWriter[T]) Flush(context.Context) error { return nil }
func (lineWriter[T]) End(context.Context) error   { return nil }
func (lineWriter[T]) Close() error                { return nil }

func TestAnEmbeddedRunLeavesStdoutToTheSinks(t *testing.T) {
	var sink bytes.Buffer
	job := flow.JobOf("print", func(p *flow.Pipeline, _ *flow.NoConfig) error {
		p.Of("in", 1, 2, 3).Map(double).To("out", lines[int]{&sink}).Parallelism(1)
		return nil
	})
	code, stdout, stderr := call(job, "--sluice.parallelism=1")
	if code != launch.ExitOK || stdout != "" || sink.String() != "2\n4\n6\n" || !strings.HasPrefix(stderr, "print finished in ") {
		t.Errorf("exit %d, stdout %q, sink %q, stderr %q", code, stdout, sink.String(), stderr)
	}
}

func TestAFailedRunPrintsTheRootCause(t *testing.T) {
	build := func(p *flow.Pipeline, _ *flow.NoConfig) error {
		p.Of("in", 1, 0).Map(func(v int) int { return 10 / v }).ID("divide").To("out", drop10[int]())
		return nil
	}
	code, _, stderr := call(flow.JobOf("broken", build))
	if code != launch.ExitFailed {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{"error E051: panic: runtime error: integer divide by zero", "operator: divide[", "record: ", "value 1", "stack:\n", "modes_test.go:", "attempt 1"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in\n%s", want, stderr)
		}
	}
	code, _, stderr = call(flow.JobOf("broken", build), "--sluice.restart=fixed(2,1ms)")
	if code != launch.ExitFailed || !strings.Contains(stderr, "attempt 3") || !strings.Contains(stderr, "restarts: 2") ||
		strings.Count(stderr, "job restarts") == 0 || strings.Contains(stderr, "attempt failed") {
		t.Errorf("exit %d:\n%s", code, stderr)
	}
}

func TestASecondRunIntoTheSameOutputFails(t *testing.T) {
	dir := t.TempDir()
	write := func(values ...int) launch.Job {
		return flow.JobOf("writes", func(p *flow.Pipeline, _ *flow.NoConfig) error {
			p.Of("in", values...).To("out", file.Text(dir, func(row []byte, v int) []byte { return strconv.AppendInt(row, int64(v), 10) }))
			return nil
		})
	}
	if code, _, stderr := call(write(1, 2)); code != launch.ExitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	code, _, stderr := call(write(3))
	if code != launch.ExitFailed || !strings.Contains(stderr, "error E054: open: output directory "+dir+" holds the output of an earlier run") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	kept, err := filepath.Glob(filepath.Join(dir, "part-*"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("files %q: %v", kept, err)
	}
	if rows, err := os.ReadFile(kept[0]); string(rows) != "1\n2\n" || err != nil {
		t.Errorf("%s holds %q: %v", kept[0], rows, err)
	}
}

// drop10 is a sink that takes everything.
func drop10[T any]() flow.Sink[T] { return lines[T]{io.Discard} }

func TestAnInterruptCancelsTheJobInOrder(t *testing.T) {
	reading, started, closed := make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	p, err := flow.Build("endless", &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
		p.From("in", slow{reading: reading}).
			Process(func() closes { return closes{started, closed} }).ID("closes").Parallelism(1).
			To("out", drop10[int]())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	prog, err := p.Program()
	if err != nil {
		t.Fatal(err)
	}
	interrupt := make(chan os.Signal, 1)
	g := run.NewGroup(t.Context(), "test")
	g.Go("interrupt", func(ctx context.Context) error {
		<-reading
		<-started // an operator that was never opened is not closed either
		interrupt <- os.Interrupt
		return nil
	})
	// Main has a context that never ends.
	job, err := launch.Embed(context.Background(), prog, launch.Embedding{Name: "endless", Cancel: interrupt})
	if err != nil || job.Status != jobpb.JobStatus_JOB_CANCELLED {
		t.Errorf("status %v, error %v", job.GetStatus(), err)
	}
	select {
	case <-closed:
	default:
		t.Error("the job has ended before its operators were closed")
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// closes says that it was started and closed.
type closes struct{ started, closed chan<- struct{} }

func (c closes) Open(s *flow.OpSetup[int]) error {
	s.OnStart(func(*flow.Task) error {
		c.started <- struct{}{}
		return nil
	})
	s.OnClose(func() error {
		c.closed <- struct{}{}
		return nil
	})
	return nil
}
func (closes) Process(c *flow.OpCtx[int], v int) error { c.Emit(v); return nil }

func TestTheEndOfTheContextCancelsTheJob(t *testing.T) {
	reading := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	p, err := flow.Build("endless", &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
		p.From("in", slow{reading: reading}).To("out", drop10[int]())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	prog, err := p.Program()
	if err != nil {
		t.Fatal(err)
	}
	g := run.NewGroup(t.Context(), "test")
	g.Go("cancel", func(context.Context) error {
		<-reading
		cancel()
		return nil
	})
	job, err := launch.Embed(ctx, prog, launch.Embedding{Name: "endless"})
	if err != nil || job.Status != jobpb.JobStatus_JOB_CANCELLED {
		t.Errorf("status %v, error %v", job.GetStatus(), err)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// stubborn is a job whose function does not return until release is closed.
func stubborn(t *testing.T, entered chan<- struct{}, release <-chan struct{}) *task.Program {
	t.Helper()
	p, err := flow.Build("stubborn", &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
		p.Of("in", 1).Map(func(v int) int {
			close(entered)
			<-release
			return v
		}).ID("block").To("out", drop10[int]())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	prog, err := p.Program()
	if err != nil {
		t.Fatal(err)
	}
	return prog
}

func TestASecondInterruptDoesNotWaitForUserCode(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	interrupt := make(chan os.Signal)
	g := run.NewGroup(t.Context(), "test")
	g.Go("interrupt", func(ctx context.Context) error {
		<-entered
		interrupt <- os.Interrupt
		interrupt <- os.Interrupt
		return nil
	})
	job, err := launch.Embed(t.Context(), stubborn(t, entered, release), launch.Embedding{Name: "stubborn", Cancel: interrupt})
	if err != nil || job.Status != jobpb.JobStatus_JOB_CANCELLED {
		t.Errorf("status %v, error %v", job.GetStatus(), err)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

func TestUserCodeThatDoesNotStopIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, release := make(chan struct{}), make(chan struct{})
		interrupt := make(chan os.Signal, 1)
		prog := stubborn(t, entered, release)
		g := run.NewGroup(t.Context(), "test")
		g.Go("interrupt", func(ctx context.Context) error {
			<-entered
			interrupt <- os.Interrupt
			return nil
		})
		job, err := launch.Embed(t.Context(), prog, launch.Embedding{Name: "stubborn", Cancel: interrupt})
		if err != nil || job.Status != jobpb.JobStatus_JOB_FAILED || job.Failure.Code != "E058" {
			t.Errorf("status %v, failure %v, error %v", job.GetStatus(), job.GetFailure(), err)
		}
		close(release)
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestManyMoreSubtasksThanCoresRun(t *testing.T) {
	p, err := flow.Build("wide", &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
		p.Of("in", 1, 2, 3).Rebalance().Map(double).Parallelism(40).KeyBy(self).Count().Parallelism(40).To("out", drop10[flow.KV[int, int64]]())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	prog, err := p.Program()
	if err != nil {
		t.Fatal(err)
	}
	job, err := launch.Embed(t.Context(), prog, launch.Embedding{Name: "wide", Slots: 2})
	if err != nil || job.Status != jobpb.JobStatus_JOB_FINISHED {
		t.Errorf("status %v, failure %v, error %v", job.GetStatus(), job.GetFailure(), err)
	}
}

// trickle is an endless source that has three records for now.
type trickle struct{ endless[int] }

func (trickle) OpenEnumerator(context.Context, int, []byte) (flow.Enumerator, error) {
	return &timedSplits{n: 1}, nil
}
func (trickle) OpenReader(context.Context, *flow.Task) (flow.Reader[int], error) {
	return &trickleReader{}, nil
}

type trickleReader struct {
	timedReader
	sent bool
}

func (r *trickleReader) Assign(splits []flow.Split) error {
	r.open = append(r.open, len(splits))
	return nil
}

func (r *trickleReader) Poll(ctx context.Context, out *flow.Records[int]) error {
	switch {
	case len(r.open) == 0:
		return io.EOF
	case r.sent:
		<-ctx.Done()
		return nil
	}
	r.sent = true
	for _, v := range []int{7, 7, 8} {
		out.Add(0, v, 0, 0)
	}
	return nil
}

// feed is a sink that hands every record to a test.
type feed[T any] struct{ to chan<- T }

func (f feed[T]) Guarantee() flow.Guarantee { return flow.AtLeastOnce }
func (f feed[T]) OpenWriter(context.Context, *flow.Task, [][]byte) (flow.Writer[T], error) {
	return feedWriter[T]{to: f.to}, nil
}

type feedWriter[T any] struct {
	lineWriter[T]
	to chan<- T
}

func (f feedWriter[T]) Write(_ context.Context, v T, _ flow.Time) error {
	f.to <- v
	return nil
}

func TestUnboundedAggregatesEmitEveryUpdateWithoutWaitingForMore(t *testing.T) {
	updates := make(chan flow.KV[int, int64], 3)
	ctx, cancel := context.WithCancel(t.Context())
	p, err := flow.Build("updates", &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
		p.From("in", trickle{}).KeyBy(self).Count().ID("count").To("out", feed[flow.KV[int, int64]]{updates})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	prog, err := p.Program()
	if err != nil {
		t.Fatal(err)
	}
	got := map[flow.KV[int, int64]]bool{}
	g := run.NewGroup(t.Context(), "test")
	g.Go("read", func(ctx context.Context) error {
		defer cancel()
		for range 3 {
			got[<-updates] = true
		}
		return nil
	})
	job, err := launch.Embed(ctx, prog, launch.Embedding{Name: "updates"})
	if err != nil || job.Status != jobpb.JobStatus_JOB_CANCELLED {
		t.Errorf("status %v, failure %v, error %v", job.GetStatus(), job.GetFailure(), err)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	for _, want := range []flow.KV[int, int64]{{Key: 7, Value: 1}, {Key: 7, Value: 2}, {Key: 8, Value: 1}} {
		if !got[want] {
			t.Errorf("no update %v in %v", want, got)
		}
	}
}
