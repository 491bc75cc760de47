package coordinator

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/sluiceio/sluice/coordinator/artifact"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/commandpb"
)

const (
	// keepPause is how often a node compares its artifacts with the facts, besides whenever the facts change.
	keepPause = 10 * time.Second
	// scrubPause is how often one artifact is read in full and compared with its digest.
	scrubPause = 10 * time.Minute
	// orphanAge is how long a file that no fact knows is kept: it may belong to an upload whose commit is under way.
	orphanAge = time.Hour
	// uploadGrace is the time from the moment when an upload has found or stored a file here to its commit, at most.
	uploadGrace = 5 * time.Minute
)

// keeper makes the artifacts of this node follow the facts, on every node and all the time: what the facts refer to is got
// from others; what they no longer refer to is deleted. Deletion follows from a committed removal that this node has
// seen applied, or from the absence of any fact for orphanAge; and only under the lock that an upload holds.
type keeper struct {
	n *node
	// known are the digests that some earlier view had; since is when a file without a fact was first noticed.
	known   map[artifact.Digest]bool
	since   map[artifact.Digest]time.Time
	scrubAt time.Time
	scrub   artifact.Digest // the last one that was read in full
}

// keep lives as long as the node.
func (n *node) keep(ctx context.Context) error {
	k := &keeper{n: n, known: make(map[artifact.Digest]bool), since: make(map[artifact.Digest]time.Time), scrubAt: time.Now().Add(scrubPause)}
	for {
		view, changed := n.fsm.view()
		// Without the facts of a cluster nothing can be concluded.
		if view.Cluster() != "" {
			if err := k.follow(ctx, view); err != nil && ctx.Err() == nil {
				n.log.Warn("artifacts do not follow the facts", "error", err)
			}
		}
		if err := n.conns.keepOnly(n.inUse(view)); err != nil {
			n.log.Debug("close idle connections", "error", err)
		}
		if !k.pause(ctx, view, changed) {
			return nil
		}
	}
}

// inUse are the addresses that this node may want to talk to.
func (n *node) inUse(view *state.View) map[string]bool {
	used := make(map[string]bool)
	for _, address := range n.addresses(view.Nodes()) {
		used[address] = true
	}
	for w := range view.Workers() {
		used[w.Address] = true
	}
	leader, _ := n.Leader()
	used[leader.Address] = true
	return used
}

