package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sluiceio/sluice/internal/failpoint"
	"github.com/sluiceio/sluice/internal/pipe"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/artifact"
	"github.com/sluiceio/sluice/worker/logfile"
	"github.com/sluiceio/sluice/worker/spawn"
)

// inboxSize bounds the messages that wait for a task process. The leader repeats what is not answered, so one that
// does not fit is dropped.
const inboxSize = 256

// drainLimit is how long the link of a dead process is read for what it has still said.
const drainLimit = 2 * time.Second

// taskProcess supervises one task process from its first deployment to its last report.
type taskProcess struct {
	agent  *agent
	key    processKey
	spec   *jobpb.JobSpec
	memory int64
	slots  int32
	log    hclog.Logger
	inbox  chan *taskpb.AgentMessage
	// stopping is closed when the process has to end, over when it has and its end is in the outbox.
	stopping, over chan struct{}

	mu struct {
		sync.Mutex
		facts
		order   order          // the first one stands
		failure *jobpb.Failure // the first one stands
		silent  *jobpb.Failure
		killed  bool
	}
}

func newTaskProcess(a *agent, d *taskpb.Deployment) *taskProcess {
	key := processKey{job: d.Job, number: d.Process}
	p := &taskProcess{
		agent: a, key: key, spec: d.Spec, memory: d.ProcessMemory, slots: max(d.Slots, 1),
		log:   a.log.Named("process").With("job", key.job, "process", key.number),
		inbox: make(chan *taskpb.AgentMessage, inboxSize), stopping: make(chan struct{}), over: make(chan struct{}),
	}
	if p.memory <= 0 {
		p.memory = a.cfg.slotMemory() * int64(p.slots)
	}
	p.mu.attempts = map[subtaskKey]attempt{}
	return p
}

// ---------------------------------------------------------------- what the session asks

// deploy notes a deployment and passes it on.
func (p *taskProcess) deploy(d *taskpb.Deployment) {
	p.mu.Lock()
	over := p.mu.phase == phaseEnded
	fresh := !over && p.mu.deployed(d)
	epoch := p.mu.jobEpoch
	p.mu.Unlock()
	if over {
		return // the report of its end answers
	}
	if !fresh {
		p.log.Warn("deployment of an older epoch refused", "epoch", d.JobEpoch, "known", epoch)
		return
	}
	if d.ProcessMemory <= 0 {
		d.ProcessMemory = p.memory
	}
	p.post(&taskpb.AgentMessage{Message: &taskpb.AgentMessage_Deploy{Deploy: d}})
}

// cancel passes a cancellation on unless it is of an older epoch than what runs here.
func (p *taskProcess) cancel(c *taskpb.Cancel) {
	p.mu.Lock()
	stale := c.JobEpoch < p.mu.jobEpoch
	p.mu.Unlock()
	if !stale {
		p.post(&taskpb.AgentMessage{Message: &taskpb.AgentMessage_Cancel{Cancel: c}})
	}
}

// post queues a message for the process, in order. It does not block.
func (p *taskProcess) post(m *taskpb.AgentMessage) {
	select {
	case p.inbox <- m:
	default:
		p.log.Warn("message for a task process that does not read was dropped", "kind", fmt.Sprintf("%T", m.Message))
	}
}

// stop asks the process to end. Only the first order counts.
func (p *taskProcess) stop(o order) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.order.reason != "" || p.mu.phase == phaseEnded {
		return
	}
	p.mu.order = o
	if p.mu.phase < phaseEnding {
		p.mu.phase = phaseEnding
	}
	close(p.stopping)
}

func (p *taskProcess) inventory() *controlpb.ProcessInventory {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.inventory(p.key)
}

// acknowledged reports whether the process's end is committed, so that it can be forgotten.
func (p *taskProcess) acknowledged(sequence uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.facts.acknowledged(sequence)
	return p.mu.exitReport > 0 && p.mu.exitReport <= sequence
}

func (p *taskProcess) route(preface pipe.Preface) (pipe.Answer, *pipe.Sender) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.route(preface)
}

func (p *taskProcess) sample() *taskpb.Sample {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.sample
}

