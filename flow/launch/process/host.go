package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/internal/failpoint"
	"github.com/sluiceio/sluice/internal/invariant"
	"github.com/sluiceio/sluice/internal/pipe"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/worker/task"
	"github.com/sluiceio/sluice/worker/task/fault"
)

// host stands between the agent and the task runtime of this process. It is the runtime's task.Host.
type host struct {
	job     Job
	worker  string
	policy  wire.Policy
	end     *pipe.ProcessEnd
	log     hclog.Logger
	in      chan *taskpb.AgentMessage
	out     *queue
	over    chan struct{} // closed with the verdict
	work    *run.Group    // what the agent asked for
	network *run.Group    // the exchange; outlives the work

	// What act has started; it alone touches these.
	tasks   *task.Process
	commits chan *taskpb.Commit

	mu struct {
		sync.Mutex
		verdict verdict
		peers   peers
	}
}

var _ task.Host = (*host)(nil)

// Sizes of queues whose senders repeat what gets no answer.
const (
	inboxSize   = 64
	commitQueue = 4
)

func newHost(j Job, end *pipe.ProcessEnd, log hclog.Logger) *host {
	return &host{
		job: j, end: end, log: log, in: make(chan *taskpb.AgentMessage, inboxSize), out: newQueue(),
		over: make(chan struct{}), commits: make(chan *taskpb.Commit, commitQueue),
	}
}

// send queues a fact. It does not block.
func (h *host) send(m *taskpb.TaskMessage) {
	if !h.out.put(m, queueFacts) {
		// Dropping one would leave the leader with a wrong picture for ever; without this process it has a right one.
		h.log.Error("the agent takes no messages; the process gives up", "waiting", queueFacts)
		h.finish(verdict{code: exitFailed, wait: waitOrphan})
	}
}

// sendRepeating queues what will be said again.
func (h *host) sendRepeating(m *taskpb.TaskMessage) { h.out.put(m, queueRepeating) }

// ---------------------------------------------------------------- task.Host

// Update passes a change of state on.
func (h *host) Update(u *taskpb.SubtaskUpdate) {
	h.send(&taskpb.TaskMessage{Message: &taskpb.TaskMessage_Update{Update: u}})
}

// SplitsDiscovered passes the findings of an enumerator on.
func (h *host) SplitsDiscovered(d *taskpb.SplitsDiscovered) {
	h.send(&taskpb.TaskMessage{Message: &taskpb.TaskMessage_SplitsDiscovered{SplitsDiscovered: d}})
}

// RequestSplits passes a question on.
func (h *host) RequestSplits(r *taskpb.SplitRequest) {
	h.sendRepeating(&taskpb.TaskMessage{Message: &taskpb.TaskMessage_SplitRequest{SplitRequest: r}})
}

// Ack passes on what an attempt says of a checkpoint.
func (h *host) Ack(a *snapshotpb.Ack) {
	h.send(&taskpb.TaskMessage{Message: &taskpb.TaskMessage_Ack{Ack: a}})
}

// Failed ends the process: user code does not return, and only that takes it away.
func (h *host) Failed(f *jobpb.Failure) { h.fail(f, 0) }

// ---------------------------------------------------------------- what the agent asks for

// act does what the agent says, in order.
func (h *host) act(ctx context.Context) error {
	for {
		select {
		case m := <-h.in:
			h.do(ctx, m)
		case <-ctx.Done():
			return nil
		}
	}
}

func (h *host) do(ctx context.Context, m *taskpb.AgentMessage) {
	switch m := m.Message.(type) {
	case *taskpb.AgentMessage_Build:
		h.build(m.Build)
	case *taskpb.AgentMessage_Deploy:
		h.deploy(ctx, m.Deploy)
	case *taskpb.AgentMessage_Commit:
		h.commit(m.Commit)
	case *taskpb.AgentMessage_Cancel:
		if h.tasks != nil {
			h.tasks.Cancel(m.Cancel)
		}
	case *taskpb.AgentMessage_AssignSplits:
		if h.tasks != nil {
			h.tasks.AssignSplits(m.AssignSplits)
		}
	case *taskpb.AgentMessage_OpenGate:
		if h.tasks != nil {
			h.tasks.OpenGate(m.OpenGate)
		}
	case *taskpb.AgentMessage_Trigger:
		if h.tasks != nil && failpoint.Hit(ctx, "process.trigger") == nil { // else the checkpoint runs out of time
			h.tasks.Trigger(m.Trigger)
		}
	case *taskpb.AgentMessage_CheckpointNotice:
		if h.tasks != nil {
			h.tasks.Notice(m.CheckpointNotice)
		}
	case *taskpb.AgentMessage_GroupClocks:
		if h.tasks != nil {
			h.tasks.GroupClocks(m.GroupClocks)
		}
	}
}

