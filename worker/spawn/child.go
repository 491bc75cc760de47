package spawn

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/sluiceio/sluice/internal/pipe"
)

// outputDelay is how long after the end of a process its output is waited for: somebody it has started may hold the
// pipes open.
const outputDelay = 2 * time.Second

// Child is a started task process and the agent's end of its link.
type Child struct {
	*pipe.AgentEnd
	cmd    *exec.Cmd
	exited chan struct{}
	done   chan struct{}

	mu struct {
		sync.Mutex
		reaped bool // the process id means nothing any more
	}
}

// Exit is how a process ended.
type Exit struct {
	Code   int    // -1 after a signal
	Signal string // name, after a signal
	Core   bool
}

func (e Exit) String() string {
	if e.Signal != "" {
		return "ended by signal " + e.Signal
	}
	return fmt.Sprintf("exited with code %d", e.Code)
}

// Pid is the process id; for logs.
func (c *Child) Pid() int { return c.cmd.Process.Pid }

// Exited is closed when the process has ended, while somebody waits for it.
func (c *Child) Exited() <-chan struct{} { return c.exited }

// Done is closed when the process has ended and its output has been read.
func (c *Child) Done() <-chan struct{} { return c.done }

// Kill ends the process and everything it has started in its process group. It does nothing after the end.
func (c *Child) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mu.reaped {
		killGroup(c.cmd.Process.Pid)
	}
}

// Wait blocks until the process has ended, ends the rest of its group and returns when its output has been read.
func (c *Child) Wait() (Exit, error) {
	defer close(c.done)
	// Its number stays taken until Wait reaps it, so that the group that is killed is certainly this one.
	awaitExit(c.cmd.Process.Pid)
	close(c.exited)
	c.Kill()
	c.mu.Lock()
	c.mu.reaped = true
	c.mu.Unlock()
	err := c.cmd.Wait()
	var bad *exec.ExitError
	if err != nil && !errors.As(err, &bad) && !errors.Is(err, exec.ErrWaitDelay) {
		return Exit{Code: -1}, fmt.Errorf("wait for process %d: %w", c.Pid(), err)
	}
	return exitOf(c.cmd.ProcessState), nil
}

func exitOf(state *os.ProcessState) Exit {
	exit := Exit{Code: state.ExitCode()}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		exit.Signal, exit.Core = signalName(status.Signal()), status.CoreDump()
	}
	return exit
}