// fail notes what is wrong with the process; the first fault stands. After an order to end there is none: whatever
// happens then is its consequence.
func (p *taskProcess) fail(f *jobpb.Failure) {
	f = f.Bounded()
	f.Worker = p.agent.id.ID
	if f.Kind == jobpb.FailureKind_FAILURE_UNSPECIFIED {
		f.Kind = jobpb.FailureKind_FAILURE_USER
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.failure == nil && p.mu.order.reason == "" {
		p.mu.failure = f
	}
}

// ---------------------------------------------------------------- the supervisor

// run is the whole life of the process. What goes wrong with it is a report, never an error of the worker.
func (p *taskProcess) run(ctx context.Context) error {
	defer close(p.over)
	e := p.live(ctx)
	p.mu.Lock()
	p.mu.phase, p.mu.conns, p.mu.sample = phaseEnded, nil, nil
	e.order, e.failure, e.silent, e.killed = p.mu.order, p.mu.failure, p.mu.silent, p.mu.killed
	epoch, unfinished := p.mu.jobEpoch, p.mu.unfinished(p.key.job)
	p.mu.Unlock()
	p.agent.results.Abandon(unfinished)
	x := e.report()
	if x.Failure != nil {
		x.Failure.Worker = p.agent.id.ID
	}
	p.log.Info("task process ended", "code", x.Code, "signal", x.Signal, "reason", x.Reason, "kind", x.Kind)
	p.agent.counters.exits.note(x.Kind)
	if err := failpoint.Hit(ctx, "worker.exit"); err != nil {
		p.log.Warn("end of a task process held up", "error", err)
	}
	last := &controlpb.Report{Job: p.key.job, JobEpoch: epoch, Process: p.key.number, Fact: &controlpb.Report_Exit{Exit: x}}
	// It fails only when the worker ends; its successor reports that nothing runs.
	_ = p.agent.outbox.Add(ctx, last, func(sequence uint64) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.mu.exitReport = sequence
	})
	return nil
}

// live fetches, starts and attends the process, until it is no more.
func (p *taskProcess) live(ctx context.Context) ending {
	starting, cancel := context.WithCancel(ctx)
	defer cancel()
	g := run.NewGroup(ctx, "process "+p.key.job)
	defer func() { _ = g.Wait() }() // its tasks return no error
	defer g.Stop()
	g.Go("abandon", func(ctx context.Context) error {
		select {
		case <-p.stopping:
			cancel()
		case <-ctx.Done():
		}
		return nil
	})
	binary, err := p.agent.acquire(starting, p.spec.Artifact)
	if err != nil {
		p.fail(startFailure(codeNoArtifact, err))
		return ending{}
	}
	defer binary.Release()
	return p.execute(ctx, starting, binary)
}

func startFailure(code string, err error) *jobpb.Failure {
	return &jobpb.Failure{Code: code, Message: err.Error(), Kind: jobpb.FailureKind_FAILURE_LOSS}
}

// execute starts the process and attends it.
func (p *taskProcess) execute(ctx, starting context.Context, binary *artifact.Handle) ending {
	output, err := p.agent.archive.open(p.key)
	if err != nil {
		p.fail(startFailure(codeNoStart, err))
		return ending{}
	}
	defer output.close()
	if err := failpoint.Hit(starting, "worker.start"); err != nil {
		p.fail(startFailure(codeNoStart, err))
		return ending{}
	}
	stderr := &logfile.Tail{}
	child, err := p.agent.starter.Start(starting, spawn.Spec{
		Binary: binary.Path(), Dir: output.dir, Job: p.key.job, Process: p.key.number,
		Worker: p.agent.id.ID, Results: p.agent.results.Dir(), Snapshots: p.agent.snapshots(), Policy: p.agent.cfg.Policy, MemoryBytes: p.memory, Procs: p.agent.procs(p.slots),
		Stdout: output.writer, Stderr: io.MultiWriter(output.writer, stderr),
	})
	if err != nil {
		p.fail(execFailure(err))
		return ending{}
	}
	p.log.Info("task process started", "pid", child.Pid())
	exit := p.attend(ctx, child)
	e := ending{exit: exit, oom: p.agent.oom.Happened()}
	e.stderr, e.crash = stderr.Text()
	return e
}

// procs is the number of threads that run Go code in a process with so many slots: its share of the machine, and at
// least two so that the network and the collector get a turn.
func (a *agent) procs(slots int32) int {
	cpus := runtime.NumCPU()
	share := (cpus*int(slots) + a.cfg.Slots - 1) / a.cfg.Slots
	return min(max(share, 2), cpus)
}

