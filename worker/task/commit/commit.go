package commit

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/task/fault"
)

// Opener opens a committer of one sink.
type Opener func(ctx context.Context, t *connector.Task) (connector.Committer, error)

// Sinks finds the committing sinks of a job.
type Sinks interface {
	// Committer is the Opener of the sink with this id, and the task that it is opened with; nil: there is no such
	// committing sink.
	Committer(sink string) (Opener, *connector.Task)
}

var (
	// errRetryLater is a sink that asked for another try.
	errRetryLater = errors.New("the sink asked for another try later")
	// errLost is output that can never be committed.
	errLost = errors.New("the sink cannot commit what it had prepared")
)

// Run commits or aborts what m names, which is valid. A result without failure and retry means that all of it is done.
func Run(ctx context.Context, m *taskpb.Commit, sinks Sinks) *taskpb.CommitResult {
	r := &taskpb.CommitResult{Job: m.Job, JobEpoch: m.JobEpoch, Process: m.Process, Checkpoint: m.Checkpoint}
	err := all(ctx, m, sinks)
	if err == nil {
		return r
	}
	r.Retry = !hopeless(err)
	if !errors.Is(err, errRetryLater) && ctx.Err() == nil {
		r.Failure = fault.Failure(err)
	}
	return r
}

// all goes on after a sink has failed: the others' output is no worse for it.
func all(ctx context.Context, m *taskpb.Commit, sinks Sinks) error {
	var errs []error
	for _, g := range bySink(m.Committables) {
		if err := g.run(ctx, m, sinks); err != nil {
			errs = append(errs, err)
		}
	}
	// What is hopeless counts before everything that a retry may cure.
	for _, err := range errs {
		if hopeless(err) {
			return err
		}
	}
	for _, err := range errs {
		if !errors.Is(err, errRetryLater) {
			return err
		}
	}
	return errors.Join(errs...)
}

// hopeless reports whether trying again cannot cure err: output is lost, or the sink says so of its error.
func hopeless(err error) bool { return errors.Is(err, errLost) || connector.IsFatal(err) }

// output is what one sink has to commit, in order.
type output struct {
	sink string
	cs   []connector.Committable
}

func bySink(cs []*jobpb.Committable) []output {
	var out []output
	at := map[string]int{}
	for _, c := range cs {
		i, ok := at[c.Sink]
		if !ok {
			i = len(out)
			at[c.Sink] = i
			out = append(out, output{sink: c.Sink})
		}
		out[i].cs = append(out[i].cs, connector.Committable{
			Subtask: int(c.Subtask), Checkpoint: element.CheckpointID(c.Checkpoint), N: int(c.N), Data: c.Data,
		})
	}
	return out
}

func (g *output) run(ctx context.Context, m *taskpb.Commit, sinks Sinks) error {
	open, t := sinks.Committer(g.sink)
	if open == nil {
		return &fault.Fault{
			Kind: jobpb.FailureKind_FAILURE_FATAL, Code: fault.CodeLost, Operator: g.sink,
			Err: fmt.Errorf("%w: no such committing sink in this binary", errLost),
		}
	}
	err := with(ctx, open, t, fault.CodeCommit, func(k connector.Committer) error {
		if m.Abort {
			if err := k.Abort(ctx, g.cs); err != nil {
				return fmt.Errorf("abort: %w", err)
			}
			return nil
		}
		results, err := k.Commit(ctx, g.cs)
		if err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		return g.judge(results)
	})
	if f, ok := errors.AsType[*fault.Fault](err); ok && f.Code == fault.CodeCommit && hopeless(err) {
		f.Code = fault.CodeLost
	}
	return err
}

// judge looks for what is not committed.
func (g *output) judge(results []connector.CommitResult) error {
	if len(results) != len(g.cs) {
		return fmt.Errorf("commit: %d results for %d committables", len(results), len(g.cs))
	}
	var later error
	for i, r := range results {
		switch r {
		case connector.Committed, connector.AlreadyCommitted:
		case connector.RetryLater:
			later = errRetryLater
		default:
			return &fault.Fault{
				Kind: jobpb.FailureKind_FAILURE_FATAL, Code: fault.CodeLost, Operator: g.sink,
				Position: fmt.Sprintf("subtask %d, checkpoint %d, number %d", g.cs[i].Subtask, g.cs[i].Checkpoint, g.cs[i].N),
				Err:      errLost,
			}
		}
	}
	return later
}

// AbortLeftovers removes what earlier attempts of a subtask prepared and nobody will commit: all but keep. t is the task of the
// starting attempt: only output of its own subtask index and of lower epochs is a leftover, because subtasks of other
// regions may have finished under an epoch of their own, and their output waits to be committed.
func AbortLeftovers(ctx context.Context, open Opener, t *connector.Task, keep []connector.Committable) error {
	return with(ctx, open, t, fault.CodeSink, func(k connector.Committer) error {
		if err := k.AbortUnknown(ctx, keep); err != nil {
			return fmt.Errorf("remove leftovers: %w", err)
		}
		return nil
	})
}

// with opens a committer, calls f and closes it. A panic of the committer is an error of its sink.
func with(ctx context.Context, open Opener, t *connector.Task, code string, f func(connector.Committer) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fault.Panicked(v, t.Operator, "in the committer")
		}
	}()
	k, err := open(ctx, t)
	if err != nil {
		return fault.Of(fmt.Errorf("open committer: %w", err), code, t.Operator)
	}
	defer func() {
		if cerr := k.Close(); cerr != nil && err == nil {
			err = fault.Of(fmt.Errorf("close committer: %w", cerr), code, t.Operator)
		}
	}()
	if err := f(k); err != nil {
		return fault.Of(err, code, t.Operator)
	}
	return nil
}
