package clustertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/sluiceio/sluice/coordinator"
	"github.com/sluiceio/sluice/coordinator/consensus"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/apipb"
)

// Where a cluster lives.
type Where int

const (
	// InMemory: in-memory stores, network and files. Call it inside a synctest bubble, and its time is fake.
	InMemory Where = iota
	// OnDisk: the real stores in a temporary directory, and loopback TCP.
	OnDisk
)

// Options of a cluster.
type Options struct {
	Where Where
	// Nodes that form the cluster at start. 0: three.
	Nodes int
	// Configure changes the configuration of a node before each of its starts; may be nil.
	Configure func(name string, cfg *coordinator.Config)
	// Parts changes what a node stands on before each of its starts; may be nil.
	Parts func(name string, parts *coordinator.Parts)
	// Log of the nodes; nil: none.
	Log hclog.Logger
}

// Cluster is a set of coordinators.
type Cluster struct {
	t       testing.TB
	opts    Options
	network *Network // InMemory only
	dir     string   // OnDisk only
	nodes   []*Node
	// transports by address: what is connected to what, InMemory only.
	transports map[raft.ServerAddress]*raft.InmemTransport
	clients    map[string]*grpc.ClientConn
	workers    []*Worker
}

// Node is one coordinator of a cluster: its disk and its addresses, which survive it, and perhaps a running process.
type Node struct {
	Name      string
	ID        string // known after the first start
	API, Raft string
	HTTP      string // OnDisk only

	c      *Cluster
	expect int
	join   []string

	// What survives a crash.
	fs        *vfs.Mem
	logs      *raft.InmemStore
	snapshots *raft.InmemSnapshotStore
	dir       string

	kill func(cause error)
	task *run.Group
	over chan struct{} // closed when Run has returned
	err  error         // of the last life
}

// New starts a cluster and registers its end with the test.
func New(t testing.TB, opts Options) *Cluster {
	t.Helper()
	if opts.Nodes == 0 {
		opts.Nodes = 3
	}
	if opts.Log == nil {
		opts.Log = hclog.NewNullLogger()
	}
	c := &Cluster{
		t: t, opts: opts, network: NewNetwork(), transports: make(map[raft.ServerAddress]*raft.InmemTransport),
		clients: make(map[string]*grpc.ClientConn),
	}
	if opts.Where == OnDisk {
		c.dir = t.TempDir()
	}
	t.Cleanup(c.close)
	for i := range opts.Nodes {
		c.nodes = append(c.nodes, c.prepare(fmt.Sprintf("n%d", i+1), opts.Nodes))
	}
	for _, n := range c.nodes {
		for _, other := range c.nodes {
			if other != n {
				n.join = append(n.join, other.API)
			}
		}
		n.Start()
	}
	return c
}

// Add prepares one more node, which joins the cluster when it is started.
func (c *Cluster) Add(name string) *Node {
	c.t.Helper()
	n := c.prepare(name, 0)
	for _, other := range c.nodes {
		n.join = append(n.join, other.API)
	}
	c.nodes = append(c.nodes, n)
	return n
}

func (c *Cluster) prepare(name string, expect int) *Node {
	c.t.Helper()
	n := &Node{Name: name, c: c, expect: expect}
	if c.opts.Where == InMemory {
		n.API, n.Raft = name+":1", name+":2"
		n.fs, n.logs, n.snapshots = vfs.NewMem(), raft.NewInmemStore(), raft.NewInmemSnapshotStore()
		n.dir = "/" + name
		return n
	}
	n.dir = filepath.Join(c.dir, name)
	n.API, n.Raft, n.HTTP = c.freeAddress(), c.freeAddress(), c.freeAddress()
	return n
}

// freeAddress draws a loopback port that is free now. Another process could take it before it is used; the start of the
// node would then fail, loudly.
func (c *Cluster) freeAddress() string {
	l, err := wire.Policy{}.Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			c.t.Fatal(err)
		}
	}()
	return l.Addr().String()
}

// Nodes of the cluster, those that do not run included.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// Node by position.
func (c *Cluster) Node(i int) *Node { return c.nodes[i] }

// ByID finds a node by the id that it drew.
func (c *Cluster) ByID(id string) *Node {
	for _, n := range c.nodes {
		if n.ID == id {
			return n
		}
	}
	return nil
}

func (c *Cluster) close() {
	for _, w := range c.workers {
		if w.conns != nil {
			w.Stop()
		}
	}
	for _, n := range c.nodes {
		if n.task != nil {
			n.stop(coordinator.ErrKilled)
		}
	}
	for _, conn := range c.clients {
		if err := conn.Close(); err != nil {
			c.t.Error(err)
		}
	}
}

