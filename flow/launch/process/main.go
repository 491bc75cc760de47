package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sluiceio/sluice/internal/pipe"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/task"
)

// BuildFunc runs the user's build function with the parameters of a specification, and reports every fault at once. It
// may panic, and may never return.
type BuildFunc func(spec *jobpb.JobSpec) (*task.Program, []*jobpb.Diagnostic)

// Job is what a job binary says of itself.
type Job struct {
	Name    string
	Version string // of the runtime that is linked in
	Build   BuildFunc
	// BuildLimit bounds Build when a deployment needs it; 0: 30 s. When the graph is asked for, the agent has the limit.
	BuildLimit time.Duration
}

const defaultBuildLimit = 30 * time.Second

// Requested reports whether a worker agent has started this process.
func Requested() bool { return os.Getenv(pipe.EnvTask) == "1" }

// Exit codes of a task process.
const (
	exitOK     = 0 // it was told to end
	exitFailed = 1 // it has failed as a whole, and has told the agent why
	exitOrphan = 3 // the agent is gone
)

// maxStack bounds the stack of a goroutine, in bytes. Go's own bound of 1 GiB is more than most task processes have, and
// a function that calls itself without end stops the whole process for so long on its way there that it looks like a
// lost one instead of a crashed one.
const maxStack = 64 << 20

// Main is the whole life of a task process. It returns the code to exit with; the caller exits at once.
func Main(j Job) int {
	debug.SetMaxStack(maxStack)
	log := hclog.New(&hclog.LoggerOptions{Name: "task", Output: os.Stderr, Level: hclog.Info})
	end, err := pipe.Inherited()
	if err != nil {
		log.Error("no worker agent to talk to", "error", err)
		return exitOrphan
	}
	h := newHost(j, end, log)
	h.worker = os.Getenv(pipe.EnvWorker)
	h.policy = wire.Policy{Insecure: os.Getenv(pipe.EnvInsecure) == "1"}
	return h.run(context.Background())
}

// verdict is why the process ends.
type verdict struct {
	code int
	// wait for the attempts to stop; without it they are left behind, because they do not stop.
	wait time.Duration
}

// Bounds of the end. The agent has its own and kills what takes longer.
const (
	waitOrdered = time.Minute     // for attempts to stop, after an order
	waitOrphan  = 2 * time.Second // the same, when nobody is left to kill this process
	waitFlush   = 5 * time.Second // for the agent to take what is still to be said
)

// run talks to the agent until there is a verdict, stops what runs, says the rest and returns the exit code.
func (h *host) run(ctx context.Context) int {
	talk := run.NewGroup(ctx, "link")
	h.work, h.network = run.NewGroup(ctx, "process"), run.NewGroup(ctx, "network")
	h.send(&taskpb.TaskMessage{Message: &taskpb.TaskMessage_Hello{Hello: &taskpb.Hello{
		Protocol: taskpb.Protocol, Version: h.job.Version, Pid: int64(os.Getpid()), JobName: h.job.Name,
	}}})
	talk.Go("send", h.sendAll)
	talk.Go("receive", h.receiveAll)
	h.work.Go("act", h.act)

	<-h.over
	v := h.mu.verdict // written before over was closed
	h.work.Stop()
	if v.wait > 0 && !within(v.wait, h.stop) {
		h.log.Error("user code does not stop; the process ends without it", "waited", v.wait)
	}
	h.out.close()
	within(waitFlush, func() { <-h.out.sent })
	talk.Stop()
	if err := h.end.Link.Close(); err != nil && !errors.Is(err, net.ErrClosed) { // a cut message has closed it
		h.log.Error("link to the agent cannot be closed", "error", err)
	}
	within(waitFlush, func() {
		if err := talk.Wait(); err != nil {
			h.log.Error("link to the agent did not end well", "error", err)
		}
	})
	return v.code
}

// stop waits for the attempts, and only then takes the exchange away from under them: a cancelled attempt must not look
// like one that has lost its peers.
func (h *host) stop() {
	err := h.work.Wait()
	h.network.Stop()
	if err = errors.Join(err, h.network.Wait()); err != nil {
		h.log.Error("task process did not end well", "error", err)
	}
}

// within runs f, and reports whether it returned in time. It is for the end of the process only: f may go on.
func within(limit time.Duration, f func()) bool {
	done := make(chan struct{})
	run.NewGroup(context.Background(), "end").Go("wait", func(context.Context) error {
		defer close(done)
		f()
		return nil
	})
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// finish gives the verdict; the first one stands.
func (h *host) finish(v verdict) {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.over:
	default:
		h.mu.verdict = v
		close(h.over)
	}
}

// fail ends the process with a failure that belongs to no single attempt.
func (h *host) fail(f *jobpb.Failure, wait time.Duration) {
	f.TimeUs = time.Now().UnixMicro()
	h.log.Error("task process failed", "code", f.Code, "message", f.Message)
	h.send(&taskpb.TaskMessage{Message: &taskpb.TaskMessage_Failure{Failure: &taskpb.ProcessFailure{Failure: f.Bounded()}}})
	h.finish(verdict{code: exitFailed, wait: wait})
}

// fatal is a failure that no restart can cure.
func fatal(code, format string, args ...any) *jobpb.Failure {
	return &jobpb.Failure{Code: code, Message: fmt.Sprintf(format, args...), Kind: jobpb.FailureKind_FAILURE_FATAL}
}

// receiveAll reads what the agent says and keeps its order. The end of the link is the end of this process.
func (h *host) receiveAll(ctx context.Context) error {
	for {
		var m taskpb.AgentMessage
		if err := h.end.Link.Receive(&m); err != nil {
			if errors.Is(err, pipe.ErrFrame) {
				h.log.Error("the agent does not speak the task protocol", "error", err)
			}
			h.finish(verdict{code: exitOrphan, wait: waitOrphan})
			return nil
		}
		if s := m.GetShutdown(); s != nil {
			h.log.Info("told to end", "reason", s.Reason)
			h.finish(verdict{code: exitOK, wait: waitOrdered})
			continue // the end of the link is still news
		}
		select {
		case h.in <- &m:
		case <-h.over:
		case <-ctx.Done():
			return nil
		}
	}
}

// sendAll writes what the process says, in order, until the queue is closed and empty.
func (h *host) sendAll(ctx context.Context) error {
	defer close(h.out.sent)
	for {
		m, more := h.out.next(ctx)
		if !more {
			return nil
		}
		if err := h.end.Link.Send(ctx, m); err != nil {
			if ctx.Err() == nil {
				h.log.Debug("message to the agent was not sent", "error", err)
			}
			return nil // receiveAll sees the end of the link
		}
	}
}
