package coordinator

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/apipb"
)

// Peers describes the members, asking each for its newest state.
func (n *node) Peers(ctx context.Context) ([]*apipb.PeerInfo, int32, error) {
	view, _ := n.fsm.view()
	leader, _ := n.Leader()
	servers := n.servers()
	infos := make([]*apipb.PeerInfo, len(servers))
	group := run.NewGroup(ctx, "peers")
	for i, s := range servers {
		node := view.Node(string(s.ID))
		infos[i] = &apipb.PeerInfo{
			Id: string(s.ID), RaftAddress: string(s.Address), ApiAddress: node.GetApiAddress(), Version: node.GetVersion(),
			Voter: s.Suffrage == raft.Voter, Role: "unreachable", LastContactUs: -1,
		}
		group.Go(string(s.ID), func(ctx context.Context) error {
			n.ask(ctx, infos[i], leader.ID)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, 0, fmt.Errorf("ask coordinators: %w", err)
	}
	voters, live := 0, 0
	for _, p := range infos {
		if p.Voter {
			voters++
			if p.Role != "unreachable" {
				live++
			}
		}
	}
	return infos, int32(max(live-(voters/2+1), 0)), nil
}

// ask fills in what only the node itself knows.
func (n *node) ask(ctx context.Context, p *apipb.PeerInfo, leader string) {
	role := "follower"
	if p.Id == leader {
		role = "leader"
	}
	if p.Id == n.id.ID {
		c := n.Chain(0)
		p.Role, p.Applied, p.Chain, p.LastContactUs = role, c.Applied, c.Now[:], 0
		return
	}
	if p.ApiAddress == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	resp, err := n.chainOf(ctx, p.ApiAddress, 0)
	if err != nil {
		n.log.Debug("coordinator does not answer", "coordinator", p.Id, "error", err)
		if r := n.reigning(); r != nil {
			if c, ok := r.heard.get(p.Id); ok {
				p.LastContactUs, p.Applied = time.Since(c.at).Microseconds(), c.applied
			}
		}
		return
	}
	p.Role, p.Applied, p.Chain, p.LastContactUs = role, resp.Applied, resp.Chain, 0
}

func (n *node) chainOf(ctx context.Context, address string, index uint64) (*apipb.ChainResponse, error) {
	conn, err := n.Conn(address)
	if err != nil {
		return nil, err
	}
	return apipb.NewNodeClient(conn).Chain(ctx, &apipb.ChainRequest{Index: index})
}