// Config is what the node is started with.
func (n *Node) Config() coordinator.Config {
	cfg := coordinator.DefaultConfig()
	cfg.DataDir = n.dir
	cfg.Listen, cfg.RaftListen, cfg.HTTPListen = n.API, n.Raft, n.HTTP
	cfg.BootstrapExpect, cfg.Join = n.expect, n.join
	cfg.HeartbeatTimeout, cfg.ElectionTimeout, cfg.LeaseTimeout = 500*time.Millisecond, 500*time.Millisecond, 250*time.Millisecond
	cfg.Log = n.c.opts.Log
	cfg.Version = "test"
	if n.c.opts.Configure != nil {
		n.c.opts.Configure(n.Name, &cfg)
	}
	return cfg
}

// Start runs the node and returns when its listeners are open. A node that does not get that far fails the test.
func (n *Node) Start() {
	n.c.t.Helper()
	if err := n.TryStart(); err != nil {
		n.c.t.Fatalf("start %s: %v", n.Name, err)
	}
}

// TryStart is Start for nodes that may refuse.
func (n *Node) TryStart() error {
	if n.task != nil {
		n.c.t.Fatalf("%s runs already", n.Name)
	}
	cfg := n.Config()
	listening := make(chan coordinator.Addresses, 1)
	cfg.Listening = func(a coordinator.Addresses) { listening <- a }
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(n.c.t.Context()))
	n.kill = cancel
	n.task = run.NewGroup(context.Background(), n.Name)
	ended := make(chan error, 1)
	n.task.Go("run", func(context.Context) error {
		err := n.run(ctx, cfg)
		ended <- err
		return nil
	})
	select {
	case a := <-listening:
		n.ID = a.ID
		n.ended(ended)
		return nil
	case err := <-ended:
		waited := n.task.Wait()
		n.task = nil
		return errors.Join(err, waited)
	}
}

// ended remembers how the life of the node ended.
func (n *Node) ended(ended <-chan error) {
	over := make(chan struct{})
	n.err, n.over = nil, over
	n.task.Go("end", func(context.Context) error {
		n.err = <-ended
		close(over)
		return nil
	})
}

func (n *Node) run(ctx context.Context, cfg coordinator.Config) error {
	if n.c.opts.Where == OnDisk && n.c.opts.Parts == nil {
		return coordinator.Run(ctx, cfg)
	}
	parts, err := n.parts(ctx, cfg)
	if err != nil {
		return err
	}
	if n.c.opts.Parts != nil {
		n.c.opts.Parts(n.Name, &parts)
	}
	return coordinator.RunOn(ctx, cfg, parts)
}

func (n *Node) parts(ctx context.Context, cfg coordinator.Config) (coordinator.Parts, error) {
	if n.c.opts.Where == OnDisk {
		return coordinator.Open(ctx, cfg)
	}
	api, err := n.c.network.Listen(n.API)
	if err != nil {
		return coordinator.Parts{}, err
	}
	n.c.network.Heal(n.Name)
	address := raft.ServerAddress(n.Raft)
	_, transport := raft.NewInmemTransport(address)
	for other, t := range n.c.transports {
		if other != address {
			t.Connect(address, transport)
			transport.Connect(other, t)
		}
	}
	n.c.transports[address] = transport
	return coordinator.Parts{
		FS:          n.fs,
		Stores:      consensus.Stores{Logs: n.logs, Stable: n.logs, Snapshots: n.snapshots},
		Transport:   transport,
		RaftAddress: n.Raft,
		API:         api,
		Dial:        n.c.network.Dialer(n.Name),
		Exit:        func(code int) { panic(fmt.Sprintf("%s exits with %d", n.Name, code)) },
	}, nil
}

// Running reports whether the node was started and not stopped.
func (n *Node) Running() bool { return n.task != nil }

// Kill ends the node as a crash does: it is off the network at once, and nothing is handed over.
func (n *Node) Kill() error {
	if n.c.opts.Where == InMemory {
		n.Unplug()
	}
	return n.stop(coordinator.ErrKilled)
}

// Stop is a planned stop.
func (n *Node) Stop() error { return n.stop(context.Canceled) }

func (n *Node) stop(cause error) error {
	n.kill(cause)
	return n.Wait()
}

// endLimit is how long the end of a node may take. Whatever a stop waits for is bounded by less.
const endLimit = 2 * time.Minute

// Wait returns when the node has ended, with the error of Run. One that does not end fails the test, with everything
// that still runs.
func (n *Node) Wait() error {
	n.c.t.Helper()
	limit := time.NewTimer(endLimit)
	defer limit.Stop()
	select {
	case <-n.over:
	case <-limit.C:
		all := make([]byte, 4<<20)
		n.c.t.Fatalf("%s does not end:\n%s", n.Name, all[:runtime.Stack(all, true)])
	}
	waited := n.task.Wait()
	n.task = nil
	return errors.Join(n.err, waited)
}

// Dial connects to an address of the cluster as a client does. It may be called from any goroutine.
func (c *Cluster) Dial(ctx context.Context, address string) (net.Conn, error) {
	if c.opts.Where == InMemory {
		return c.network.Dialer("client")(ctx, address)
	}
	return wire.Policy{}.Dial(ctx, address)
}

// ClientOptions are for connections to nodes: they find a restarted node quickly.
func (c *Cluster) ClientOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithContextDialer(c.Dial),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}),
	}
}

