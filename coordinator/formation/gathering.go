package formation

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Gathering is how coordinators without state become a cluster, or find one.
//
// # Agreement before existence
//
// A new cluster is a Raft configuration that some nodes write into their empty logs. Two different configurations with a
// node in common are two clusters, each of which may elect a leader; nothing afterwards can mend that. So nobody writes
// one from what it knows alone: each node tells the others whom it has seen, and writes the configuration only when
// exactly the expected number of nodes without state all name the same set. All of them then write the same bytes, and a
// node that comes too late finds nodes with state, and joins.
//
// What was seen stays in the set for as long as it might come back (forgetAfter): a set that shrinks at the first lost
// packet is how two halves agree on two different sets.
type Gathering struct {
	mu struct {
		sync.Mutex
		seen map[string]Sighting // by id, without this node
	}
}

// Sighting is what a node without state has said of itself.
type Sighting struct {
	RaftAddress string
	Expect      int32    // size of the cluster that it was told to form
	Seen        []string // ids that it has seen, in order, its own included

	last time.Time
}

// forgetAfter is the silence after which a node that was seen counts no more.
const forgetAfter = 30 * time.Second

// New makes an empty gathering.
func New() *Gathering {
	g := &Gathering{}
	g.mu.seen = make(map[string]Sighting)
	return g
}

// Note remembers a node without state that has introduced itself, or answered.
func (g *Gathering) Note(id string, s Sighting) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s.last = time.Now()
	g.mu.seen[id] = s
}

// Drop forgets a node that turned out to have state.
func (g *Gathering) Drop(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.mu.seen, id)
}

// Set returns the ids seen, self included, in order.
func (g *Gathering) Set(self string) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	ids := []string{self}
	for id, s := range g.mu.seen {
		if time.Since(s.last) > forgetAfter {
			delete(g.mu.seen, id)
			continue
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Agreed returns the configuration if everyone who was seen names the same set of the expected size. Otherwise it says
// what is missing.
func (g *Gathering) Agreed(self raft.Server, expect int) (raft.Configuration, error) {
	set := g.Set(string(self.ID))
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(set) > expect {
		return raft.Configuration{}, fmt.Errorf("%d coordinators without state (%v) want to form a cluster of %d: stop those that do not belong",
			len(set), set, expect)
	}
	if len(set) < expect {
		return raft.Configuration{}, fmt.Errorf("waiting for %d more coordinators; seen so far: %v", expect-len(set), set)
	}
	cfg := raft.Configuration{}
	for _, id := range set {
		if id == string(self.ID) {
			cfg.Servers = append(cfg.Servers, self)
			continue
		}
		s := g.mu.seen[id]
		if int(s.Expect) != expect {
			return raft.Configuration{}, fmt.Errorf("coordinator %s expects a cluster of %d, this one of %d: give all the same --bootstrap-expect",
				id, s.Expect, expect)
		}
		if !slices.Equal(s.Seen, set) {
			return raft.Configuration{}, fmt.Errorf("coordinator %s has seen %v, this one %v: waiting until all see the same", id, s.Seen, set)
		}
		cfg.Servers = append(cfg.Servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(s.RaftAddress), Suffrage: raft.Voter})
	}
	return cfg, nil
}
