package formation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"
)

func server(id string) raft.Server {
	return raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id + ":2"), Suffrage: raft.Voter}
}

func TestAgreementNeedsEverybodyToSeeTheSame(t *testing.T) {
	g := New()
	note := func(id string, expect int32, seen ...string) {
		g.Note(id, Sighting{RaftAddress: id + ":2", Expect: expect, Seen: seen})
	}
	refused := func(why string) {
		t.Helper()
		if cfg, err := g.Agreed(server("b"), 3); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("agreed on %v, %v; want %q", cfg, err, why)
		}
	}
	refused("waiting for 2 more")
	note("a", 3, "a", "b")
	refused("waiting for 1 more")
	note("c", 3, "a", "b", "c")
	refused("waiting until all see the same")
	note("a", 5, "a", "b", "c")
	refused("give all the same --bootstrap-expect")
	note("a", 3, "a", "b", "c")
	note("d", 3, "a", "b", "c", "d")
	refused("stop those that do not belong")
	g.Drop("d") // it has state after all
	cfg, err := g.Agreed(server("b"), 3)
	if err != nil || !slices.Equal(cfg.Servers, []raft.Server{server("a"), server("b"), server("c")}) {
		t.Errorf("agreed on %v, %v", cfg, err)
	}
}

func TestSilentNodeIsForgottenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New()
		g.Note("a", Sighting{})
		<-time.After(forgetAfter)
		if set := g.Set("b"); !slices.Equal(set, []string{"a", "b"}) {
			t.Errorf("a node that was silent for %s is forgotten: %v", forgetAfter, set)
		}
		<-time.After(time.Second)
		if set := g.Set("b"); !slices.Equal(set, []string{"b"}) {
			t.Errorf("a node that is gone is still seen: %v", set)
		}
	})
}

// TestNobodyAgreesOnTwoClusters lets more nodes than a cluster needs introduce themselves in any order, with any
// messages lost: whoever agrees, agrees on the same configuration.
func TestNobodyAgreesOnTwoClusters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const expect = 3
		n := rapid.IntRange(expect, 5).Draw(t, "nodes")
		nodes := make([]*Gathering, n)
		ids := make([]string, n)
		for i := range nodes {
			nodes[i], ids[i] = New(), fmt.Sprint("n", i)
		}
		agreed := map[string][]string{} // node → set
		for range rapid.IntRange(0, 60).Draw(t, "messages") {
			from, to := rapid.IntRange(0, n-1).Draw(t, "from"), rapid.IntRange(0, n-1).Draw(t, "to")
			if from == to || agreed[ids[from]] != nil {
				continue // a node with state introduces itself as such, and is no candidate
			}
			nodes[to].Note(ids[from], Sighting{RaftAddress: ids[from] + ":2", Expect: expect, Seen: nodes[from].Set(ids[from])})
			if cfg, err := nodes[to].Agreed(server(ids[to]), expect); err == nil && agreed[ids[to]] == nil {
				for _, s := range cfg.Servers {
					agreed[ids[to]] = append(agreed[ids[to]], string(s.ID))
				}
			}
		}
		for a, set := range agreed {
			for b, other := range agreed {
				if !slices.Equal(set, other) && slices.ContainsFunc(set, func(id string) bool { return slices.Contains(other, id) }) {
					t.Fatalf("%s agreed on %v, %s on %v", a, set, b, other)
				}
			}
		}
	})
}
