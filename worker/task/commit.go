package task

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// errRetryLater is a sink that asked for another try.
var errRetryLater = errors.New("the sink asked for another try later")

// Commit makes prepared sink output visible, or removes it (Commit.Abort). The caller sends it again until it is
// confirmed, here or to another process, so a repeated call does no harm. It blocks until done or until ctx ends, and
// runs one call at a time. A result without failure and retry means: all of it is committed, or removed.
func (p *Process) Commit(ctx context.Context, c *taskpb.Commit) *taskpb.CommitResult {
	r := &taskpb.CommitResult{Job: c.Job, JobEpoch: c.JobEpoch, Process: c.Process, Checkpoint: c.Checkpoint}
	err := c.Validate()
	if err == nil && c.Job != p.cfg.Job {
		err = fmt.Errorf("commit for job %s, this is %s", c.Job, p.cfg.Job)
	}
	if err != nil {
		r.Failure = Failure(fatal(CodeDeploy, "%w", err))
		return r
	}
	select {
	case p.committing <- struct{}{}:
		defer func() { <-p.committing }()
	case <-ctx.Done():
		r.Retry = true
		return r
	}
	err = p.commitAll(ctx, c)
	if err == nil {
		return r
	}
	r.Retry = !errors.Is(err, errLost)
	if !errors.Is(err, errRetryLater) && ctx.Err() == nil {
		f := Failure(err)
		f.Worker = p.cfg.Worker
		r.Failure = f
	}
	return r
}

// errLost is output that can never be committed.
var errLost = errors.New("the sink cannot commit what it had prepared")

// commitAll goes on after a sink has failed: the others' output is no worse for it.
func (p *Process) commitAll(ctx context.Context, c *taskpb.Commit) error {
	var errs []error
	for _, g := range bySink(c.Committables) {
		if err := p.commitSink(ctx, c, g); err != nil {
			errs = append(errs, err)
		}
	}
	// Lost output counts before everything that a retry may cure.
	for _, err := range errs {
		if errors.Is(err, errLost) {
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

// sinkOutput is what one sink has to commit, in order.
type sinkOutput struct {
	sink string
	cs   []connector.Committable
}

func bySink(cs []*jobpb.Committable) []sinkOutput {
	var out []sinkOutput
	at := map[string]int{}
	for _, c := range cs {
		i, ok := at[c.Sink]
		if !ok {
			i = len(out)
			at[c.Sink] = i
			out = append(out, sinkOutput{sink: c.Sink})
		}
		out[i].cs = append(out[i].cs, connector.Committable{
			Subtask: int(c.Subtask), Checkpoint: element.CheckpointID(c.Checkpoint), N: int(c.N), Data: c.Data,
		})
	}
	return out
}

func (p *Process) commitSink(ctx context.Context, c *taskpb.Commit, g sinkOutput) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v, g.sink, "while output was committed")
		}
	}()
	open := p.committer(g.sink)
	if open == nil {
		return &Fault{Kind: jobpb.FailureKind_FAILURE_FATAL, Code: CodeLost, Operator: g.sink, Err: fmt.Errorf("%w: no such committing sink in this binary", errLost)}
	}
	k, err := open(ctx, &connector.Task{Job: c.Job, Operator: g.sink, JobEpoch: c.JobEpoch, Log: p.slog().With("operator", g.sink)})
	if err != nil {
		return fault(fmt.Errorf("open committer: %w", err), CodeCommit, g.sink)
	}
	defer func() {
		if cerr := k.Close(); cerr != nil {
			p.log.Warn("closing failed", "step", "close committer", "operator", g.sink, "error", cerr)
		}
	}()
	if c.Abort {
		if err := k.Abort(ctx, g.cs); err != nil {
			return fault(fmt.Errorf("abort: %w", err), CodeCommit, g.sink)
		}
		return nil
	}
	results, err := k.Commit(ctx, g.cs)
	if err != nil {
		return fault(fmt.Errorf("commit: %w", err), CodeCommit, g.sink)
	}
	return judge(g, results)
}

// judge looks for what is not committed.
func judge(g sinkOutput, results []connector.CommitResult) error {
	if len(results) != len(g.cs) {
		return fault(fmt.Errorf("commit: %d results for %d committables", len(results), len(g.cs)), CodeCommit, g.sink)
	}
	var later error
	for i, r := range results {
		switch r {
		case connector.Committed, connector.AlreadyCommitted:
		case connector.RetryLater:
			later = errRetryLater
		default:
			return &Fault{
				Kind: jobpb.FailureKind_FAILURE_FATAL, Code: CodeLost, Operator: g.sink,
				Position: fmt.Sprintf("subtask %d, checkpoint %d, number %d", g.cs[i].Subtask, g.cs[i].Checkpoint, g.cs[i].N),
				Err:      errLost,
			}
		}
	}
	return later
}

// committer opens a committer of a sink; nil: there is no such committing sink.
func (p *Process) committer(sink string) func(context.Context, *connector.Task) (connector.Committer, error) {
	for i, o := range p.cfg.Program.Graph.Operators {
		if o.Id == sink {
			return p.cfg.Program.Nodes[i].Committer
		}
	}
	return nil
}

// abortLeftovers removes what earlier attempts of this subtask prepared and nobody will commit. The committer gets the
// task of this attempt: only output of its own subtask index and of lower epochs is a leftover, because subtasks of
// other regions may have finished under their own epoch, and their output waits to be committed.
func (a *attempt) abortLeftovers(ctx context.Context) error {
	for _, op := range a.plan().Operators {
		open := a.topo.prog.Nodes[op].Committer
		if open == nil {
			continue
		}
		if err := a.abortUnknown(ctx, op, open); err != nil {
			return err
		}
	}
	return nil
}

func (a *attempt) abortUnknown(ctx context.Context, op int32, open func(context.Context, *connector.Task) (connector.Committer, error)) (err error) {
	id := a.topo.prog.Graph.Operators[op].Id
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v, id, "while leftovers were removed")
		}
	}()
	k, err := open(ctx, a.task(id, a.logger().With("operator", id)))
	if err != nil {
		return fault(fmt.Errorf("open committer: %w", err), CodeSink, id)
	}
	err = k.AbortUnknown(ctx, nil)
	if cerr := k.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fault(fmt.Errorf("remove leftovers: %w", err), CodeSink, id)
	}
	return nil
}
