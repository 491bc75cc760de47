package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/sluiceio/sluice/coordinator/api"
	"github.com/sluiceio/sluice/coordinator/datadir"
	"github.com/sluiceio/sluice/coordinator/formation"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/commandpb"
)

const (
	helloPause   = 250 * time.Millisecond
	helloTimeout = time.Second
	complainEach = 10 * time.Second
)

// hasState reports whether this node belongs to a cluster: its log is not empty any more.
func (n *node) hasState() bool { return n.raft.LastIndex() > 0 || n.raft.CurrentTerm() > 0 }

// member: this node stands in the newest configuration that it has.
func (n *node) member() bool {
	_, is := n.server(raft.ServerID(n.id.ID))
	return is
}

// enter brings a node without state into a cluster: an existing one if anybody knows one, else a new one. It goes on until the node
// is a member: a term or a log alone may have been meant for somebody else. A leader that has removed a coordinator sends to its address for a
// moment longer, and this node may have taken over that address.
func (n *node) enter(ctx context.Context) error {
	if n.hasState() {
		return nil
	}
	var complained time.Time
	for !n.member() {
		err := n.tryToEnter(ctx)
		if err != nil && time.Since(complained) > complainEach {
			complained = time.Now()
			n.log.Info("not in a cluster yet", "reason", err)
		}
		if !sleep(ctx, helloPause) {
			return nil
		}
	}
	return nil
}

func (n *node) tryToEnter(ctx context.Context) error {
	answers := n.helloAll(ctx, n.cfg.Join)
	for _, a := range answers {
		if a.Cluster == "" {
			continue
		}
		if a.LeaderAddress == "" {
			return fmt.Errorf("cluster %s has no leader to join", a.Cluster)
		}
		return n.joinAt(ctx, a.LeaderAddress)
	}
	for _, a := range answers {
		if a.HasState {
			return fmt.Errorf("coordinator %s belongs to a cluster that has no leader yet", a.Id)
		}
	}
	if n.cfg.BootstrapExpect == 0 {
		return errors.New("no cluster found to join")
	}
	self := raft.Server{ID: raft.ServerID(n.id.ID), Address: raft.ServerAddress(n.parts.RaftAddress), Suffrage: raft.Voter}
	cfg, err := n.gathering.Agreed(self, n.cfg.BootstrapExpect)
	if err != nil {
		return err
	}
	err = n.raft.BootstrapCluster(cfg).Error()
	if errors.Is(err, raft.ErrCantBootstrap) {
		return nil // a node that was faster has reached this one already
	}
	if err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	n.log.Info("cluster formed", "coordinators", len(cfg.Servers))
	return nil
}

