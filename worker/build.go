package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/logfile"
	"github.com/sluiceio/sluice/worker/spawn"
)

// Bounds of builds.
const (
	maxWaitingBuilds = 64
	// keptAnswers are sent again in every new session: an answer may have been on its way to a leader that died.
	keptAnswers = 16
	answerAge   = 2 * time.Minute
)

// buildKey identifies a request of a leader.
type buildKey struct {
	job    string
	number uint64
}

// builds runs the build functions of users, each in a process of its own, a few at a time.
type builds struct {
	agent *agent
	slots chan struct{} // holds a token per build that runs
	log   hclog.Logger

	mu struct {
		sync.Mutex
		open    map[buildKey]context.CancelCauseFunc // asked for and not answered yet
		answers []answer                             // oldest first
		first   uint64                               // number of answers[0]
		news    chan struct{}                        // closed at the next answer
	}
}

type answer struct {
	result *controlpb.BuildResult
	at     time.Time
}

func newBuilds(a *agent) *builds {
	b := &builds{agent: a, slots: make(chan struct{}, a.cfg.MaxBuilds), log: a.log.Named("build")}
	b.mu.open = map[buildKey]context.CancelCauseFunc{}
	b.mu.news = make(chan struct{})
	return b
}

// request starts a build, unless it runs already or was answered a moment ago.
func (b *builds) request(g *run.Group, r *controlpb.RequestBuild) {
	key := buildKey{r.Job, r.Build}
	ctx, cancel := context.WithCancelCause(g.Context())
	if !b.claim(key, cancel) {
		cancel(nil)
		return
	}
	g.Go(fmt.Sprintf("build %d of %s", r.Build, r.Job), func(context.Context) error {
		defer cancel(nil)
		result := b.run(ctx, r)
		result.Job, result.Build = r.Job, r.Build
		outcome := "built"
		switch {
		case result.Failure != nil:
			outcome = "failed"
		case len(result.Built.Errors) > 0:
			outcome = "rejected"
		}
		b.agent.counters.builds.note(outcome)
		b.log.Info("build answered", "job", r.Job, "build", r.Build, "outcome", outcome)
		b.answer(key, result)
		return nil
	})
}

// refuse answers a request that cannot be carried out.
func (b *builds) refuse(r *controlpb.RequestBuild, err error) {
	result := failedBuild(&jobpb.Failure{
		Code: codeRefused, Kind: jobpb.FailureKind_FAILURE_FATAL, Message: fmt.Sprintf("the worker cannot build: %v", err),
	})
	result.Job, result.Build = r.Job, r.Build
	b.answer(buildKey{r.Job, r.Build}, result)
}

// errAbandoned: the leader does not wait for the answer any more.
var errAbandoned = errors.New("the build was abandoned")

// abandon ends a build, whether it runs or waits.
func (b *builds) abandon(key buildKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if cancel := b.mu.open[key]; cancel != nil {
		b.log.Info("build abandoned", "job", key.job, "build", key.number)
		cancel(errAbandoned)
	}
}

func (b *builds) claim(key buildKey, cancel context.CancelCauseFunc) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.open[key] != nil || len(b.mu.open) >= maxWaitingBuilds {
		return false // the leader asks again
	}
	for i, a := range b.mu.answers {
		if a.result.Job == key.job && a.result.Build == key.number {
			// Asked again: the answer may have been lost. It becomes the newest, so that the session sends it.
			b.mu.answers = append(append(b.mu.answers[:i:i], b.mu.answers[i+1:]...), answer{a.result, time.Now()})
			b.mu.first++
			b.announce()
			return false
		}
	}
	b.mu.open[key] = cancel
	return true
}

func (b *builds) answer(key buildKey, result *controlpb.BuildResult) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.mu.open, key)
	b.mu.answers = append(b.mu.answers, answer{result, time.Now()})
	for len(b.mu.answers) > keptAnswers || time.Since(b.mu.answers[0].at) > answerAge {
		b.mu.answers = b.mu.answers[1:]
		b.mu.first++
	}
	b.announce()
}

// announce wakes the session. The lock is held.
func (b *builds) announce() {
	close(b.mu.news)
	b.mu.news = make(chan struct{})
}

// after returns the answers from number next on, the number behind them, and a channel that is closed at the next one.
func (b *builds) after(next uint64) (results []*controlpb.BuildResult, behind uint64, news <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	behind = b.mu.first + uint64(len(b.mu.answers))
	for i, a := range b.mu.answers {
		if b.mu.first+uint64(i) >= next && time.Since(a.at) <= answerAge {
			results = append(results, a.result)
		}
	}
	return results, behind, b.mu.news
}

