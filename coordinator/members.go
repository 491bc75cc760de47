package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/coordinator/api"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/commandpb"
)

// contact is what the leader last heard from another coordinator.
type contact struct {
	at      time.Time
	applied uint64
	// artifacts held there, sorted; nil until the first inventory.
	artifacts []string
}

// contacts are those of one reign, by node id.
type contacts struct {
	mu struct {
		sync.Mutex
		byID map[string]contact
	}
}

func (c *contacts) update(id string, change func(*contact)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.byID == nil {
		c.mu.byID = make(map[string]contact)
	}
	one := c.mu.byID[id]
	change(&one)
	c.mu.byID[id] = one
}

func (c *contacts) get(id string) (contact, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, ok := c.mu.byID[id]
	return one, ok
}

// reachableWithin is the age of the last contact up to which a coordinator counts as reachable.
const reachableWithin = 3 * auditPause

func (c *contacts) reachable(id string) bool {
	one, ok := c.get(id)
	return ok && time.Since(one.at) <= reachableWithin
}

// lockMembers makes changes of membership follow each other.
func (r *reign) lockMembers(ctx context.Context) (unlock func(), err error) {
	select {
	case r.members <- struct{}{}:
		return func() { <-r.members }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Join adds a coordinator as a non-voter, or brings the record of a member up to date. The promoter does the rest.
func (n *node) Join(ctx context.Context, joining *commandpb.Node) error {
	r := n.reigning()
	if r == nil {
		return api.ErrNotLeader
	}
	unlock, err := r.lockMembers(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	future := n.raft.GetConfiguration()
	suffrage := raft.Nonvoter
	for _, s := range future.Configuration().Servers {
		if s.ID == raft.ServerID(joining.Id) {
			suffrage = s.Suffrage
		} else if s.Address == raft.ServerAddress(joining.RaftAddress) {
			return &api.Refusal{Status: codes.FailedPrecondition, Code: api.CodeMembership,
				Cause: fmt.Errorf("coordinator %s is a member at %s", s.ID, s.Address),
				Hints: []string{"if that one is gone for ever, remove it first: sluice raft remove-peer " + string(s.ID)}}
		}
	}
	if known, ok := n.server(raft.ServerID(joining.Id)); !ok || known.Address != raft.ServerAddress(joining.RaftAddress) {
		id, address := raft.ServerID(joining.Id), raft.ServerAddress(joining.RaftAddress)
		err := n.configure(ctx, func(timeout time.Duration) raft.IndexFuture {
			if suffrage == raft.Voter {
				return n.raft.AddVoter(id, address, future.Index(), timeout)
			}
			return n.raft.AddNonvoter(id, address, future.Index(), timeout)
		})
		if err != nil {
			return fmt.Errorf("add coordinator %s: %w", joining.Id, err)
		}
		r.log.Info("coordinator added", "coordinator", joining.Id, "address", joining.RaftAddress)
	}
	result, err := n.Propose(ctx, &commandpb.Command{Command: &commandpb.Command_PutNode{PutNode: &commandpb.PutNode{Node: joining}}})
	if err != nil {
		return err
	}
	if result.Status == state.Refused {
		return fmt.Errorf("record coordinator %s: %s", joining.Id, result.Message)
	}
	return nil
}

// configure changes Raft's configuration, with a deadline around all of it.
func (n *node) configure(ctx context.Context, change func(timeout time.Duration) raft.IndexFuture) error {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.ApplyTimeout)
	defer cancel()
	failed, err := wait(ctx, n.futures, "configuration", func() error { return change(n.cfg.ApplyTimeout).Error() })
	switch {
	case err != nil:
		return &api.ProposalError{Cause: err, Outcome: api.Unknown}
	case failed != nil:
		return &api.ProposalError{Cause: failed, Outcome: outcomeOf(failed)}
	}
	return nil
}

// promote turns non-voters into voters, one at a time: when they have caught up and hold every artifact that the facts
// refer to. It also removes the records of coordinators that Raft does not know any more.
func (r *reign) promote(ctx context.Context) error {
	for sleep(ctx, auditPause) {
		if err := r.promoteOne(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("cannot promote a coordinator", "error", err)
		}
		if err := r.tidyNodes(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("cannot remove the record of a coordinator", "error", err)
		}
	}
	return nil
}

// promotionLag is how many entries a non-voter may be behind.
const promotionLag = 64

func (r *reign) promoteOne(ctx context.Context) error {
	unlock, err := r.lockMembers(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	future := r.n.raft.GetConfiguration()
	view, _ := r.n.fsm.view()
	for _, s := range future.Configuration().Servers {
		if s.Suffrage == raft.Voter {
			continue
		}
		if err := r.fitToVote(ctx, string(s.ID), view); err != nil {
			r.log.Debug("not promoted yet", "coordinator", string(s.ID), "reason", err)
			continue
		}
		if err := r.n.configure(ctx, func(timeout time.Duration) raft.IndexFuture {
			return r.n.raft.AddVoter(s.ID, s.Address, future.Index(), timeout)
		}); err != nil {
			return fmt.Errorf("promote %s: %w", s.ID, err)
		}
		r.log.Info("coordinator promoted to voter", "coordinator", string(s.ID))
		return nil
	}
	return nil
}

// fitToVote says what keeps a non-voter from being promoted. Its inventory is asked for now: an older one could miss an
// artifact that it has lost since.
func (r *reign) fitToVote(ctx context.Context, id string, view *state.View) error {
	c, ok := r.heard.get(id)
	if !ok || !r.heard.reachable(id) {
		return errors.New("it does not answer")
	}
	if c.applied+promotionLag < view.Index() {
		return fmt.Errorf("it has applied %d of %d entries", c.applied, view.Index())
	}
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	held, err := r.inventoryOf(ctx, view.Node(id).GetApiAddress())
	if err != nil {
		return fmt.Errorf("inventory: %w", err)
	}
	r.heard.update(id, func(c *contact) { c.artifacts = held })
	missing := 0
	for a := range view.Artifacts() {
		if _, ok := slices.BinarySearch(held, a.Digest); !ok {
			missing++
		}
	}
	if missing > 0 {
		return fmt.Errorf("it lacks %d artifacts", missing)
	}
	return nil
}

func (r *reign) tidyNodes(ctx context.Context) error {
	unlock, err := r.lockMembers(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	view, _ := r.n.fsm.view()
	for node := range view.Nodes() {
		if _, member := r.n.server(raft.ServerID(node.Id)); member {
			continue
		}
		_, err := r.n.Propose(ctx, &commandpb.Command{Command: &commandpb.Command_RemoveNode{RemoveNode: &commandpb.RemoveNode{Id: node.Id}}})
		if err != nil {
			return err
		}
	}
	return nil
}

// Remove takes a coordinator out of the cluster.
func (n *node) Remove(ctx context.Context, id string, how api.Removal) error {
	r := n.reigning()
	if r == nil {
		return api.ErrNotLeader
	}
	unlock, err := r.lockMembers(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	future := n.raft.GetConfiguration()
	servers := future.Configuration().Servers
	at := slices.IndexFunc(servers, func(s raft.Server) bool { return s.ID == raft.ServerID(id) })
	if at < 0 {
		return &api.Refusal{Status: codes.NotFound, Code: api.CodeUnknownPeer, Cause: fmt.Errorf("no coordinator %q", id),
			Hints: []string{"sluice peers shows the members"}}
	}
	if err := r.mayRemove(servers, at, how); err != nil {
		return err
	}
	if err := n.configure(ctx, func(timeout time.Duration) raft.IndexFuture {
		return n.raft.RemoveServer(raft.ServerID(id), future.Index(), timeout)
	}); err != nil {
		return fmt.Errorf("remove coordinator %s: %w", id, err)
	}
	r.log.Info("coordinator removed", "coordinator", id)
	_, err = n.Propose(ctx, &commandpb.Command{Command: &commandpb.Command_RemoveNode{RemoveNode: &commandpb.RemoveNode{Id: id}}})
	return err
}

// mayRemove keeps an operator from losing what cannot be got back.
func (r *reign) mayRemove(servers []raft.Server, at int, how api.Removal) error {
	refuse := func(hint, format string, args ...any) error {
		return &api.Refusal{Status: codes.FailedPrecondition, Code: api.CodeMembership, Cause: fmt.Errorf(format, args...), Hints: []string{hint}}
	}
	id := string(servers[at].ID)
	if id == r.n.id.ID {
		return refuse("hand leadership over first: sluice raft transfer-leader", "coordinator %s is the leader", id)
	}
	if servers[at].Suffrage != raft.Voter {
		return nil
	}
	before := r.quorumOf(servers)
	rest := slices.Delete(slices.Clone(servers), at, at+1)
	after := r.quorumOf(rest)
	if after.live < after.needed {
		return refuse("bring the others back first; if they are lost for ever: sluice raft recover",
			"without coordinator %s, %d of %d voters are reachable and %d are needed: the cluster would stop",
			id, after.live, after.voters, after.needed)
	}
	if how == api.Forced {
		return nil
	}
	if after.tolerance() < before.tolerance() {
		return refuse("add a replacement first, or use --force",
			"removing coordinator %s lowers the number of losses that the cluster survives from %d to %d", id, before.tolerance(), after.tolerance())
	}
	view, _ := r.n.fsm.view()
	for a := range view.Artifacts() {
		if held := r.holders(a.Digest, rest); held < after.needed {
			return refuse("wait until the artifacts are copied, or use --force",
				"without coordinator %s, artifact %.12s is on %d of %d voters, %d are needed", id, a.Digest, held, after.voters, after.needed)
		}
	}
	return nil
}

// quorum counts the voters of a configuration.
type quorum struct{ voters, live, needed int }

// tolerance is how many more reachable voters may be lost.
func (q quorum) tolerance() int { return q.live - q.needed }

func (r *reign) quorumOf(servers []raft.Server) quorum {
	var q quorum
	for _, s := range servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		q.voters++
		if string(s.ID) == r.n.id.ID || r.heard.reachable(string(s.ID)) {
			q.live++
		}
	}
	q.needed = q.voters/2 + 1
	return q
}

// holders counts the voters that are known to hold an artifact.
func (r *reign) holders(digest string, servers []raft.Server) int {
	held := 0
	for _, s := range servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		if string(s.ID) == r.n.id.ID {
			if _, err := r.n.artifacts.Stat(artifactDigest(digest)); err == nil {
				held++
			}
			continue
		}
		if c, ok := r.heard.get(string(s.ID)); ok {
			if _, ok := slices.BinarySearch(c.artifacts, digest); ok {
				held++
			}
		}
	}
	return held
}

// Transfer hands leadership to a voter; to the best one if none is named.
func (n *node) Transfer(ctx context.Context, to string) (string, error) {
	r := n.reigning()
	if r == nil {
		return "", api.ErrNotLeader
	}
	if to == n.id.ID {
		return to, nil
	}
	start := n.raft.LeadershipTransfer
	if to != "" {
		s, ok := n.server(raft.ServerID(to))
		if !ok {
			return "", &api.Refusal{Status: codes.NotFound, Code: api.CodeUnknownPeer, Cause: fmt.Errorf("no coordinator %q", to)}
		}
		if s.Suffrage != raft.Voter {
			return "", &api.Refusal{Status: codes.FailedPrecondition, Code: api.CodeMembership, Retryable: true,
				Cause: fmt.Errorf("coordinator %s is not a voter yet", to)}
		}
		start = func() raft.Future { return n.raft.LeadershipTransferToServer(s.ID, s.Address) }
	}
	if err := n.transfer(ctx, start); err != nil {
		return "", &api.Refusal{Status: codes.Unavailable, Code: api.CodeMembership, Retryable: true,
			Cause: fmt.Errorf("leadership was not handed over: %w", err)}
	}
	return n.awaitOther(ctx)
}

// transfer waits for Raft's transfer, with a deadline around it: Raft's own covers less than all of it.
func (n *node) transfer(ctx context.Context, start func() raft.Future) error {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.StopTimeout)
	defer cancel()
	failed, err := wait(ctx, n.futures, "transfer", func() error { return start().Error() })
	return errors.Join(failed, err)
}

// awaitOther waits until another node is known to lead.
func (n *node) awaitOther(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.NoLeaderWait)
	defer cancel()
	for {
		leader, changed := n.Leader()
		if leader.ID != "" && leader.ID != n.id.ID {
			return leader.ID, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", fmt.Errorf("wait for the new leader: %w", context.Cause(ctx))
		}
	}
}
