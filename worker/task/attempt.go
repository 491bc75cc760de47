package task

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/task/chain"
	"github.com/sluiceio/sluice/worker/task/commit"
	"github.com/sluiceio/sluice/worker/task/fault"
	"github.com/sluiceio/sluice/worker/task/layout"
	"github.com/sluiceio/sluice/worker/task/mail"
	"github.com/sluiceio/sluice/worker/task/source"
)

// subtaskID is one parallel instance of a chain.
type subtaskID struct{ chain, index int32 }

// attempt is one try to run a subtask.
type attempt struct {
	proc      *Process
	layout    *layout.Layout
	sub       *taskpb.SubtaskDeployment
	jobEpoch  uint64
	locations map[subtaskID]*taskpb.Location
	terms     terms
	older     []*attempt // attempts that this one supersedes: it starts when they have ended
	mail      *mail.Box
	meter     *meter
	opened    atomic.Bool   // its sources may emit: OpenGate has come, or nobody waits for it
	done      chan struct{} // closed when it has ended and reported

	// Guarded by Process.mu.
	cancel context.CancelCauseFunc // nil before run
	cause  error                   // why it has to stop; nil: it has not
	last   *taskpb.SubtaskUpdate   // its last report; nil: it has not ended

	// Owned by the goroutine of the subtask until that has ended.
	announced    bool // RUNNING was reported
	produced     bool // consumers have something to read
	loaded       bool // the inputs in front of the gates have ended
	finishing    bool // the input has ended, and a checkpoint has to contain that
	finished     bool
	restoring    *restoreSource           // that it starts from; nil: none, or it has
	from         *snapshotpb.SubtaskState // what that has of this subtask; nil: nothing
	reload       bool                     // what stands in front of its gates is loaded anew
	exited       error                    // user code has ended the goroutine
	committables []*jobpb.Committable
	partitions   []*jobpb.Partition
}

// Reasons to stop an attempt.
var (
	errCancelled  = errors.New("cancelled")
	errSuperseded = errors.New("superseded by a newer attempt")
)

func (a *attempt) index() int         { return int(a.sub.Index) }
func (a *attempt) plan() *jobpb.Chain { return a.layout.Plan.Chains[a.sub.Chain] }
func (a *attempt) name() string {
	return fmt.Sprintf("%s[%d]#%d", a.plan().Name, a.sub.Index, a.sub.Attempt)
}

// run is the life of the attempt, from waiting for the ones before it to its last report. It always returns nil: a
// failure is reported, and does not end the other attempts of the process.
func (a *attempt) run(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	a.proc.begin(a, cancel)
	for _, o := range a.older {
		// Also when this attempt is cancelled meanwhile: a third one may wait for this one and must not meet the first.
		<-o.done
	}
	a.older = nil
	var err error
	if ctx.Err() == nil {
		err = a.own(a.work(ctx))
	}
	a.proc.restored(a)
	a.proc.end(a, err)
	close(a.done)
	return nil
}

// own is the failure of an attempt itself. When a region stops, its attempts hear of it one after the other, and the end of one is
// the loss of a channel to the next, that would have heard of it a moment later.
func (a *attempt) own(err error) error {
	if err == nil || fault.Of(err, fault.CodeUser, "").Code != fault.CodePeer {
		return err
	}
	a.proc.mu.Lock()
	defer a.proc.mu.Unlock()
	if a.cause != nil {
		return nil
	}
	return err
}

// work runs the loop of the subtask and its enumerators, and waits for both.
func (a *attempt) work(ctx context.Context) error {
	g := run.NewGroup(ctx, a.name())
	g.Go("loop", func(ctx context.Context) error {
		if err := a.subtask(ctx); err != nil {
			return err
		}
		g.Stop() // nobody asks the enumerators any more
		return nil
	})
	for _, op := range a.sub.Enumerate {
		g.Go("enumerate", func(ctx context.Context) error { return a.enumerate(ctx, op) })
	}
	ended := make(chan struct{})
	watch := run.NewGroup(context.WithoutCancel(ctx), a.name())
	watch.Go("watch", func(context.Context) error {
		a.watch(g.Context(), ended)
		return nil
	})
	err := g.Wait()
	close(ended)
	return errors.Join(cmp.Or(a.exited, err), watch.Wait())
}