// Client is the shared connection of clients to a node.
func (n *Node) Client() *grpc.ClientConn {
	n.c.t.Helper()
	if conn := n.c.clients[n.Name]; conn != nil {
		return conn
	}
	conn, err := wire.Policy{}.Client(n.API, n.c.ClientOptions()...)
	if err != nil {
		n.c.t.Fatal(err)
	}
	n.c.clients[n.Name] = conn
	return conn
}

// Jobs is the client of a node's job service; the others likewise.
func (n *Node) Jobs() apipb.JobsClient { return apipb.NewJobsClient(n.Client()) }

// Artifacts is the client of the artifact service.
func (n *Node) Artifacts() apipb.ArtifactsClient { return apipb.NewArtifactsClient(n.Client()) }

// Cluster is the client of the cluster service.
func (n *Node) Cluster() apipb.ClusterClient { return apipb.NewClusterClient(n.Client()) }

// Node is the client of the service between coordinators.
func (n *Node) Node() apipb.NodeClient { return apipb.NewNodeClient(n.Client()) }

// poll is how often a wait looks again. What is waited for is made by timers of the nodes, so there is no event to wait
// for instead.
const poll = 20 * time.Millisecond

// Eventually waits until check returns nil, and fails the test with its last error after limit.
func (c *Cluster) Eventually(limit time.Duration, what string, check func(ctx context.Context) error) {
	c.t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Second)
		err := check(ctx)
		cancel()
		if err == nil {
			return
		}
		again := time.NewTimer(poll)
		select {
		case <-again.C:
		case <-deadline.C:
			c.t.Fatalf("%s: not within %s: %v", what, limit, err)
		}
		again.Stop()
	}
}

// AwaitLeader returns the node that leads and is ready, once every running node agrees on it.
func (c *Cluster) AwaitLeader() *Node {
	c.t.Helper()
	var leader *Node
	c.Eventually(20*time.Second, "one leader that all know", func(ctx context.Context) error {
		leader = nil
		for _, n := range c.nodes {
			if !n.Running() {
				continue
			}
			info, err := n.Cluster().Info(ctx, &apipb.InfoRequest{})
			if err != nil {
				return fmt.Errorf("%s: %w", n.Name, err)
			}
			found := c.ByID(info.Leader)
			switch {
			case found == nil || info.LeaderAddress == "":
				return fmt.Errorf("%s knows no leader", n.Name)
			case leader != nil && found != leader:
				return fmt.Errorf("%s and another take different nodes for the leader", n.Name)
			}
			leader = found
		}
		if leader == nil || !leader.Running() {
			return errors.New("the leader does not run")
		}
		// A fresh read proves that it is established.
		_, err := leader.Jobs().List(ctx, &apipb.ListRequest{})
		return err
	})
	return leader
}

// Followers are the running nodes other than n.
func (c *Cluster) Followers(n *Node) []*Node {
	var all []*Node
	for _, other := range c.nodes {
		if other != n && other.Running() {
			all = append(all, other)
		}
	}
	return all
}

// SetExpect changes what the node expects at its next start.
func (n *Node) SetExpect(nodes int) { n.expect = nodes }

// Move gives a stopped node other addresses. InMemory only.
func (n *Node) Move(host string) {
	n.API, n.Raft = host+":1", host+":2"
	if conn := n.c.clients[n.Name]; conn != nil {
		delete(n.c.clients, n.Name)
		if err := conn.Close(); err != nil {
			n.c.t.Error(err)
		}
	}
}

// LoseRaftState forgets the log, the vote and the snapshots of a stopped node; its other files stay.
func (n *Node) LoseRaftState() {
	n.c.t.Helper()
	if n.c.opts.Where == InMemory {
		n.logs, n.snapshots = raft.NewInmemStore(), raft.NewInmemSnapshotStore()
		return
	}
	for _, name := range []string{"raft.db", "snapshots"} {
		if err := vfs.Discard(vfs.OS{}, filepath.Join(n.dir, name)); err != nil {
			n.c.t.Fatal(err)
		}
	}
}

// Dir is the node's data directory; OnDisk only.
func (n *Node) Dir() string { return n.dir }

// Files is the node's file system; InMemory only.
func (n *Node) Files() *vfs.Mem { return n.fs }

// Logs is the node's Raft log; InMemory only.
func (n *Node) Logs() *raft.InmemStore { return n.logs }

// Ended reports whether a started node has come to its end by itself.
func (n *Node) Ended() bool {
	select {
	case <-n.over:
		return true
	default:
		return false
	}
}

// Unplug takes the node off the network; its process goes on. InMemory only.
func (n *Node) Unplug() {
	n.c.network.Cut(n.Name)
	address := raft.ServerAddress(n.Raft)
	if n.c.transports[address] == nil {
		return
	}
	n.c.transports[address].DisconnectAll()
	for other, t := range n.c.transports {
		if other != address {
			t.Disconnect(address)
		}
	}
	delete(n.c.transports, address)
}
