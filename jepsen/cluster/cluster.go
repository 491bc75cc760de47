package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/sluiceio/sluice/jepsen/cluster/link"
	"github.com/sluiceio/sluice/proto/apipb"
)

// Options of a cluster. Zero counts are refused, not guessed.
type Options struct {
	Binary string // the sluice binary
	Dir    string // data directories and logs go below it
	// Coordinators is 1, 3 or 5.
	Coordinators int
	Workers      int
	Slots        int      // per worker
	Env          []string // added to the environment of every node, for example fail points
	// Placement of the nodes; nil: Loopback.
	Placement Placement
	// WorkerArgs and CoordinatorArgs are added to the command lines.
	WorkerArgs, CoordinatorArgs []string
}

// Cluster is a set of nodes.
type Cluster struct {
	opts  Options
	place Placement
	nodes []*Node
	conns []*grpc.ClientConn // parallel to the coordinators
}

// New lays a cluster out: names, directories and ports. Nothing runs before Start.
func New(opts Options) (*Cluster, error) {
	if opts.Coordinators < 1 || opts.Workers < 0 || opts.Binary == "" || opts.Dir == "" {
		return nil, fmt.Errorf("cluster options are incomplete: %+v", opts)
	}
	if opts.Placement == nil {
		opts.Placement = Loopback()
	}
	c := &Cluster{opts: opts, place: opts.Placement}
	for i := range opts.Coordinators {
		if err := c.add(Coordinator, i); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	var join []string
	for _, n := range c.nodes {
		join = append(join, n.site.API.Advertise)
	}
	for i := range opts.Workers {
		if err := c.add(Worker, i); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	for _, n := range c.nodes {
		n.args = append(n.args, "--join", strings.Join(join, ","))
	}
	for _, n := range c.Role(Coordinator) {
		conn, err := c.place.Policy().Client(n.API)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.conns = append(c.conns, conn)
	}
	return c, nil
}

func (c *Cluster) add(role Role, i int) (err error) {
	n := &Node{name: fmt.Sprintf("%s-%d", role, i+1), role: role, cfg: &c.opts}
	if n.site, err = c.place.Site(context.Background(), n); err != nil {
		return err
	}
	s := n.site
	n.API, n.HTTP = s.API.Listen, s.HTTP.Listen
	n.dir = filepath.Join(c.opts.Dir, n.name)
	n.args = []string{string(role), "--data-dir", n.dir, "--listen", s.API.Listen, "--advertise", s.API.Advertise, "--http-listen", s.HTTP.Listen}
	if c.place.Policy().Insecure {
		n.args = append(n.args, "--insecure")
	}
	switch role {
	case Coordinator:
		n.args = append(n.args, "--raft-listen", s.Second.Listen, "--raft-advertise", s.Second.Advertise, "--bootstrap-expect", strconv.Itoa(c.opts.Coordinators))
		n.args = append(n.args, c.opts.CoordinatorArgs...)
	case Worker:
		n.args = append(n.args, "--data-listen", s.Second.Listen, "--data-advertise", s.Second.Advertise, "--slots", strconv.Itoa(c.opts.Slots))
		n.args = append(n.args, c.opts.WorkerArgs...)
	}
	c.nodes = append(c.nodes, n)
	return nil
}

// Nodes are all of them, coordinators first.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// Node of a name; nil if there is none.
func (c *Cluster) Node(name string) *Node {
	for _, n := range c.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// Link hurts the direction between two nodes, as the placement can. HealLinks ends all of it.
func (c *Cluster) Link(d link.Direction, r link.Rule) error { return c.place.Set(d, r) }

// HealLinks ends everything that Link has done.
func (c *Cluster) HealLinks() error { return c.place.Heal() }

// Start starts every node and waits until a leader answers and all workers are registered.
func (c *Cluster) Start(ctx context.Context) error {
	if err := c.place.Open(ctx, c); err != nil {
		return err
	}
	for _, n := range c.nodes {
		if err := n.Start(ctx); err != nil {
			return err
		}
	}
	return c.Ready(ctx)
}

// Ready waits until a leader answers and every worker that runs is registered and alive.
func (c *Cluster) Ready(ctx context.Context) error {
	var last error
	for {
		last = c.ready(ctx)
		if last == nil {
			return nil
		}
		if err := Rest(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("cluster is not ready: %w", errors.Join(err, last))
		}
	}
}

func (c *Cluster) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	leader, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	got, err := apipb.NewClusterClient(c.Conn(leader)).Workers(ctx, &apipb.WorkersRequest{})
	if err != nil {
		return err
	}
	alive, want := 0, 0
	for _, w := range got.Workers {
		if w.Worker.Health.String() == "WORKER_ALIVE" {
			alive++
		}
	}
	for _, n := range c.Role(Worker) {
		if n.Alive() {
			want++
		}
	}
	if alive < want {
		return fmt.Errorf("%d of %d workers are registered", alive, want)
	}
	return nil
}

// Leader asks every coordinator that runs who leads, and returns the node that says so of itself. A paused or
// partitioned old leader may still believe it: of several claims the highest term counts.
func (c *Cluster) Leader(ctx context.Context) (*Node, error) {
	var best *Node
	var term uint64
	errs := []error{errors.New("no leader")}
	for _, n := range c.Role(Coordinator) {
		if !n.Alive() {
			continue
		}
		call, cancel := context.WithTimeout(ctx, time.Second)
		info, err := apipb.NewClusterClient(c.Conn(n)).Info(call, &apipb.InfoRequest{})
		cancel()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", n.Name(), err))
			continue
		}
		if info.Leader != "" && info.Leader == info.Node && info.Term > term {
			best, term = n, info.Term
		}
	}
	if best == nil {
		return nil, errors.Join(errs...)
	}
	return best, nil
}

// AwaitLeader waits for a leader other than not (which may be nil).
func (c *Cluster) AwaitLeader(ctx context.Context, not *Node) (*Node, error) {
	for {
		n, err := c.Leader(ctx)
		if err == nil && n != not {
			return n, nil
		}
		if stop := Rest(ctx, 20*time.Millisecond); stop != nil {
			return nil, fmt.Errorf("no new leader: %w", errors.Join(stop, err))
		}
	}
}

// Role lists the nodes of one role in order.
func (c *Cluster) Role(r Role) (nodes []*Node) {
	for _, n := range c.nodes {
		if n.role == r {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// Addresses are the API addresses of the coordinators.
func (c *Cluster) Addresses() (addrs []string) {
	for _, n := range c.Role(Coordinator) {
		addrs = append(addrs, n.API)
	}
	return addrs
}

// Conn is the shared connection to a coordinator; it reconnects by itself.
func (c *Cluster) Conn(n *Node) *grpc.ClientConn {
	for i, m := range c.Role(Coordinator) {
		if m == n {
			return c.conns[i]
		}
	}
	return nil
}

// Close ends every process and returns when all are gone.
func (c *Cluster) Close() error {
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	for i := len(c.nodes) - 1; i >= 0; i-- { // workers first: coordinators then see them leave in order
		errs = append(errs, c.nodes[i].close(10*time.Second))
	}
	errs = append(errs, c.place.Close())
	return errors.Join(errs...)
}

// Rest waits for d or the end of ctx. The processes of a cluster share no clock and no channel with the test, so
// asking again is the only way to learn that something has happened.
func Rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Insecure: clients need the leave to dial beyond loopback.
func (c *Cluster) Insecure() bool { return c.place.Policy().Insecure }

// Placement of the nodes.
func (c *Cluster) Placement() Placement { return c.place }
