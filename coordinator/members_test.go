package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/coordinator"
	"github.com/sluiceio/sluice/coordinator/internal/clustertest"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/apipb"
)

func peers(ctx context.Context, n *clustertest.Node) (map[string]*apipb.PeerInfo, int32, error) {
	resp, err := n.Cluster().Peers(ctx, &apipb.PeersRequest{})
	if err != nil {
		return nil, 0, err
	}
	all := map[string]*apipb.PeerInfo{}
	for _, p := range resp.Peers {
		all[p.Id] = p
	}
	return all, resp.FailureTolerance, nil
}

func awaitVoters(c *clustertest.Cluster, from *clustertest.Node, want int) {
	c.Eventually(20*time.Second, fmt.Sprintf("%d voters", want), func(ctx context.Context) error {
		all, _, err := peers(ctx, from)
		if err != nil {
			return err
		}
		voters := 0
		for _, p := range all {
			if p.Voter && p.Role != "unreachable" {
				voters++
			}
		}
		if voters != want || len(all) != want {
			return fmt.Errorf("%d voters of %d coordinators", voters, len(all))
		}
		return nil
	})
}

func holds(ctx context.Context, n *clustertest.Node, digest string) error {
	resp, err := n.Node().Inventory(ctx, &apipb.InventoryRequest{})
	if err != nil {
		return err
	}
	for _, d := range resp.Artifacts {
		if d == digest {
			return nil
		}
	}
	return fmt.Errorf("%s holds %v", n.Name, resp.Artifacts)
}

func TestJoinedNodeIsPromotedOnceItHoldsEveryArtifact(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		digest := mustUpload(t, leader, "a")
		mustSubmit(t, leader, digest, "r1")
		fourth := c.Add("n4")
		fourth.Start()
		promoted := false
		c.Eventually(20*time.Second, "the fourth node votes", func(ctx context.Context) error {
			all, _, err := peers(ctx, leader)
			if err != nil {
				return err
			}
			if p := all[fourth.ID]; p == nil || !p.Voter {
				return fmt.Errorf("peer %v", p)
			}
			promoted = true
			// A voter without the artifact would break the promise of the promotion.
			if err := holds(ctx, fourth, digest); err != nil {
				t.Errorf("promoted without the artifact: %v", err)
			}
			return nil
		})
		if !promoted {
			t.Fatal("not promoted")
		}
		if ids := jobIDs(t, fourth); len(ids) != 1 {
			t.Errorf("the new node lists %v", ids)
		}
		// It counts: two others may die.
		awaitVoters(c, leader, 4)
		if err := c.Followers(leader)[0].Kill(); err != nil {
			t.Fatal(err)
		}
		mustSubmit(t, c.AwaitLeader(), digest, "r2")
	})
}

func TestRemovalIsRefusedWhenItHurts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		awaitVoters(c, leader, 3)
		followers := c.Followers(leader)
		remove := func(id string, force bool) error {
			_, err := followers[0].Cluster().RemovePeer(call(t), &apipb.RemovePeerRequest{Id: id, Force: force})
			return err
		}
		after(t, 3*time.Second) // the leader has heard from everybody
		mustFail(t, remove("nobody", false), codes.NotFound, "E076")
		mustFail(t, remove(leader.ID, true), codes.FailedPrecondition, "E077")
		mustFail(t, remove(followers[1].ID, false), codes.FailedPrecondition, "E077") // tolerance 1 would become 0

		if err := followers[1].Kill(); err != nil {
			t.Fatal(err)
		}
		after(t, 5*time.Second)
		// The only other live one: without it the cluster stops, force or not.
		mustFail(t, remove(followers[0].ID, true), codes.FailedPrecondition, "E077")
		// The dead one does not add to the tolerance.
		if err := remove(followers[1].ID, false); err != nil {
			t.Fatalf("remove the dead node: %v", err)
		}
		awaitVoters(c, leader, 2)
	})
}

func TestForcedRemovalAndItsAftermath(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		awaitVoters(c, leader, 3)
		after(t, 3*time.Second)
		gone := c.Followers(leader)[0]
		if _, err := leader.Cluster().RemovePeer(call(t), &apipb.RemovePeerRequest{Id: gone.ID, Force: true}); err != nil {
			t.Fatal(err)
		}
		// The removed node learns of it and ends with the reason.
		if err := gone.Wait(); err == nil || !strings.Contains(err.Error(), "was removed from its cluster") {
			t.Errorf("the removed node ended with %v", err)
		}
		awaitVoters(c, leader, 2)
		// It does not come back by itself.
		gone.Start()
		if err := gone.Wait(); err == nil || !strings.Contains(err.Error(), "was removed from its cluster") {
			t.Errorf("the removed node, started again, ended with %v", err)
		}
		awaitVoters(c, leader, 2)
	})
}

func TestArtifactsHoldARemovalBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		// Two of five nodes cannot store anything: an artifact is on exactly a quorum of three.
		full := map[string]bool{}
		c := clustertest.New(t, clustertest.Options{Nodes: 5, Parts: func(name string, p *coordinator.Parts) {
			p.FS = vfs.WithFaults(p.FS, func(op vfs.Operation, path string) vfs.Fault {
				if op == vfs.OpWrite && full[name] && strings.Contains(path, "/incoming/") {
					return vfs.Fault{Err: errors.New("disk full")}
				}
				return vfs.Fault{}
			})
		}})
		leader := c.AwaitLeader()
		awaitVoters(c, leader, 5)
		full[c.Followers(leader)[0].Name], full[c.Followers(leader)[1].Name] = true, true
		mustSubmit(t, leader, mustUpload(t, leader, "a"), "r")
		after(t, 10*time.Second) // inventories are known
		holder := c.Followers(leader)[2]
		if err := holder.Kill(); err != nil {
			t.Fatal(err)
		}
		after(t, 10*time.Second)
		// The tolerance stays 1 (4 of 5 live with 3 needed; 4 of 4 with 3 needed), but two copies are no quorum of four.
		_, err := leader.Cluster().RemovePeer(call(t), &apipb.RemovePeerRequest{Id: holder.ID})
		mustFail(t, err, codes.FailedPrecondition, "E077")
		if !strings.Contains(err.Error(), "artifact") {
			t.Errorf("refused for another reason: %v", err)
		}
		if _, err := leader.Cluster().RemovePeer(call(t), &apipb.RemovePeerRequest{Id: holder.ID, Force: true}); err != nil {
			t.Errorf("forced: %v", err)
		}
	})
}

func TestJoinUnderTakenAddressIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		other := c.Followers(leader)[0]
		_, err := other.Cluster().AddPeer(call(t), &apipb.AddPeerRequest{Id: "impostor", RaftAddress: other.Raft, ApiAddress: "x:1"})
		mustFail(t, err, codes.FailedPrecondition, "E077")
	})
}

func TestTooManyNodesFormNoCluster(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{Nodes: 5, Configure: func(_ string, cfg *coordinator.Config) {
			cfg.BootstrapExpect = 3
		}})
		after(t, 20*time.Second)
		for _, n := range c.Nodes() {
			info, err := n.Cluster().Info(call(t), &apipb.InfoRequest{})
			if err != nil || info.Cluster != "" || info.Leader != "" {
				t.Errorf("%s: five nodes that expect three formed %v, %v", n.Name, info, err)
			}
		}
	})
}

func TestDifferentExpectationsFormNoCluster(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{Configure: func(name string, cfg *coordinator.Config) {
			if name == "n3" {
				cfg.BootstrapExpect = 5
			}
		}})
		after(t, 20*time.Second)
		info, err := c.Node(0).Cluster().Info(call(t), &apipb.InfoRequest{})
		if err != nil || info.Cluster != "" {
			t.Errorf("formed %v, %v", info, err)
		}
	})
}

func TestLateNodeJoinsInsteadOfForming(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		c.AwaitLeader()
		late := c.Add("n4")
		late.SetExpect(3) // started with the same flags as the others
		late.Start()
		awaitVoters(c, c.AwaitLeader(), 4)
	})
}

func TestVoterWithoutMemoryIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		victim := c.Followers(leader)[0]
		after(t, 2*time.Second) // it has learned and stored which cluster it belongs to
		if err := victim.Kill(); err != nil {
			t.Fatal(err)
		}
		victim.LoseRaftState()
		err := victim.TryStart()
		if err == nil || !strings.Contains(err.Error(), "raft log is gone") {
			t.Fatalf("a voter that has lost its log started: %v", err)
		}
	})
}

func TestClusterOfOneGrows(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{Nodes: 1})
		first := c.AwaitLeader()
		digest := mustUpload(t, first, "a")
		mustSubmit(t, first, digest, "r1")
		for _, name := range []string{"n2", "n3"} {
			c.Add(name).Start()
		}
		awaitVoters(c, first, 3)
		if err := first.Kill(); err != nil {
			t.Fatal(err)
		}
		if again := mustSubmit(t, c.AwaitLeader(), digest, "r1"); !again.Existed {
			t.Errorf("after the death of the first node: %v", again)
		}
	})
}

func TestNodeThatMovesStaysTheSameVoter(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		digest := mustUpload(t, leader, "a")
		moved := c.Followers(leader)[0]
		after(t, 3*time.Second) // it knows to which cluster it belongs
		if err := moved.Kill(); err != nil {
			t.Fatal(err)
		}
		moved.Move("elsewhere")
		moved.Start()
		c.Eventually(30*time.Second, "the others know where it is", func(ctx context.Context) error {
			all, _, err := peers(ctx, leader)
			if err != nil {
				return err
			}
			p := all[moved.ID]
			if p == nil || p.RaftAddress != moved.Raft || p.ApiAddress != moved.API || !p.Voter || p.Role != "follower" || len(all) != 3 {
				return fmt.Errorf("peer %v of %d", p, len(all))
			}
			return nil
		})
		// Its vote counts.
		for _, n := range c.Followers(leader) {
			if n != moved {
				if err := n.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		mustSubmit(t, moved, digest, "r1")
	})
}

func TestFollowerThatComesBackCountsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		digest := mustUpload(t, leader, "a")
		followers := c.Followers(leader)
		if err := followers[0].Kill(); err != nil {
			t.Fatal(err)
		}
		after(t, 45*time.Second) // long enough for any back-off
		followers[0].Start()
		after(t, time.Second)
		if err := followers[1].Kill(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		mustSubmit(t, leader, digest, "r")
		if took := time.Since(start); took > time.Second {
			t.Errorf("a quorum was there, and the commit took %s", took)
		}
	})
}
