package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sluiceio/sluice/internal/failpoint"
)

// bond says what happens to a node when the process that started it dies.
type bond int

const (
	supervised bond = iota // it dies too
	detached               // it lives on
)

// start starts the process of a node; its output goes to its log file.
func start(binary string, n *Member, args []string, b bond) (*exec.Cmd, error) {
	if err := os.MkdirAll(filepath.Dir(n.Log), 0o755); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(n.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own descriptor
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = childEnvironment(os.Environ())
	cmd.SysProcAttr = attributes(b)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", n.Name, err)
	}
	n.PID = cmd.Process.Pid
	return cmd, nil
}

// childEnvironment leaves out what would act as flags of a node; fail points are meant for nodes.
func childEnvironment(env []string) (out []string) {
	for _, e := range env {
		if !strings.HasPrefix(e, "SLUICE_") || strings.HasPrefix(e, failpoint.Environment+"=") {
			out = append(out, e)
		}
	}
	return out
}

// alive: the process of a node still exists and is still that of the node, not a stranger that has got its number since.
func (n *Member) alive() bool {
	if n.PID <= 0 || syscall.Kill(n.PID, 0) != nil {
		return false
	}
	command, err := commandLine(n.PID)
	return err == nil && strings.Contains(command, n.DataDir)
}

// askInterval is how often a process that is not our child is asked whether it still lives.
const askInterval = 20 * time.Millisecond

// end ends processes: politely, and after the grace by force. It returns when all are gone.
func end(ctx context.Context, nodes []*Member, grace time.Duration) error {
	var errs []error
	signal := func(s syscall.Signal) {
		for _, n := range nodes {
			if n.alive() {
				if err := syscall.Kill(n.PID, s); err != nil && !errors.Is(err, syscall.ESRCH) {
					errs = append(errs, fmt.Errorf("%v to %s: %w", s, n.Name, err))
				}
			}
		}
	}
	signal(syscall.SIGCONT) // one that was paused could not obey
	signal(syscall.SIGTERM)
	if !gone(ctx, nodes, grace) {
		signal(syscall.SIGKILL)
		if !gone(context.WithoutCancel(ctx), nodes, grace) {
			errs = append(errs, errors.New("a process survives SIGKILL"))
		}
	}
	return errors.Join(errs...)
}

func gone(ctx context.Context, nodes []*Member, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(askInterval)
	defer tick.Stop()
	for {
		alive := false
		for _, n := range nodes {
			alive = alive || n.alive()
		}
		if !alive {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

// lastLines is the end of a log, for the message about a node that died.
func lastLines(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
