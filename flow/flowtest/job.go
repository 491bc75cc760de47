package flowtest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceio/sluice/connector/manual"
	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/launch"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// JobTest is a running job whose sources are pushed, and whose sinks are read, by the test.
//
//	synctest.Test(t, func(t *testing.T) {
//		j := flowtest.Job(t, &Config{}, build)
//		j.Push("clicks", click, at)
//		j.Watermark("clicks", at)
//		j.Settle()
//		if got := j.Collect[Count]("counts"); …
//		j.Done()
//	})
//
// It lives in a bubble of testing/synctest, so that the clock of the job is that of the bubble: it stands still while the job
// works, and moves with Settle and Advance. Whatever fails in the job fails the test. It belongs to the goroutine of the test.
type JobTest struct {
	t     testing.TB
	hands *manual.Connectors
	group *run.Group
	ended chan struct{}
	job   *jobpb.Job // after ended
	err   error      // after ended
}

// Job starts a job. Every source and sink is in the hands of the test, but those that an option replaces. A source is bounded
// if the job's own is. The options that the job gives to From hold: they decide about event times, and about watermarks
// beside those of JobTest.Watermark.
func Job[C any](t testing.TB, cfg *C, build func(*flow.Pipeline, *C) error, opts ...Option) *JobTest {
	t.Helper()
	inBubble(t)
	j := &JobTest{t: t, hands: manual.New(), ended: make(chan struct{})}
	prog, e, err := program(cfg, build, append(opts, option(func(p *flow.Pipeline, _ *launch.Embedding) { p.ReplaceAll(j.hands) })))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	j.group = run.NewGroup(ctx, "job under test")
	j.group.Go("job", func(ctx context.Context) error {
		defer close(j.ended)
		j.job, j.err = launch.Embed(ctx, prog, e)
		return nil
	})
	t.Cleanup(func() {
		cancel()
		if err := j.group.Wait(); err != nil {
			t.Errorf("the job under test: %v", err)
		}
	})
	j.Settle()
	return j
}

// inBubble fails the test if the clock is the real one.
func inBubble(t testing.TB) {
	t.Helper()
	defer func() {
		if recover() != nil {
			t.Fatal("flowtest.Job needs a clock of its own: call it inside synctest.Test (package testing/synctest)")
		}
	}()
	synctest.Wait()
}

// tick is how long the clock goes on for what is at hand to pass through: readers rest for a millisecond, buffers are flushed
// after two.
const tick = 20 * time.Millisecond

// Settle lets the job do what there is to do, for 20 ms of its clock. What waits longer, a timer, a window by the clock, a
// service that takes its time, needs Advance.
func (j *JobTest) Settle() {
	j.t.Helper()
	j.Advance(tick)
}

// Advance lets the clock of the job go on by d, and the job do what there is to do until then.
func (j *JobTest) Advance(d time.Duration) {
	j.t.Helper()
	if err := j.TryAdvance(d); err != nil {
		j.t.Fatal(err)
	}
}

// TryAdvance is Advance for a job that may fail: the error is a *JobError then.
func (j *JobTest) TryAdvance(d time.Duration) error {
	<-time.NewTimer(d).C // of the bubble
	synctest.Wait()
	select {
	case <-j.ended:
		return j.outcome()
	default:
		return nil
	}
}

// outcome is how the job has ended.
func (j *JobTest) outcome() error {
	if j.err != nil {
		return j.err
	}
	if j.job.Status != jobpb.JobStatus_JOB_FINISHED {
		return jobError(j.job)
	}
	return nil
}

// Push hands a record to a source. An EventTime of the job's own wins over at.
func (j *JobTest) Push[T any](source string, v T, at flow.Time) {
	j.t.Helper()
	f, err := manual.FeedOf[T](j.hands, source)
	if err == nil {
		err = f.Push(v, at)
	}
	if err != nil {
		j.t.Fatal(err)
	}
}

// Watermark promises that no record of a source with a time at or below at follows.
func (j *JobTest) Watermark(source string, at flow.Time) {
	j.t.Helper()
	f, err := j.hands.Feeder(source)
	if err == nil {
		err = f.Watermark(at)
	}
	if err != nil {
		j.t.Fatal(err)
	}
}

// End ends a source. A job ends when all of them have.
func (j *JobTest) End(source string) {
	j.t.Helper()
	f, err := j.hands.Feeder(source)
	if err != nil {
		j.t.Fatal(err)
	}
	f.End()
}

// Collect is what was written to a sink since the last call: each subtask's records in the order of writing. An attempt that
// begins anew writes again.
func (j *JobTest) Collect[T any](sink string) []T {
	j.t.Helper()
	b, err := manual.BasinOf[T](j.hands, sink)
	if err != nil {
		j.t.Fatal(err)
	}
	return b.Take()
}

// patience is how long Done lets the clock go on: as long as a service in the job may take.
const patience = time.Hour

var errRuns = errors.New("the job goes on although all its sources have ended")

// Done ends all sources and waits until the job has finished.
func (j *JobTest) Done() {
	j.t.Helper()
	for _, f := range j.hands.Feeders() {
		f.End()
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-j.ended:
	case <-limit.C:
		j.t.Fatal(errRuns)
	}
	if err := j.outcome(); err != nil {
		j.t.Fatal(err)
	}
}
