package clustertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/sluiceio/sluice/coordinator"
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
	disks      disks
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
	free, err := wire.FreeLoopback(context.Background(), 3)
	if err != nil {
		c.t.Fatal(err)
	}
	n.API, n.Raft, n.HTTP = free[0], free[1], free[2]
	return n
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
