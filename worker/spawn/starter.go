package spawn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/sluiceio/sluice/internal/failpoint"
	"github.com/sluiceio/sluice/internal/invariant"
	"github.com/sluiceio/sluice/internal/pipe"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/internal/wire"
)

// Spec is what a task process is started with.
type Spec struct {
	Binary  string
	Dir     string // its own directory, absolute; made if missing
	Job     string
	Process uint64
	// Worker is the id of the worker, for what the process says of itself.
	Worker string
	// Results is the directory of the worker's stored results, absolute; empty: the process stores none.
	Results string
	// Snapshots is where objects of checkpoints go (pipe.EnvSnapshots); empty: the job can take none.
	Snapshots string
	Policy    wire.Policy
	// MemoryBytes is the share of the worker's memory that it may use; Procs the number of threads that run Go code.
	MemoryBytes int64
	Procs       int
	// Stdout and Stderr receive its output, each from one goroutine. They must not block for long.
	Stdout, Stderr io.Writer
}

// memoryLimitPercent of a process's memory is the soft limit of its collector; the rest is for what Go does not see.
const memoryLimitPercent = 95

func (s Spec) environment() []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"),
		"TZ=UTC",
		"TMPDIR=" + filepath.Join(s.Dir, tempName),
		pipe.EnvTask + "=1",
		pipe.EnvWorker + "=" + s.Worker,
		pipe.EnvSpill + "=" + filepath.Join(s.Dir, spillName),
		"GOMEMLIMIT=" + strconv.FormatInt(s.MemoryBytes/100*memoryLimitPercent, 10),
		"GOMAXPROCS=" + strconv.Itoa(s.Procs),
	}
	if points := os.Getenv(failpoint.Environment); points != "" { // a test breaks task processes too
		env = append(env, failpoint.Environment+"="+points)
	}
	env = append(env, invariant.Mutant()...)
	if s.Results != "" {
		env = append(env, pipe.EnvResults+"="+s.Results)
	}
	if s.Snapshots != "" {
		env = append(env, pipe.EnvSnapshots+"="+s.Snapshots)
	}
	if s.Policy.Insecure {
		env = append(env, pipe.EnvInsecure+"=1")
	}
	return env
}

// Names within the directory of a task process.
const (
	LockName   = "lock"
	RecordName = "process"
	LogName    = "log" // directory for the output
	tempName   = "tmp"
	spillName  = "spill"
)

// Starter starts children from one thread that outlives them.
type Starter struct {
	requests chan request
	ended    chan struct{}
}

type request struct {
	cmd  *exec.Cmd
	done chan error
}

// NewStarter makes a starter; Run has to run before Start can do anything.
func NewStarter() *Starter {
	return &Starter{requests: make(chan request), ended: make(chan struct{})}
}

// ErrStopped says that the starter has ended.
var ErrStopped = errors.New("no process is started any more")

// Run starts what Start asks for until ctx is done. End it last: children die with its thread.
func (s *Starter) Run(ctx context.Context) error {
	defer close(s.ended)
	runtime.LockOSThread()
	if !onMainThread() {
		return s.serve(ctx)
	}
	// The main thread of a process does not end before the process does: another one has to serve. It is another one,
	// because this goroutine holds the main thread meanwhile.
	defer runtime.UnlockOSThread()
	g := run.NewGroup(ctx, "starter")
	g.Go("thread", func(ctx context.Context) error {
		runtime.LockOSThread()
		return s.serve(ctx)
	})
	return g.Wait()
}

// serve starts what is asked for. Its thread is locked and never unlocked: the runtime then ends the thread with the
// goroutine, and nothing else ever runs on it that could end it earlier.
func (s *Starter) serve(ctx context.Context) error {
	for {
		select {
		case r := <-s.requests:
			r.done <- r.cmd.Start()
		case <-ctx.Done():
			return nil
		}
	}
}

// Waits for a binary that somebody is still said to write: a child forked at that moment holds the descriptor until
// it executes.
const (
	busyTries = 50
	busyPause = 10 * time.Millisecond
)

// Start makes the directory, takes its lock and starts the process. The caller must Wait for the child.
func (s *Starter) Start(ctx context.Context, spec Spec) (child *Child, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("start process %d of job %s: %w", spec.Process, spec.Job, err)
		}
	}()
	lock, err := prepare(spec.Dir)
	if err != nil {
		return nil, err
	}
	agent, inherit, err := pipe.Pair()
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	// From the start on these belong to the process alone: its end is their end.
	inherit = append(inherit, lock)
	defer func() {
		for _, f := range inherit {
			_ = f.Close()
		}
	}()
	cmd, err := s.startCommand(ctx, spec, inherit)
	if err != nil {
		return nil, errors.Join(err, agent.Close())
	}
	child = &Child{AgentEnd: agent, cmd: cmd, exited: make(chan struct{}), done: make(chan struct{})}
	if err := WriteRecord(spec.Dir, spec.Job, spec.Process, cmd.Process.Pid); err != nil {
		// Without the record no later agent could tell that it is ours.
		child.Kill()
		_, waitErr := child.Wait()
		return nil, errors.Join(err, waitErr, agent.Close())
	}
	return child, nil
}

// prepare makes the directory of a process and locks it.
func prepare(dir string) (lock *os.File, err error) {
	for _, name := range []string{tempName, spillName, LogName} {
		if err := vfs.MakeDir(vfs.OS{}, filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return lockFile(filepath.Join(dir, LockName))
}

func (s *Starter) startCommand(ctx context.Context, spec Spec, inherit []*os.File) (*exec.Cmd, error) {
	for try := 1; ; try++ {
		cmd := &exec.Cmd{
			Path:        spec.Binary,
			Args:        []string{filepath.Base(spec.Binary)},
			Dir:         spec.Dir,
			Env:         spec.environment(),
			Stdout:      spec.Stdout,
			Stderr:      spec.Stderr,
			ExtraFiles:  inherit,
			SysProcAttr: attributes(),
			WaitDelay:   outputDelay,
		}
		err := s.start(ctx, cmd)
		if err == nil {
			return cmd, nil
		}
		if !errors.Is(err, syscall.ETXTBSY) || try == busyTries {
			return nil, err
		}
		timer := time.NewTimer(busyPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

// start lets the starter's thread start cmd.
func (s *Starter) start(ctx context.Context, cmd *exec.Cmd) error {
	r := request{cmd: cmd, done: make(chan error, 1)}
	select {
	case s.requests <- r:
		return <-r.done
	case <-s.ended:
		return ErrStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
