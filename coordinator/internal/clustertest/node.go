package clustertest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"github.com/hashicorp/raft"

	"github.com/sluiceio/sluice/coordinator"
	"github.com/sluiceio/sluice/coordinator/consensus"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/vfs"
)

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
