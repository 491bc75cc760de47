package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/taskpb"

	"github.com/sluiceio/sluice/cmd/sluice/internal/ops"
)

const (
	readyTimeout = 30 * time.Second
	// stopGrace is longer than what a worker takes to end its task processes and tell the leader.
	stopGrace = 12 * time.Second
)

// Dev runs a development cluster in the foreground until ctx ends or every node is gone.
func Dev(ctx context.Context, n Node, o DevOptions) error { return dev(ctx, n, o, supervised) }

// DevDetached starts a development cluster that lives on by itself, until DevStop.
func DevDetached(ctx context.Context, n Node, o DevOptions) error { return dev(ctx, n, o, detached) }

func dev(ctx context.Context, n Node, o DevOptions, b bond) (err error) {
	if err := o.validate(); err != nil {
		return err
	}
	dir, err := dataDir(o.DataDir)
	if err != nil {
		return err
	}
	lock, err := vfs.OS{}.Lock(filepath.Join(dir, lockName))
	if errors.Is(err, vfs.ErrLocked) {
		return runsAlready(dir)
	}
	if err != nil {
		return devFault(ops.ExitOther, "", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	f, err := prepare(ctx, o, dir)
	if err != nil {
		return err
	}
	s := &supervisor{file: f, opts: o, node: n, bond: b, exits: make(chan exit, len(f.Nodes))}
	return s.run(ctx)
}

// lockName is the file whose lock the one who writes cluster.json holds: a supervisor as long as it lives, a start of
// a detached cluster, a stop.
const lockName = "cluster.lock"

func runsAlready(dir string) error {
	return devFault(ops.ExitPrecondition, "sluice dev stop --data-dir "+dir, fmt.Errorf("a cluster runs in %s already", dir))
}

// prepare lays the cluster out.
func prepare(ctx context.Context, o DevOptions, dir string) (*File, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, devFault(ops.ExitOther, "", err)
	}
	before, err := readFile(dir)
	if err != nil {
		return nil, err
	}
	if before != nil {
		for _, n := range before.Nodes {
			if n.alive() {
				return nil, runsAlready(dir)
			}
		}
	}
	return layOut(ctx, o, before, dir, binary)
}

func dataDir(asked string) (string, error) {
	if asked == "" {
		dir, err := os.MkdirTemp("", "sluice-dev-")
		if err != nil {
			return "", devFault(ops.ExitOther, "", err)
		}
		return dir, nil
	}
	dir, err := filepath.Abs(asked)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return "", devFault(ops.ExitOther, "", err)
	}
	return dir, nil
}

// supervisor is one run of a development cluster.
type supervisor struct {
	file  *File
	opts  DevOptions
	node  Node
	bond  bond
	exits chan exit // one per node: there is room for all
}

type exit struct {
	node *Member
	err  error
}

func (s *supervisor) run(ctx context.Context) error {
	nodes := run.NewGroup(context.WithoutCancel(ctx), "dev")
	nodes.Go("nodes", func(context.Context) error { return s.life(ctx, nodes) })
	return nodes.Wait()
}

// life starts the nodes, waits and ends them, on one thread: the kernel's promise to tell children of our death is bound
// to the thread that started them.
func (s *supervisor) life(ctx context.Context, nodes *run.Group) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begun := false
	defer func() {
		if s.bond == detached && begun {
			return
		}
		err = errors.Join(err, s.stop(ctx))
	}()
	for _, n := range s.file.Nodes {
		cmd, err := start(s.file.Binary, n, s.file.args(n, s.opts), s.bond)
		if err != nil {
			return devFault(ops.ExitOther, "", err)
		}
		if s.bond == supervised {
			nodes.Go(n.Name, func(context.Context) error { return s.reap(n, cmd) })
		}
	}
	if err := s.file.write(); err != nil {
		return err
	}
	leader, err := s.ready(ctx)
	if err != nil {
		return err
	}
	if err := s.banner(leader); err != nil {
		return err
	}
	begun = true
	if s.bond == detached {
		if s.file.Temporary {
			return remember(s.file.DataDir)
		}
		return nil
	}
	return s.watch(ctx)
}

// reap waits for the end of a node. A detached one outlives us, so nobody waits for it.
func (s *supervisor) reap(n *Member, cmd *exec.Cmd) error {
	err := cmd.Wait()
	s.exits <- exit{node: n, err: err}
	return nil
}