// helloAll introduces this node to everybody at the same time and notes who has no state.
func (n *node) helloAll(ctx context.Context, addresses []string) []*apipb.HelloResponse {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	req := n.helloRequest()
	group := run.NewGroup(ctx, "hello")
	answers := make([]*apipb.HelloResponse, len(addresses))
	for i, address := range addresses {
		if address == n.apiAddress {
			continue
		}
		group.Go(address, func(ctx context.Context) error {
			resp, err := n.hello(ctx, address, req)
			if err != nil {
				n.log.Debug("hello failed", "address", address, "error", err)
				return nil
			}
			answers[i] = resp
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		n.log.Error("hello", "error", err)
	}
	answers = slices.DeleteFunc(answers, func(a *apipb.HelloResponse) bool { return a == nil || a.Id == n.id.ID })
	for _, a := range answers {
		if a.HasState {
			n.gathering.Drop(a.Id)
		} else if a.Expect > 0 {
			n.gathering.Note(a.Id, formation.Sighting{RaftAddress: a.RaftAddress, Expect: a.Expect, Seen: a.Seen})
		}
	}
	return answers
}

func (n *node) hello(ctx context.Context, address string, req *apipb.HelloRequest) (*apipb.HelloResponse, error) {
	conn, err := n.Conn(address)
	if err != nil {
		return nil, err
	}
	resp, err := apipb.NewNodeClient(conn).Hello(ctx, req)
	if err != nil {
		return nil, err
	}
	return resp, resp.Validate()
}

func (n *node) helloRequest() *apipb.HelloRequest {
	view, _ := n.fsm.view()
	return &apipb.HelloRequest{
		Id: n.id.ID, ApiAddress: n.apiAddress, RaftAddress: n.parts.RaftAddress, Expect: int32(n.cfg.BootstrapExpect),
		HasState: n.hasState(), Cluster: view.Cluster(), Seen: n.gathering.Set(n.id.ID),
	}
}

// Hello answers an introduction.
func (n *node) Hello(req *apipb.HelloRequest) *apipb.HelloResponse {
	if req.HasState {
		n.gathering.Drop(req.Id)
	} else if req.Expect > 0 && req.Id != n.id.ID {
		n.gathering.Note(req.Id, formation.Sighting{RaftAddress: req.RaftAddress, Expect: req.Expect, Seen: req.Seen})
	}
	me := n.helloRequest()
	leader, _ := n.Leader()
	resp := &apipb.HelloResponse{
		Id: me.Id, ApiAddress: me.ApiAddress, RaftAddress: me.RaftAddress, Expect: me.Expect, HasState: me.HasState,
		Cluster: me.Cluster, Seen: me.Seen, LeaderAddress: leader.Address,
	}
	_, resp.Member = n.server(raft.ServerID(req.Id))
	return resp
}

// server finds a node in Raft's newest configuration.
func (n *node) server(id raft.ServerID) (raft.Server, bool) {
	for _, s := range n.servers() {
		if s.ID == id {
			return s, true
		}
	}
	return raft.Server{}, false
}

func (n *node) servers() []raft.Server {
	// Answered from memory; it cannot fail.
	return n.raft.GetConfiguration().Configuration().Servers
}

// record is what the facts should say about this node.
func (n *node) record() *commandpb.Node {
	return &commandpb.Node{Id: n.id.ID, ApiAddress: n.apiAddress, RaftAddress: n.parts.RaftAddress, Version: n.cfg.Version}
}

func (n *node) joinAt(ctx context.Context, leader string) error {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.ApplyTimeout)
	defer cancel()
	conn, err := n.Conn(leader)
	if err != nil {
		return fmt.Errorf("join at %s: %w", leader, err)
	}
	me := n.record()
	_, err = apipb.NewNodeClient(conn).Join(ctx, &apipb.JoinRequest{
		Id: me.Id, ApiAddress: me.ApiAddress, RaftAddress: me.RaftAddress, Version: me.Version,
	})
	if err != nil {
		return fmt.Errorf("join at %s: %s", leader, apipb.MessageOf(err))
	}
	return nil
}

const (
	announcePause = time.Second
	// removedAfter is the time without a leader after which a node asks whether it was removed.
	removedAfter = 5 * time.Second
)

// errRemoved ends a node that is no member any more.
var errRemoved = errors.New("this coordinator was removed from its cluster; to let it join anew, move its data directory away")

// belong keeps a member's record true (its address or version may have changed since it joined), remembers the
// cluster, and ends a node that was removed while it could not hear of it.
func (n *node) belong(ctx context.Context) error {
	for {
		view, changed := n.fsm.view()
		leader, leaderChanged := n.Leader()
		if err := n.rememberCluster(view.Cluster()); err != nil {
			return err
		}
		me := n.record()
		switch {
		case n.member() && !leader.Here && leader.ID != n.id.ID && leader.Address != "" && !sameNode(view.Node(me.Id), me):
			if err := n.joinAt(ctx, leader.Address); err != nil {
				n.log.Debug("cannot announce this coordinator", "error", err)
			}
		case n.hasState() && leader.ID == "" && leader.LostFor > removedAfter:
			if err := n.askAround(ctx, n.addresses(view.Nodes())); err != nil {
				return err
			}
		}
		timer := time.NewTimer(announcePause)
		select {
		case <-timer.C:
		case <-changed:
		case <-leaderChanged:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		timer.Stop()
	}
}

func sameNode(a, b *commandpb.Node) bool {
	return a != nil && a.ApiAddress == b.ApiAddress && a.RaftAddress == b.RaftAddress && a.Version == b.Version
}

func (n *node) addresses(nodes func(func(*commandpb.Node) bool)) []string {
	all := slices.Clone(n.cfg.Join)
	for node := range nodes {
		all = append(all, node.ApiAddress)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// askAround looks for the leader when Raft hears of none. A node that was removed meanwhile ends; one that listens
// elsewhere than the others believe says where. Only the word of the leader counts: a follower may not have heard yet
// that this node was added. The cluster is the remembered one: after a start the facts are empty until a leader says
// how far they go.
func (n *node) askAround(ctx context.Context, addresses []string) error {
	for _, a := range n.helloAll(ctx, addresses) {
		if a.Cluster == "" || a.Cluster != n.id.Cluster || a.LeaderAddress != a.ApiAddress {
			continue
		}
		if !a.Member {
			return errRemoved
		}
		self, _ := n.server(raft.ServerID(n.id.ID))
		if self.Address != raft.ServerAddress(n.parts.RaftAddress) {
			if err := n.joinAt(ctx, a.LeaderAddress); err != nil {
				n.log.Warn("cannot tell the leader where this coordinator listens now", "error", err)
			}
		}
	}
	return nil
}

// rememberCluster makes the data directory a member's for good; see identity.
func (n *node) rememberCluster(cluster string) error {
	if cluster == "" || cluster == n.id.Cluster {
		return nil
	}
	if n.id.Cluster != "" {
		n.log.Warn("cluster has another id", "before", n.id.Cluster, "now", cluster)
	}
	n.id.Cluster = cluster
	return datadir.Store(n.parts.FS, n.cfg.DataDir, n.id)
}

var _ api.Members = (*node)(nil)
