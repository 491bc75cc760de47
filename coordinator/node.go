package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/sluiceio/sluice/coordinator/api"
	"github.com/sluiceio/sluice/coordinator/artifact"
	"github.com/sluiceio/sluice/coordinator/consensus"
	"github.com/sluiceio/sluice/coordinator/datadir"
	"github.com/sluiceio/sluice/coordinator/formation"
	"github.com/sluiceio/sluice/coordinator/schedule"
	"github.com/sluiceio/sluice/coordinator/telemetry"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/snapshot"
)

// Run is a coordinator's life: it opens the data directory and the listeners, forms or joins a cluster, and serves until
// ctx ends (a planned stop: leadership is handed over first, and nil returned) or something makes going on unsafe.
func Run(ctx context.Context, cfg Config) (err error) {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("coordinator configuration: %w", err)
	}
	fsys := vfs.OS{}
	if cfg.DataDir, err = filepath.Abs(cfg.DataDir); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if err := vfs.MakeDir(fsys, cfg.DataDir); err != nil {
		return err
	}
	lock, err := datadir.Lock(fsys, cfg.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	parts, err := Open(ctx, cfg)
	if err != nil {
		return err
	}
	return RunOn(ctx, cfg, parts)
}

// ErrKilled as the cause of Run's context ends a node at once, without handing anything over: what a crash would do. It
// is for tests of what a crash leaves.
var ErrKilled = errors.New("killed")

// node is one coordinator. It is assembled by RunOn and lives as long as that.
type node struct {
	cfg        Config
	parts      Parts
	id         datadir.Identity // Cluster is written by belong alone
	apiAddress string
	log        hclog.Logger
	started    time.Time
	metrics    *telemetry.Metrics

	raft      *raft.Raft
	transport *consensus.Transport
	fsm       *fsm
	artifacts *artifact.Store
	touched   *touched
	gathering *formation.Gathering
	throne    *throne
	conns     *conns

	group     *run.Group // everything that runs
	futures   *futures
	proposals chan struct{} // one for each proposal under way
	renew     chan struct{} // the facts were replaced: begin the reign again
	failed    chan error    // going on is unsafe
}

// maxProposals of clients are under way at a time, on top of the scheduler's own.
const maxProposals = 512

// RunOn is Run on given parts, which it owns from now on.
func RunOn(ctx context.Context, cfg Config, parts Parts) (err error) {
	n := &node{
		cfg: cfg, parts: parts, apiAddress: advertised(cfg.Advertise, parts.API), started: time.Now(),
		metrics: telemetry.New(), touched: newTouched(), gathering: formation.New(), throne: newThrone(), futures: newFutures(),
		proposals: make(chan struct{}, maxProposals), renew: make(chan struct{}, 1), failed: make(chan error, 1),
	}
	n.log = cfg.Log.Named("coordinator")
	n.conns = newConns(cfg.Policy.Client, parts.Dial)
	defer func() { err = errors.Join(err, n.conns.close(), parts.Stores.Close(), snapshot.Close(parts.Snapshots)) }()
	if err := n.prepare(); err != nil {
		return errors.Join(err, parts.API.Close(), closeIf(parts.HTTP), parts.Transport.Close())
	}
	n.fsm = newFSM(n.fail, n.metrics.Applied)
	if n.raft, err = n.startRaft(); err != nil {
		return errors.Join(err, parts.API.Close(), closeIf(parts.HTTP), parts.Transport.Close())
	}
	n.metrics.Watch(source{n})
	return n.serve(ctx)
}

func closeIf(c io.Closer) error {
	if c == nil {
		return nil
	}
	return c.Close()
}

// prepare reads the data directory and refuses one that must not be started.
func (n *node) prepare() (err error) {
	dir, fsys := n.cfg.DataDir, n.parts.FS
	if err := vfs.MakeDir(fsys, dir); err != nil {
		return err
	}
	if err := datadir.CheckHalted(fsys, dir); err != nil {
		return err
	}
	if n.id, err = datadir.Load(fsys, dir); err != nil {
		return err
	}
	n.log = n.log.With("node", n.id.ID)
	hasState, err := n.parts.Stores.HasState()
	if err != nil {
		return fmt.Errorf("look for raft state: %w", err)
	}
	if n.id.Cluster != "" && !hasState {
		return fmt.Errorf("data directory %s belongs to coordinator %s of cluster %s, but its raft log is gone: a voter without memory"+
			" could vote twice; move the directory away, remove the coordinator from the cluster and let it join anew", dir, n.id.ID, n.id.Cluster)
	}
	n.id.API, n.id.Raft, n.id.HTTP = n.parts.API.Addr().String(), n.parts.RaftAddress, ""
	if n.parts.HTTP != nil {
		n.id.HTTP = n.parts.HTTP.Addr().String()
	}
	if err := datadir.Store(fsys, dir, n.id); err != nil {
		return err
	}
	if err := datadir.ClearSpool(fsys, dir); err != nil {
		return err
	}
	if err := n.fitTimeouts(); err != nil {
		return err
	}
	n.artifacts, err = artifact.OpenStore(fsys, datadir.Artifacts(dir), n.cfg.MaxArtifactBytes)
	return err
}