// pause waits for a change of the artifacts, or for a while.
func (k *keeper) pause(ctx context.Context, seen *state.View, changed <-chan struct{}) bool {
	timer := time.NewTimer(keepPause)
	defer timer.Stop()
	for {
		select {
		case <-changed:
			var view *state.View
			view, changed = k.n.fsm.view()
			if !sameArtifacts(seen, view) {
				return true
			}
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// sameArtifacts compares by identity: records are replaced, never changed.
func sameArtifacts(a, b *state.View) bool {
	return slices.Equal(slices.Collect(a.Artifacts()), slices.Collect(b.Artifacts()))
}

func (k *keeper) follow(ctx context.Context, view *state.View) error {
	here, err := k.n.artifacts.List()
	if err != nil {
		return err
	}
	for a := range view.Artifacts() {
		d := artifactDigest(a.Digest)
		k.known[d] = true
		delete(k.since, d)
		if _, ok := slices.BinarySearch(here, d); ok {
			continue
		}
		if err := k.n.get(ctx, d); err != nil {
			k.n.log.Debug("artifact not got yet", "artifact", d.Short(), "error", err)
			continue
		}
		k.n.log.Info("artifact copied from another coordinator", "artifact", d.Short())
	}
	for d := range k.known {
		if _, ok := slices.BinarySearch(here, d); !ok && view.Artifact(string(d)) == nil {
			delete(k.known, d)
		}
	}
	for _, d := range here {
		if view.Artifact(string(d)) == nil {
			if err := k.expire(ctx, d); err != nil {
				return err
			}
		}
	}
	return k.scrubOne(here)
}

// expire deletes a file that no fact refers to, when it is certain that none will.
func (k *keeper) expire(ctx context.Context, d artifact.Digest) error {
	first, noticed := k.since[d]
	if !noticed {
		first = time.Now()
		k.since[d] = first
	}
	// A file that an upload has just found or stored here counts as a copy, whatever the facts said before.
	if !k.known[d] && time.Since(first) < orphanAge || k.n.touched.since(d) < uploadGrace {
		return nil
	}
	unlock, err := k.n.artifacts.Lock(ctx, d)
	if err != nil {
		return err
	}
	defer unlock()
	// An upload may have committed it while the lock was waited for.
	if view, _ := k.n.fsm.view(); view.Artifact(string(d)) != nil {
		return nil
	}
	delete(k.since, d)
	delete(k.known, d)
	k.n.log.Info("artifact deleted", "artifact", d.Short())
	return k.n.artifacts.Remove(d)
}

// scrubOne reads one artifact in full, the next one in order. A damaged one is removed and got again at the next round.
func (k *keeper) scrubOne(here []artifact.Digest) error {
	if len(here) == 0 || time.Now().Before(k.scrubAt) {
		return nil
	}
	k.scrubAt = time.Now().Add(scrubPause)
	at, found := slices.BinarySearch(here, k.scrub)
	if found {
		at++
	}
	k.scrub = here[at%len(here)]
	return k.n.artifacts.Verify(k.scrub)
}

// ---------------------------------------------------------------- the leader's part

// collectPause is how often the leader compares inventories and looks for artifacts that nobody needs.
const collectPause = 5 * time.Second

// collect keeps the committed places of artifacts true and commits the removal of those that no job refers to.
func (r *reign) collect(ctx context.Context) error {
	for {
		r.inventories(ctx)
		view, _ := r.n.fsm.view()
		for _, cmd := range r.corrections(view) {
			if _, err := r.n.Propose(ctx, cmd); err != nil && ctx.Err() == nil {
				r.log.Warn("cannot commit the places of artifacts", "error", err)
				break
			}
		}
		if !sleep(ctx, collectPause) {
			return nil
		}
	}
}

// inventories asks every other coordinator what it holds.
func (r *reign) inventories(ctx context.Context) {
	view, _ := r.n.fsm.view()
	for node := range view.Nodes() {
		if node.Id == r.n.id.ID {
			continue
		}
		ask, cancel := context.WithTimeout(ctx, helloTimeout)
		held, err := r.inventoryOf(ask, node.ApiAddress)
		cancel()
		if err != nil {
			r.log.Debug("no inventory", "coordinator", node.Id, "error", err)
			continue
		}
		r.heard.update(node.Id, func(c *contact) { c.artifacts = held })
	}
}

func (r *reign) inventoryOf(ctx context.Context, address string) ([]string, error) {
	conn, err := r.n.Conn(address)
	if err != nil {
		return nil, err
	}
	resp, err := apipb.NewNodeClient(conn).Inventory(ctx, &apipb.InventoryRequest{})
	if err != nil {
		return nil, err
	}
	held := append([]string{}, resp.Artifacts...)
	slices.Sort(held)
	return held, nil
}

// corrections are the commands that make the facts about artifacts true. The age of an artifact counts in committed time.
func (r *reign) corrections(view *state.View) []*commandpb.Command {
	used := make(map[string]bool)
	for job := range view.Jobs() {
		used[job.Head().Spec.GetArtifact()] = true
	}
	var cmds []*commandpb.Command
	for a := range view.Artifacts() {
		if !used[a.Digest] && view.TimeMicros()-a.SinceUs > r.n.cfg.KeepArtifacts.Microseconds() {
			cmds = append(cmds, &commandpb.Command{Command: &commandpb.Command_RemoveArtifact{
				RemoveArtifact: &commandpb.RemoveArtifact{Digest: a.Digest},
			}})
			continue
		}
		if nodes := r.places(a); len(nodes) > 0 && !slices.Equal(nodes, a.Nodes) {
			cmds = append(cmds, &commandpb.Command{Command: &commandpb.Command_PutArtifact{PutArtifact: &commandpb.PutArtifact{
				Digest: a.Digest, Size: a.Size, Os: a.Os, Arch: a.Arch, Nodes: nodes,
			}}})
		}
	}
	return cmds
}

// places are the members that hold an artifact as far as is known: by inventory where there is one, else by the fact.
func (r *reign) places(a *commandpb.Artifact) []string {
	var nodes []string
	for _, s := range r.n.servers() {
		id := string(s.ID)
		holds := false
		if c, ok := r.heard.get(id); ok && c.artifacts != nil {
			_, holds = slices.BinarySearch(c.artifacts, a.Digest)
		} else if id == r.n.id.ID {
			_, err := r.n.artifacts.Stat(artifactDigest(a.Digest))
			holds = err == nil
		} else {
			holds = slices.Contains(a.Nodes, id)
		}
		if holds {
			nodes = append(nodes, id)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// ---------------------------------------------------------------- hash chains

// auditPause is how often the leader compares hash chains with every other coordinator.
const auditPause = time.Second

// audit compares facts by their hash chains at equal index. A difference means that one of the two has applied
// something else, by a bug or by a damaged disk; every further answer could be wrong, so the leader stops itself, and so
// will its successors, until there is no quorum of leaders left that would go on. A person has to say who is right.
func (r *reign) audit(ctx context.Context) error {
	for sleep(ctx, auditPause) {
		for _, s := range r.n.servers() {
			if s.ID == raft.ServerID(r.n.id.ID) {
				continue
			}
			r.auditOne(ctx, string(s.ID))
		}
	}
	return nil
}

func (r *reign) auditOne(ctx context.Context, id string) {
	view, _ := r.n.fsm.view()
	address := view.Node(id).GetApiAddress()
	if address == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	resp, err := r.n.chainOf(ctx, address, 0)
	if err != nil {
		r.log.Debug("coordinator does not answer", "coordinator", id, "error", err)
		return
	}
	r.heard.update(id, func(c *contact) { c.at, c.applied = time.Now(), resp.Applied })
	// A follower that has not reached the newest snapshot may stand at an index of a history that the snapshot replaced.
	if resp.Applied < r.n.lastSnapshotIndex() {
		return
	}
	ours, known := r.n.fsm.facts.Load().ChainAt(resp.Applied)
	if !known || resp.Applied == 0 || string(resp.Chain) == string(ours[:]) {
		return
	}
	r.n.diverged(id, resp.Applied, ours[:], resp.Chain)
}