// watch tells what becomes of the nodes. One that dies is left dead: what the others do then is what a cluster of several
// is tried for.
func (s *supervisor) watch(ctx context.Context) error {
	for left := len(s.file.Nodes); left > 0; left-- {
		select {
		case e := <-s.exits:
			_, _ = fmt.Fprintf(s.node.Err, "%s (pid %d) ended: %s\n  again: %s %s\n", e.node.Name, e.node.PID, ended(e.err), s.file.Binary,
				strings.Join(s.file.args(e.node, s.opts), " "))
		case <-ctx.Done():
			return nil
		}
	}
	return devFault(ops.ExitOther, "the logs are below "+filepath.Join(s.file.DataDir, "logs"), errors.New("every node has ended"))
}

func ended(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// stop ends all nodes, workers first, so that coordinators see them leave.
func (s *supervisor) stop(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if err := endNodes(ctx, s.file); err != nil {
		return err
	}
	return tidy(s.file)
}

// ready waits for a leader and for every worker to be registered, and returns the name of the leader.
func (s *supervisor) ready(ctx context.Context) (leader string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	client, err := ops.NewClient(s.file.addrs(), ops.Dial(wire.Policy{}))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	tick := time.NewTicker(askInterval)
	defer tick.Stop()
	missing := "no coordinator answers"
	for {
		select {
		case e := <-s.exits:
			return "", endedAtOnce(e.node, ended(e.err))
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return "", ctx.Err()
			}
			return "", devFault(ops.ExitTimeout, "the logs are below "+filepath.Join(s.file.DataDir, "logs"),
				fmt.Errorf("the cluster was not ready within %s: %s", readyTimeout, missing))
		case <-tick.C:
			if s.bond == detached {
				for _, n := range s.file.Nodes {
					if !n.alive() {
						return "", endedAtOnce(n, "its process is gone")
					}
				}
			}
			leader, missing = s.look(ctx, client)
			if missing == "" {
				return leader, nil
			}
		}
	}
}

func endedAtOnce(n *Member, how string) error {
	return devFault(ops.ExitOther, "the whole log: "+n.Log, fmt.Errorf("%s ended at once: %s\n%s", n.Name, how, lastLines(n.Log, 8)))
}

// lookTime bounds one look; the nodes are starting, so most calls fail at first.
const lookTime = time.Second

// look says what is still missing, empty for nothing.
func (s *supervisor) look(ctx context.Context, client *ops.Client) (leader, missing string) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	var workers *apipb.WorkersResponse
	err := client.Do(ctx, func(ctx context.Context, to ops.Coordinator) (err error) {
		workers, err = to.Cluster.Workers(ctx, &apipb.WorkersRequest{})
		return err
	})
	if err != nil {
		return "", "no leader answers: " + err.Error()
	}
	alive := 0
	for _, w := range workers.Workers {
		if w.Worker.GetHealth() == commandpb.WorkerHealth_WORKER_ALIVE && w.LastHeartbeatUs >= 0 {
			alive++
		}
	}
	if want := len(s.file.role(roleWorker)); alive < want {
		return "", fmt.Sprintf("%d of %d workers are registered", alive, want)
	}
	info, err := ops.Info(ctx, client)
	if err != nil {
		return "", err.Error()
	}
	for _, n := range s.file.role(roleCoordinator) {
		if n.API == info.LeaderAddress {
			return n.Name, ""
		}
	}
	return "", "the leader's address is not known yet"
}

func (s *supervisor) banner(leader string) error {
	f := s.file
	persistence, stop := f.DataDir, "ctrl-C"
	if s.bond == detached {
		stop = "sluice dev stop"
	}
	switch {
	case f.Temporary:
		persistence = "NONE: jobs are lost at the end (keep them with --data-dir ./.sluice)"
	case s.bond == detached:
		stop += " --data-dir " + f.DataDir
	}
	addrs := strings.Join(f.addrs(), ",")
	lines := []string{
		fmt.Sprintf("sluice %s (task protocol %d) — development cluster, NOT for production", Version(), taskpb.Protocol),
		"  API           " + addrs,
		fmt.Sprintf("  Coordinators  %d (leader: %s)", len(f.role(roleCoordinator)), leader),
		fmt.Sprintf("  Workers       %d × %d slots", len(f.role(roleWorker)), s.opts.Slots),
		"  Security      off (loopback only)",
		"  Logs          " + filepath.Join(f.DataDir, "logs"),
		"  Persistence   " + persistence,
		"  Stop          " + stop,
		"  Use           export SLUICE_ADDR=" + addrs,
	}
	return s.node.answer(f, "%s", strings.Join(lines, "\n"))
}