// attend talks to the process until it has ended and everything that it said has been heard.
func (p *taskProcess) attend(ctx context.Context, child *spawn.Child) spawn.Exit {
	heard := make(chan struct{}) // closed when nothing more comes over the link
	ready := make(chan struct{}) // closed at Hello
	g := run.NewGroup(ctx, "link")
	g.Go("receive", func(ctx context.Context) error {
		defer close(heard)
		p.receive(ctx, child, ready)
		return nil
	})
	g.Go("send", func(ctx context.Context) error {
		p.send(ctx, child, ready)
		return nil
	})
	g.Go("end", func(ctx context.Context) error {
		p.enforce(ctx, child, heard)
		return nil
	})
	exit, err := child.Wait()
	if err != nil {
		p.log.Error("task process cannot be waited for", "error", err)
	}
	// Somebody whom it has started may still hold the link, so hearing it out has a limit.
	timer := time.NewTimer(drainLimit)
	defer timer.Stop()
	select {
	case <-heard:
	case <-timer.C:
	case <-ctx.Done():
	}
	g.Stop()
	_ = child.Close() // both ends are done with it
	_ = g.Wait()      // its tasks return no error
	return exit
}

// enforce ends the process when it does not do so itself: after an order, after it has left the link, at the end of
// the worker.
func (p *taskProcess) enforce(ctx context.Context, child *spawn.Child, heard <-chan struct{}) {
	select {
	case <-child.Done():
		return
	case <-p.stopping:
	case <-heard:
		p.leave()
	case <-ctx.Done():
		child.Kill()
		return
	}
	timer := time.NewTimer(p.agent.cfg.StopGrace)
	defer timer.Stop()
	select {
	case <-child.Done():
		return
	case <-timer.C:
	case <-ctx.Done(): // the process has ended, or the worker does
		child.Kill()
		return
	}
	p.mu.Lock()
	p.mu.killed = true
	p.mu.Unlock()
	p.log.Warn("task process does not end and is killed", "pid", child.Pid())
	child.Kill()
}

// leave notes that the process has closed its link: it takes no connections any more.
func (p *taskProcess) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.phase < phaseEnding {
		p.mu.phase = phaseEnding
	}
}

// send passes messages on, in order, once the process has introduced itself; an order to end comes before all others.
func (p *taskProcess) send(ctx context.Context, child *spawn.Child, ready <-chan struct{}) {
	select {
	case <-ready:
	case <-p.stopping: // tell it all the same: it reads when it is ready
	case <-ctx.Done():
		return
	}
	for {
		var m *taskpb.AgentMessage
		select {
		case <-p.stopping:
			p.mu.Lock()
			m = &taskpb.AgentMessage{Message: &taskpb.AgentMessage_Shutdown{Shutdown: &taskpb.Shutdown{Reason: p.mu.order.reason}}}
			p.mu.Unlock()
		default:
			select {
			case m = <-p.inbox:
			case <-p.stopping:
				continue
			case <-ctx.Done():
				return
			}
		}
		if err := child.Link.Send(ctx, m); err != nil {
			if ctx.Err() == nil {
				p.log.Debug("message was not taken by the task process", "error", err)
			}
			return
		}
		if m.GetShutdown() != nil {
			return
		}
	}
}

// receive hears the process out. A process that does not speak the protocol is killed.
func (p *taskProcess) receive(ctx context.Context, child *spawn.Child, ready chan<- struct{}) {
	hello, err := p.agent.greet(child)
	if link := (*linkError)(nil); errors.As(err, &link) && link.gone && dying(ctx, child) {
		p.mu.Lock()
		p.mu.silent = linkFailure(err)
		p.mu.Unlock()
		return
	}
	if err != nil {
		p.refuse(child, err)
		return
	}
	p.mu.Lock()
	if p.mu.phase == phaseStarting {
		p.mu.phase, p.mu.conns = phaseRunning, child.Conns
	}
	p.mu.Unlock()
	p.log.Debug("task process ready", "protocol", hello.Protocol, "version", hello.Version)
	close(ready)
	for {
		var m taskpb.TaskMessage
		err := child.Link.Receive(&m)
		if err == nil {
			err = p.handle(ctx, &m)
		}
		switch {
		case err == nil:
		case errors.Is(err, pipe.ErrFrame):
			p.refuse(child, &linkError{code: codeGarbled, text: "the task process does not speak the task protocol: " + err.Error()})
			return
		case errors.Is(err, io.EOF) || ctx.Err() != nil:
			return
		default:
			p.log.Debug("link to a task process broke", "error", err)
			return
		}
	}
}