// enumerate discovers the splits of source op.
func (a *attempt) enumerate(ctx context.Context, op int32) error {
	d := source.Discovery{
		From: a.enumerated(op).GetState(), Known: int(a.enumerated(op).GetOffset()),
		Source: a.proc.cfg.Program.Nodes[op].Source, Operator: a.layout.ID(op), Parallelism: int(a.plan().Parallelism),
		Report: func(m *taskpb.SplitsDiscovered) {
			m.Operator, m.Region, m.RegionEpoch = op, a.sub.Region, a.sub.RegionEpoch
			a.proc.cfg.Host.SplitsDiscovered(m)
		},
		Warn: a.quietly,
	}
	return d.Run(ctx)
}

// enumerated is where the discovery of source op goes on; nil: it begins.
func (a *attempt) enumerated(op int32) *taskpb.EnumeratorState {
	for _, e := range a.sub.Enumerators {
		if e.Operator == op {
			return e
		}
	}
	return nil
}

// requestSplits asks the coordinator for splits of source op, through the host.
func (a *attempt) requestSplits(op int32) func(source.Request) {
	return func(r source.Request) {
		a.proc.cfg.Host.RequestSplits(&taskpb.SplitRequest{
			Operator: op, Chain: a.sub.Chain, Index: a.sub.Index, Attempt: a.sub.Attempt,
			Region: a.sub.Region, RegionEpoch: a.sub.RegionEpoch, Have: int32(r.Have), Read: int32(r.Read),
		})
	}
}

// watch reports an attempt that does not stop when it has to. Nothing in this process can end it: the host ends the
// process.
func (a *attempt) watch(ctx context.Context, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	t := time.NewTimer(a.proc.cfg.StopTimeout)
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
		f := a.failure(&fault.Fault{
			Kind: jobpb.FailureKind_FAILURE_USER, Code: fault.CodeStuck, Stack: a.stackOf(),
			Err: fmt.Errorf("%s did not return within %v after it was told to stop (%w)", a.name(), a.proc.cfg.StopTimeout, context.Cause(ctx)),
		})
		a.proc.log.Error("attempt does not stop", "task", a.name(), "attempt", a.sub.Attempt)
		a.proc.cfg.Host.Failed(f)
	}
}

// subtask runs on the goroutine that owns the subtask.
func (a *attempt) subtask(ctx context.Context) (err error) {
	a.proc.tag(a, goroutineHeader())
	if err := a.started(ctx); err != nil {
		return err
	}
	for _, op := range a.plan().Operators {
		if open := a.proc.cfg.Program.Nodes[op].Committer; open != nil {
			id := a.layout.ID(op)
			keep, err := a.kept(ctx, id)
			if err != nil {
				return err
			}
			if err := commit.AbortLeftovers(ctx, open, a.task(id, a.logger().With("operator", id)), keep); err != nil {
				return err
			}
		}
	}
	w := &wiring{attempt: a, ctx: ctx, cur: chain.NewCursor(), log: a.logger(), mail: a.mail}
	parts, err := w.wire()
	if err != nil {
		return err
	}
	a.meter.outlets = parts.chain.Outlets()
	a.meter.declare(w.cur.Counts())
	l := newLoop(ctx, parts, a.mail, a.meter, a.terms.timeout)
	l.announce, l.attempt = a.announce, a
	err = run.ErrExited // stands if user code ends the goroutine: what is open has to be closed then, too
	defer func() { err = a.shut(l, err) }()
	if a.sub.Checkpointed {
		parts.head.OnAligned(l.freeze)
	}
	if a.sub.Restore > 0 {
		if err := l.protected(l.restore); err != nil {
			return err
		}
		a.proc.restored(a)
	}
	a.announce()
	return l.run()
}