// run builds once there is room.
func (b *builds) run(ctx context.Context, r *controlpb.RequestBuild) *controlpb.BuildResult {
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-ctx.Done():
		return stoppedBuild(ctx)
	}
	limit := time.Duration(r.TimeLimitUs) * time.Microsecond
	if limit <= 0 {
		limit = b.agent.cfg.BuildTimeout
	}
	binary, err := b.agent.acquire(ctx, r.Spec.Artifact)
	if err != nil {
		return failedBuild(startFailure(codeNoArtifact, err))
	}
	defer binary.Release()
	dir := b.agent.archive.openBuild()
	stdout, stderr := logfile.NewHead(taskpb.MaxOutput), &logfile.Tail{}
	child, err := b.agent.starter.Start(ctx, spawn.Spec{
		Binary: binary.Path(), Dir: dir, Job: r.Job, Worker: b.agent.id.ID, Policy: b.agent.cfg.Policy, MemoryBytes: b.agent.cfg.slotMemory(), Procs: b.agent.procs(1),
		Stdout: stdout, Stderr: stderr,
	})
	if err != nil {
		return failedBuild(execFailure(err))
	}
	result := b.attend(ctx, child, r, limit)
	if err := vfs.Discard(vfs.OS{}, dir); err != nil {
		b.log.Error("directory of a build cannot be removed", "error", err)
	}
	return finishBuild(result, stdout.Text(), stderr)
}

// stoppedBuild is the answer of a build that was ended from here.
func stoppedBuild(ctx context.Context) *controlpb.BuildResult {
	err := errors.New("the worker stops")
	if cause := context.Cause(ctx); errors.Is(cause, errAbandoned) {
		err = cause
	}
	return failedBuild(startFailure(codeNoStart, err))
}

func failedBuild(f *jobpb.Failure) *controlpb.BuildResult {
	return &controlpb.BuildResult{Failure: f.Bounded()}
}

// attend talks to the process of a build and ends it in any case.
func (b *builds) attend(ctx context.Context, child *spawn.Child, r *controlpb.RequestBuild, limit time.Duration) *controlpb.BuildResult {
	g := run.NewGroup(ctx, "build")
	var exit spawn.Exit
	g.Go("wait", func(context.Context) (err error) {
		exit, err = child.Wait()
		return err
	})
	g.Go("abandon", func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			child.Kill()
		case <-child.Done():
		}
		return nil
	})
	result, left := b.converse(ctx, child, r.Spec, limit)
	died := left && dying(ctx, child) && ctx.Err() == nil
	child.Kill() // it has nothing more to say; no goroutine of the build function outlives its answer
	err := errors.Join(g.Wait(), child.Close())
	if err != nil {
		b.log.Warn("process of a build did not end well", "error", err)
	}
	if f := (ending{exit: exit, oom: b.agent.oom.Happened()}).foreign(); died && f != nil {
		result.Failure = f.Bounded() // it is neither the binary's fault nor that of the build function
	}
	return result
}

// converse asks for the graph and waits for it. left: there is none because the process has left the link.
func (b *builds) converse(ctx context.Context, child *spawn.Child, spec *jobpb.JobSpec, limit time.Duration) (result *controlpb.BuildResult, left bool) {
	hello, err := b.agent.greet(child)
	if err != nil {
		var link *linkError
		return failedBuild(linkFailure(err)), errors.As(err, &link) && link.gone
	}
	deadline := time.Now().Add(limit)
	ask := &taskpb.AgentMessage{Message: &taskpb.AgentMessage_Build{Build: &taskpb.Build{
		Spec: spec, TimeLimitUs: limit.Microseconds(),
	}}}
	sending, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	var m taskpb.TaskMessage
	if err = child.Link.Send(sending, ask); err == nil {
		if err = child.Link.SetReceiveDeadline(deadline); err == nil {
			err = child.Link.Receive(&m)
		}
	}
	built := m.GetBuilt()
	switch {
	case err == nil && built != nil:
		return &controlpb.BuildResult{Built: built, Protocol: hello.Protocol}, false
	case time.Now().After(deadline):
		err = &linkError{code: codeBuildTime, text: fmt.Sprintf(
			"the build function did not return within %s: it describes the job and must not wait for anything; open connections and files where the records are processed", limit)}
	case err == nil:
		err = fmt.Errorf("the job answered the build with %T", m.Message)
	case ctx.Err() != nil:
		return stoppedBuild(ctx), false
	case gone(err):
		left = true
		err = &linkError{code: codeBuildDied, text: "the build function ended its process"}
	}
	result = failedBuild(linkFailure(err))
	result.Protocol = hello.Protocol
	return result, left
}

// finishBuild adds what the process has written: a death is explained by standard error, output of the build function
// is shown as a warning.
func finishBuild(result *controlpb.BuildResult, stdout string, stderr *logfile.Tail) *controlpb.BuildResult {
	last, crash := stderr.Text()
	if f := result.Failure; f != nil {
		cause, _, _ := strings.Cut(crash, "\n")
		switch {
		case f.Code == codeBuildDied && cause != "":
			f.Message, f.Stack = "the build function crashed: "+cause, crash
		case f.Code == codeBuildDied || f.Code == codeNoJob:
			f.Stack = strings.TrimSpace(stdout + "\n" + last) // all there is to see of it
		}
		result.Failure = f.Bounded()
		return result
	}
	if stdout == "" {
		return result
	}
	result.Built.Output = stdout
	if g := result.Built.Graph; g != nil {
		g = proto.CloneOf(g)
		line, _, _ := strings.Cut(strings.TrimSpace(stdout), "\n")
		g.Warnings = append(g.Warnings, &jobpb.Diagnostic{
			Code:    codeStdout,
			Message: fmt.Sprintf("the build function wrote %d bytes to standard output, beginning with %.200q", len(stdout), line),
			Hints:   []string{"print to standard error, or log: the build function runs on a worker, where nobody reads standard output"},
		})
		result.Built.Graph = g
	}
	return result
}