// refuse ends a process that is no job, or none that this agent can talk to. One that is only late may be better off
// another time: when the job was planned, its binary has spoken, so perhaps it is the machine that is slow.
func (p *taskProcess) refuse(child *spawn.Child, err error) {
	f := linkFailure(err)
	if link := (*linkError)(nil); errors.As(err, &link) && link.late {
		f.Kind = jobpb.FailureKind_FAILURE_USER
	}
	p.fail(f)
	child.Kill()
}

// handle acts on one message.
func (p *taskProcess) handle(ctx context.Context, m *taskpb.TaskMessage) error {
	switch m := m.Message.(type) {
	case *taskpb.TaskMessage_Update:
		return p.updated(ctx, m.Update)
	case *taskpb.TaskMessage_Sample:
		p.mu.Lock()
		p.mu.sample = m.Sample
		p.mu.Unlock()
		return nil
	case *taskpb.TaskMessage_CommitResult:
		return p.committed(ctx, m.CommitResult)
	case *taskpb.TaskMessage_Failure:
		p.fail(m.Failure.Failure)
		return nil
	case *taskpb.TaskMessage_SplitsDiscovered:
		return p.report(ctx, &controlpb.Report{Fact: &controlpb.Report_Splits{Splits: m.SplitsDiscovered}}, func(uint64) {})
	case *taskpb.TaskMessage_SplitRequest:
		p.agent.request(p.stamp(&controlpb.Report{Fact: &controlpb.Report_SplitRequest{SplitRequest: m.SplitRequest}}))
		return nil
	}
	return fmt.Errorf("%w: %T after Hello", pipe.ErrFrame, m.Message)
}

func (p *taskProcess) updated(ctx context.Context, u *taskpb.SubtaskUpdate) error {
	if u.Failure != nil {
		u.Failure = u.Failure.Bounded()
		u.Failure.Worker = p.agent.id.ID
		if len(u.Failure.Lost) > 0 { // perhaps files of this worker, which it has read by itself
			p.agent.results.Suspect(p.key.job)
		}
	}
	if len(u.Partitions) > 0 { // known here before any reader can have heard of it
		p.mu.Lock()
		epoch := p.mu.jobEpoch
		p.mu.Unlock()
		p.agent.results.Finished(p.key.job, epoch, u)
	}
	return p.report(ctx, &controlpb.Report{Fact: &controlpb.Report_Subtask{Subtask: u}}, func(sequence uint64) {
		p.mu.facts.updated(u, sequence)
	})
}

func (p *taskProcess) committed(ctx context.Context, r *taskpb.CommitResult) error {
	r.Job, r.Process = p.key.job, p.key.number // whatever the process believes
	r.Failure = r.Failure.Bounded()
	return p.report(ctx, &controlpb.Report{Fact: &controlpb.Report_Commit{Commit: r}}, func(sequence uint64) {
		p.mu.commits = append(p.mu.commits, commitNote{result: r, report: sequence})
	})
}

// stamp says where a report comes from.
func (p *taskProcess) stamp(r *controlpb.Report) *controlpb.Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.Job, r.JobEpoch, r.Process = p.key.job, p.mu.jobEpoch, p.key.number
	return r
}

// report hands a fact to the outbox. It blocks while that is full. note runs under the lock of the process, before the
// leader can have heard of the fact.
func (p *taskProcess) report(ctx context.Context, r *controlpb.Report, note func(sequence uint64)) error {
	return p.agent.outbox.Add(ctx, p.stamp(r), func(sequence uint64) {
		p.mu.Lock()
		defer p.mu.Unlock()
		note(sequence)
	})
}

// processDir is the directory of a task process. Job ids come from clients, so they are hashed, never part of a path.
func processDir(root string, key processKey) string {
	hash := pipe.HashJob(key.job)
	return filepath.Join(root, fmt.Sprintf("%x-%d", hash[:8], key.number))
}