// build answers with the graph, or with everything that is wrong with it, and ends the process.
func (h *host) build(b *taskpb.Build) {
	program, faults := h.program(b.Spec)
	built := &taskpb.Built{Errors: faults}
	if len(faults) == 0 {
		built.Graph = program.Graph
	}
	h.send(&taskpb.TaskMessage{Message: &taskpb.TaskMessage_Built{Built: built}})
	h.finish(verdict{code: exitOK})
}

// deploy starts the runtime with the first deployment and hands every one over to it.
func (h *host) deploy(ctx context.Context, d *taskpb.Deployment) {
	h.mu.Lock()
	h.mu.peers.learn(d)
	h.mu.Unlock()
	if h.tasks == nil {
		if f := h.start(d); f != nil {
			h.fail(f, waitOrphan)
			return
		}
	}
	err := failpoint.Hit(ctx, "process.deploy")
	if err == nil {
		err = h.tasks.Deploy(d)
	}
	switch {
	case err == nil:
	case errors.Is(err, task.ErrStale), errors.Is(err, task.ErrClosed):
		h.log.Debug("deployment not carried out", "error", err)
	case ctx.Err() == nil:
		h.fail(task.Failure(err), waitOrphan)
	}
}

// start builds the program and starts exchange and task runtime.
func (h *host) start(d *taskpb.Deployment) *jobpb.Failure {
	limit := h.job.BuildLimit
	if limit == 0 {
		limit = defaultBuildLimit
	}
	// A goroutine that does not return can only be left behind.
	watchdog := time.AfterFunc(limit, func() {
		h.fail(fatal(codeSlow, "the build function did not return within %s, although it did when the job was planned", limit), 0)
	})
	program, faults := h.program(d.Spec)
	watchdog.Stop()
	if len(faults) > 0 {
		first := faults[0]
		f := fatal(first.Code, "the build function failed here, but not when the job was planned: %s", first.Message)
		f.Position = first.Where
		return f
	}
	return h.assemble(d, program)
}

// assemble makes the exchanges and the task runtime of a program and starts them.
func (h *host) assemble(d *taskpb.Deployment, program *task.Program) *jobpb.Failure {
	memory, err := setting.Divide(d.ProcessMemory, setting.Values(d.Settings))
	if err != nil {
		return fatal(setting.CodeBadValue, "%v: raise the worker's --memory, or lower network.memory, state.memory or batch.memory", err)
	}
	h.end.Conns.Faults = func(err error) { h.log.Warn("data connection lost on its way in", "error", err) }
	network, err := shuffle.NewNetwork(shuffle.NetworkConfig{
		Process: d.Process, Job: d.Job, Memory: memory.Network, Listener: &listener{Listener: h.end.Conns, host: h},
		Dial: h.dialler(d.Job), Log: h.log,
	})
	if err != nil {
		return fatal(fault.CodeDeploy, "the exchange cannot be started: %v", err)
	}
	results, err := h.openResults(d, network)
	if err != nil {
		return fatal(fault.CodeDeploy, "the directory of stored results cannot be used: %v", err)
	}
	spill, err := openSpill(d.Settings)
	if err != nil {
		return fatal(fault.CodeDeploy, "the directory for spilled records cannot be used: %v", err)
	}
	keyed, err := openState(memory.State)
	if err != nil {
		return fatal(fault.CodeDeploy, "the directory for keyed state cannot be used: %v", err)
	}
	stores, closeStores := h.openSnapshots()
	tasks, err := task.NewProcess(task.Config{
		Program: program, Job: d.Job, Worker: h.worker, Process: d.Process, Network: network, Results: results, Spill: spill,
		State: keyed, Stores: stores, Log: h.log, Host: h,
	})
	if err != nil {
		err = errors.Join(err, closeStores())
		return fatal(fault.CodeDeploy, "the task runtime cannot be started: %v", err)
	}
	h.tasks = tasks
	h.serve(h.network, "snapshot stores", func(ctx context.Context) error {
		<-ctx.Done()
		return closeStores()
	})
	h.serve(h.network, "exchange", network.Run)
	if results != nil {
		h.serve(h.network, "exchange of stored results", results.Run)
	}
	if keyed.Overflow != nil {
		h.serve(h.network, "overflow of the state", runState(keyed))
	}
	h.serve(h.work, "tasks", tasks.Run)
	h.serve(h.work, "commits", h.commitAll)
	h.serve(h.work, "samples", h.sampleAll)
	return nil
}