// Heartbeats are answered behind the disk, so the timeouts follow from it: syncsPerTimeout of them, up to slowestTimeout,
// above which a coordinator is no use on such a disk and elections have to show it.
const (
	syncsPerTimeout = 10
	slowestTimeout  = 5 * time.Second
)

func (n *node) fitTimeouts() error {
	took, err := consensus.SyncTime(n.parts.FS, n.cfg.DataDir)
	if err != nil {
		return err
	}
	least := min(syncsPerTimeout*took, slowestTimeout)
	if n.cfg.HeartbeatTimeout >= least {
		return nil
	}
	n.log.Warn("the disk is slow: raft's timeouts are raised", "sync", took, "configured", n.cfg.HeartbeatTimeout, "used", least)
	n.cfg.HeartbeatTimeout = least
	n.cfg.ElectionTimeout = max(n.cfg.ElectionTimeout, least)
	return nil
}

func (n *node) startRaft() (*raft.Raft, error) {
	stores, err := n.parts.Stores.Watch(n.cfg.HangTimeout, n.hung)
	if err != nil {
		return nil, err
	}
	if err := consensus.CheckNewest(stores.Snapshots); err != nil {
		return nil, err
	}
	cfg := raft.DefaultConfig()
	cfg.LocalID = raft.ServerID(n.id.ID)
	cfg.HeartbeatTimeout = n.cfg.HeartbeatTimeout
	cfg.ElectionTimeout = n.cfg.ElectionTimeout
	cfg.LeaderLeaseTimeout = n.cfg.LeaseTimeout
	cfg.SnapshotInterval = n.cfg.SnapshotInterval
	cfg.SnapshotThreshold = n.cfg.SnapshotThreshold
	cfg.TrailingLogs = n.cfg.TrailingLogs
	cfg.NoLegacyTelemetry = true
	cfg.Logger = n.cfg.Log.Named("raft").With("node", n.id.ID)
	n.transport = consensus.NewTransport(n.parts.Transport, func(to raft.ServerID, installs int) {
		n.metrics.Installs.Inc()
		n.log.Error("a follower needs one snapshot after the other: it cannot keep up with the log while it installs one",
			"coordinator", string(to), "snapshots", installs)
	})
	r, err := raft.NewRaft(cfg, n.fsm, stores.Logs, stores.Stable, stores.Snapshots, n.transport)
	if err != nil {
		return nil, fmt.Errorf("start raft: %w", errors.Join(err, n.fsm.restoreProblem()))
	}
	return r, nil
}

// hung ends the process; see consensus.Stores.Watch.
func (n *node) hung(operation string) {
	n.log.Error("the disk under the raft log hangs; this process ends so that another coordinator can lead",
		"operation", operation, "limit", n.cfg.HangTimeout)
	n.parts.Exit(ExitHung)
}

// fail ends Run with an error, because going on would be unsafe. It returns at once.
func (n *node) fail(reason error) {
	n.log.Error("this coordinator stops", "reason", reason)
	select {
	case n.failed <- reason:
	default: // it is stopping already
	}
}

// diverged stops this node for good: its facts differ from those of another coordinator.
func (n *node) diverged(other string, index uint64, ours, theirs []byte) {
	reason := fmt.Errorf("at index %d the facts of coordinator %s (chain %x) differ from those of coordinator %s (chain %x)",
		index, n.id.ID, ours, other, theirs)
	if err := datadir.Halt(n.parts.FS, n.cfg.DataDir, reason.Error()); err != nil {
		reason = errors.Join(reason, err)
	}
	n.fail(reason)
}

// serve runs everything until the end, and ends everything.
func (n *node) serve(ctx context.Context) error {
	// The group does not end with ctx but after the hand-over.
	n.group = run.NewGroup(context.WithoutCancel(ctx), "coordinator")
	server, err := n.newServer()
	if err != nil {
		n.transport.Interrupt()
		return errors.Join(err, n.raft.Shutdown().Error(), n.parts.API.Close(), closeIf(n.parts.HTTP))
	}
	if n.cfg.Listening != nil {
		n.cfg.Listening(Addresses{ID: n.id.ID, API: n.apiAddress, Raft: n.parts.RaftAddress, HTTP: n.id.HTTP})
	}
	n.log.Info("coordinator started", "api", n.apiAddress, "raft", n.parts.RaftAddress, "http", n.id.HTTP, "version", n.cfg.Version)
	n.group.Go("api", func(context.Context) error {
		if err := server.Serve(n.parts.API); !errors.Is(err, grpc.ErrServerStopped) {
			return err
		}
		return nil // the end came before the beginning
	})
	if n.parts.HTTP != nil {
		n.group.Go("http", func(ctx context.Context) error { return n.serveHTTP(ctx, n.parts.HTTP) })
	}
	n.group.Go("watch leader", n.watchLeader)
	n.group.Go("leadership", n.followLeadership)
	n.group.Go("enter", n.enter)
	n.group.Go("belong", n.belong)
	n.group.Go("keep", n.keep)
	n.group.Go("failure", func(ctx context.Context) error {
		select {
		case err := <-n.failed:
			return err
		case <-ctx.Done():
			return nil
		}
	})
	select {
	case <-ctx.Done():
		if !errors.Is(context.Cause(ctx), ErrKilled) {
			n.handOver()
		}
	case <-n.group.Context().Done():
	}
	return n.shutDown(server)
}