// shut closes what the subtask has open. err is how its loop has ended.
func (a *attempt) shut(l *loop, err error) error {
	a.exited = l.exited
	parts := l.wired
	if err == nil {
		if !a.sub.Checkpointed { // else a completed checkpoint has them
			a.committables = parts.chain.Committables()
		}
		err = parts.chain.CloseOutlets(nil)
		a.partitions = parts.chain.Partitions()
		a.finished = err == nil
	} else {
		a.quietly("close edges", parts.chain.CloseOutlets(err))
	}
	a.quietly("close inputs", parts.head.Close(err))
	a.quietly("close operators", parts.chain.CloseOperators())
	l.meter.publish(l)
	return err
}

// announce reports that the attempt runs, and how far it has come.
func (a *attempt) announce() {
	a.announced = true
	state := jobpb.SubtaskState_SUBTASK_RUNNING
	if a.finishing {
		state = jobpb.SubtaskState_SUBTASK_FINISHING
	}
	a.proc.report(a, &taskpb.SubtaskUpdate{State: state, Produced: a.produced, Loaded: a.loaded})
}

// hasProduced reports, once, that consumers have something to read.
func (a *attempt) hasProduced() {
	if !a.produced {
		a.produced = true
		a.announce()
	}
}

// hasLoaded reports that the inputs in front of the gates have ended. Called at most once, perhaps before the attempt was
// announced.
func (a *attempt) hasLoaded() {
	a.loaded = true
	if a.announced {
		a.announce()
	}
}

// gateOfSource tells whether the sources of the attempt may emit; nil: they always may.
func (a *attempt) gateOfSource() func() bool {
	if !a.sub.Gated {
		return nil
	}
	return a.opened.Load
}

// quietly logs an error of closing: what happened before it decides about the attempt.
func (a *attempt) quietly(step string, err error) {
	if err != nil {
		a.proc.log.Warn("closing failed", "step", step, "task", a.name(), "attempt", a.sub.Attempt, "error", err)
	}
}

// outcome is the last report, after work has returned err.
func (a *attempt) outcome(err error) *taskpb.SubtaskUpdate {
	switch {
	case err != nil:
		return &taskpb.SubtaskUpdate{State: jobpb.SubtaskState_SUBTASK_FAILED, Failure: a.failure(fault.Of(err, fault.CodeUser, ""))}
	case a.finished:
		return &taskpb.SubtaskUpdate{State: jobpb.SubtaskState_SUBTASK_FINISHED, Committables: a.committables, Partitions: a.partitions}
	}
	return &taskpb.SubtaskUpdate{State: jobpb.SubtaskState_SUBTASK_CANCELLED}
}

// failure is f with the identity of this attempt.
func (a *attempt) failure(f *fault.Fault) *jobpb.Failure {
	m := Failure(f)
	m.Chain, m.Index, m.Attempt, m.Worker = a.sub.Chain, a.sub.Index, a.sub.Attempt, a.proc.cfg.Worker
	return m
}

func (a *attempt) logger() *slog.Logger {
	return slog.New(newLogHandler(a.proc.cfg.Log)).With("task", a.name(), "attempt", a.sub.Attempt)
}

// goroutineHeader is how a dump of all stacks names the calling goroutine: "goroutine 42 [".
func goroutineHeader() string {
	var buf [64]byte
	head, _, _ := strings.Cut(string(buf[:runtime.Stack(buf[:], false)]), "[")
	return head + "["
}

// stackOf is where the goroutine of the subtask stands now.
func (a *attempt) stackOf() string {
	const enough = 4 << 20
	header := a.proc.tagOf(a)
	if header == "" {
		return ""
	}
	buf := make([]byte, enough)
	for block := range bytes.SplitSeq(buf[:runtime.Stack(buf, true)], []byte("\n\n")) {
		if bytes.HasPrefix(block, []byte(header)) {
			return string(block)
		}
	}
	return ""
}