// serve runs a part of the process. That it fails, or ends before it is stopped, ends the process.
func (h *host) serve(g *run.Group, name string, f func(context.Context) error) {
	g.Go(name, func(ctx context.Context) error {
		err := f(ctx)
		if ctx.Err() == nil && !h.isOver() {
			h.fail(&jobpb.Failure{
				Code: codeBroken, Kind: jobpb.FailureKind_FAILURE_LOSS, Message: fmt.Sprintf("%s of the task process ended: %v", name, err),
			}, waitOrphan)
			return nil // it is reported
		}
		return err
	})
}

func (h *host) isOver() bool {
	select {
	case <-h.over:
		return true
	default:
		return false
	}
}

// listener tells the end of the descriptor socket for what it is: the agent's own. It may be seen here before it is on
// the link, and is no failure of the exchange.
type listener struct {
	*pipe.Listener
	host *host
}

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		l.host.finish(verdict{code: exitOrphan, wait: waitOrphan}) // no effect if the process ends anyway
	}
	return conn, err
}

// codeBroken: a part of the runtime broke, not user code.
const codeBroken = "E066"

// commit queues a commit. One that does not fit is repeated by the leader.
func (h *host) commit(c *taskpb.Commit) {
	if h.tasks == nil {
		h.log.Warn("commit before any deployment dropped", "checkpoint", c.Checkpoint)
		return
	}
	select {
	case h.commits <- c:
	default:
	}
}

// commitAll commits one after the other.
func (h *host) commitAll(ctx context.Context) error {
	for {
		select {
		case c := <-h.commits:
			if err := failpoint.Hit(ctx, "process.commit"); err != nil {
				continue // the leader asks again
			}
			if invariant.Without("commit-before-answer") && !c.Abort {
				h.send(&taskpb.TaskMessage{Message: &taskpb.TaskMessage_CommitResult{CommitResult: &taskpb.CommitResult{
					Job: c.Job, JobEpoch: c.JobEpoch, Process: c.Process, Checkpoint: c.Checkpoint,
				}}})
			}
			if r := h.tasks.Commit(ctx, c); r != nil && ctx.Err() == nil {
				h.send(&taskpb.TaskMessage{Message: &taskpb.TaskMessage_CommitResult{CommitResult: r}})
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// sampleInterval is how often counters are reported.
const sampleInterval = 500 * time.Millisecond

func (h *host) sampleAll(ctx context.Context) error {
	ticker := time.NewTicker(sampleInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			h.sendRepeating(&taskpb.TaskMessage{Message: &taskpb.TaskMessage_Sample{Sample: h.tasks.Sample()}})
		case <-ctx.Done():
			return nil
		}
	}
}

// dialler connects to other task processes of the job.
func (h *host) dialler(job string) func(context.Context, shuffle.Peer) (net.Conn, error) {
	dialer := pipe.Dialer{Policy: h.policy}
	hash := pipe.HashJob(job)
	return func(ctx context.Context, p shuffle.Peer) (net.Conn, error) {
		h.mu.Lock()
		preface := pipe.Preface{Job: hash, Process: p.Process, JobEpoch: h.mu.peers.jobEpoch, RegionEpoch: h.mu.peers.regionEpochs[p.Process]}
		h.mu.Unlock()
		conn, err := dialer.Dial(ctx, p.Address, preface)
		if errors.Is(err, pipe.ErrGone) {
			return nil, fmt.Errorf("%w: %w", shuffle.ErrGone, err)
		}
		return conn, err
	}
}

// peers is what deployments say about the other processes of the job: the epochs that each of them must have heard of
// before it can know the subtasks that are looked for.
type peers struct {
	jobEpoch     uint64
	regionEpochs map[uint64]uint64 // by process
}

func (p *peers) learn(d *taskpb.Deployment) {
	if d.JobEpoch < p.jobEpoch {
		return
	}
	if d.JobEpoch > p.jobEpoch || p.regionEpochs == nil {
		p.jobEpoch, p.regionEpochs = d.JobEpoch, map[uint64]uint64{}
	}
	for _, l := range d.Locations {
		p.regionEpochs[l.Process] = max(p.regionEpochs[l.Process], l.RegionEpoch)
	}
}