// handOver gives leadership away before a planned stop, so that the cluster does not have to find out.
func (n *node) handOver() {
	if n.raft.State() != raft.Leader || len(n.servers()) == 1 {
		return
	}
	ctx, cancel := context.WithTimeout(n.group.Context(), n.cfg.StopTimeout)
	defer cancel()
	err := n.transfer(ctx, n.raft.LeadershipTransfer)
	if err == nil {
		_, err = n.awaitOther(ctx)
	}
	if err != nil {
		n.log.Warn("leadership was not handed over before the stop", "error", err)
	}
}

// shutDown ends everything and waits for it: calls, then reigns and tasks, then what still waits for the log, then Raft.
// The last to go is what the others stood on.
func (n *node) shutDown(server *grpc.Server) error {
	n.group.Stop()
	server.Stop()
	n.transport.Interrupt()
	err := n.group.Wait()
	if n.futures.settled(n.cfg.HangTimeout) {
		err = errors.Join(err, n.futures.group.Wait())
	} else {
		// Only a disk that hangs gets here, and then this process is about to end anyway.
		n.log.Error("raft has left questions unanswered; it is shut down all the same")
	}
	err = errors.Join(err, n.raft.Shutdown().Error(), n.parts.Transport.Close())
	n.log.Info("coordinator stopped", "error", err)
	return err
}

func (n *node) newServer() (*grpc.Server, error) {
	handlers, err := api.New(api.Config{
		ID: n.id.ID, Version: n.cfg.Version, ProtocolMin: n.cfg.ProtocolMin, ProtocolMax: n.cfg.ProtocolMax,
		NoLeaderWait: n.cfg.NoLeaderWait, Group: n.group, Log: n.log.Named("api"), Snapshots: n.parts.Snapshots,
	}, n)
	if err != nil {
		return nil, err
	}
	server := n.cfg.Policy.Server(append(handlers.Options(), grpc.WaitForHandlers(true))...)
	handlers.Register(server)
	controlpb.RegisterControlServer(server, control{node: n})
	n.group.Go("health", handlers.KeepHealth)
	return server, nil
}

// scheduleConfig are the limits of the scheduler in one term.
func (n *node) scheduleConfig(term uint64) schedule.Config {
	c := schedule.DefaultConfig()
	c.Leader, c.Term = n.id.ID, term
	c.Heartbeat, c.LossTimeout, c.Fits = n.cfg.WorkerHeartbeat, n.cfg.WorkerLostAfter, n.cfg.Fits
	return c
}

// lastSnapshotIndex is the index of the newest snapshot that this node has taken or installed.
func (n *node) lastSnapshotIndex() uint64 {
	index, err := strconv.ParseUint(n.raft.Stats()["last_snapshot_index"], 10, 64)
	if err != nil {
		return 0
	}
	return index
}

// conns are lazy gRPC connections to other processes, one for each address.
type conns struct {
	client func(addr string, opts ...grpc.DialOption) (*grpc.ClientConn, error)
	opts   []grpc.DialOption

	mu struct {
		sync.Mutex
		byAddress map[string]*grpc.ClientConn
		closed    bool
	}
}

func newConns(client func(string, ...grpc.DialOption) (*grpc.ClientConn, error), dial dialFunc) *conns {
	c := &conns{client: client, opts: []grpc.DialOption{
		grpc.WithContextDialer(dial),
		// A coordinator that comes back must be found within an election, not within the default of minutes.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: time.Second,
		}),
	}}
	c.mu.byAddress = make(map[string]*grpc.ClientConn)
	return c
}

// Conn returns the connection to an address.
func (n *node) Conn(address string) (grpc.ClientConnInterface, error) {
	c := n.conns
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return nil, errors.New("this coordinator is stopping")
	}
	if conn := c.mu.byAddress[address]; conn != nil {
		return conn, nil
	}
	if address == "" {
		return nil, errors.New("no address")
	}
	conn, err := c.client(address, c.opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	c.mu.byAddress[address] = conn
	return conn, nil
}

// keepOnly closes connections to addresses that nobody uses any more.
func (c *conns) keepOnly(used map[string]bool) error {
	c.mu.Lock()
	var gone []*grpc.ClientConn
	for address, conn := range c.mu.byAddress {
		if !used[address] {
			gone = append(gone, conn)
			delete(c.mu.byAddress, address)
		}
	}
	c.mu.Unlock()
	var errs []error
	for _, conn := range gone {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

func (c *conns) close() error {
	c.mu.Lock()
	c.mu.closed = true
	open := c.mu.byAddress
	c.mu.byAddress = nil
	c.mu.Unlock()
	var errs []error
	for _, conn := range open {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}
