package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/sluiceio/sluice/coordinator/api"
	"github.com/sluiceio/sluice/coordinator/datadir"
	"github.com/sluiceio/sluice/coordinator/schedule"
	"github.com/sluiceio/sluice/coordinator/session"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/internal/failpoint"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/commandpb"
)

// reign is what exists only while this node leads: sessions, the scheduler, and the leader's side tasks.
//
// # One reign at a time
//
// followLeadership is the only goroutine that begins and ends reigns. It follows LeaderCh, which keeps the newest change
// only: a second "true" means that leadership was lost and won again in between, so it ends the old reign like a "false"
// does. (NotifyCh was rejected: Raft's main goroutine blocks on it, so a slow reader stops heartbeats.) Ending means waiting
// for every task of the reign, so no command of an old reign is ever formed beside a new one. It does not mean that none
// is in the log: those that are become stale by their own preconditions.
//
// # Order
//
// Begin: barrier (everything committed before is applied here) → who leads and what this node is → scheduler → sessions
// → side tasks → published, from when on calls are answered. End: the mirror image, each step waited for. While a step of
// the beginning fails, the reign tries again from the barrier, for as long as Raft says that this node leads.
type reign struct {
	n    *node
	log  hclog.Logger
	term uint64

	sessions *session.Book
	driver   *driver
	// over is closed when the end begins; it is the Until of api.Leader.
	over chan struct{}
	// members is held by whoever changes the membership; uploads owns the copies on their way to other coordinators.
	members chan struct{}
	uploads *run.Group
	stores  *run.Group // steps with the stores of snapshots that are under way
	heard   contacts
}

// followLeadership lives as long as the node.
func (n *node) followLeadership(ctx context.Context) error {
	var current *run.Group
	end := func() {
		if current == nil {
			return
		}
		current.Stop()
		if err := current.Wait(); err != nil {
			n.log.Error("reign ended badly", "error", err)
		}
		current = nil
	}
	defer end()
	for {
		select {
		case leads := <-n.raft.LeaderCh():
			end()
			if leads {
				current = n.begin(ctx)
			}
		case <-n.renew:
			// The facts were replaced under the leader's feet: what it concluded from them is void.
			if current != nil {
				end()
				current = n.begin(ctx)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

const (
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)

// begin starts the life of a reign and returns at once, so that the loss of leadership is noticed in its middle.
func (n *node) begin(ctx context.Context) *run.Group {
	g := run.NewGroup(ctx, "reign")
	g.Go("life", func(ctx context.Context) error {
		pause := firstPause
		for {
			err := n.rule(ctx)
			if ctx.Err() != nil {
				return nil
			}
			n.log.Error("reign interrupted, starting it again", "error", err, "pause", pause)
			if !sleep(ctx, pause) {
				return nil
			}
			pause = min(2*pause, maxPause)
		}
	})
	return g
}

// sleep waits and reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// rule is one reign from barrier to revocation. It returns when ctx ends or a step or task fails.
func (n *node) rule(ctx context.Context) (err error) {
	if err := n.barrier(ctx); err != nil {
		return err
	}
	r := &reign{n: n, term: n.raft.CurrentTerm(), over: make(chan struct{}), members: make(chan struct{}, 1)}
	r.log = n.log.Named("leader").With("term", r.term)
	if err := failpoint.Hit(ctx, "coordinator.reign.barrier"); err != nil {
		return err
	}
	if err := r.announce(ctx); err != nil {
		return err
	}
	if err := failpoint.Hit(ctx, "coordinator.reign.announced"); err != nil {
		return err
	}
	failed := make(chan error, 1)
	var revoke []func() error
	defer func() {
		for i := len(revoke) - 1; i >= 0; i-- {
			err = errors.Join(err, revoke[i]())
		}
		r.log.Info("reign is over")
	}()
	establish := func(name string, start func(g *run.Group)) {
		g := run.NewGroup(ctx, name)
		start(g)
		revoke = append(revoke, func() error { g.Stop(); return g.Wait() })
		context.AfterFunc(g.Context(), func() {
			select {
			case failed <- fmt.Errorf("%s ended: %w", name, context.Cause(g.Context())):
			default:
			}
		})
	}

	limits := n.scheduleConfig(r.term)
	r.driver = newDriver(r, schedule.New(limits))
	r.sessions = session.NewBook(session.Config{
		Term: r.term, ProtocolMin: n.cfg.ProtocolMin, ProtocolMax: n.cfg.ProtocolMax, BuildLimit: limits.BuildLimit,
		Facts: func() *state.View { view, _ := n.fsm.view(); return view }, Post: r.driver.post, Log: r.log,
	})
	establish("stores", func(g *run.Group) { r.stores = g })
	establish("driver", r.driver.start)
	revoke = append(revoke, r.sessions.End)
	establish("uploads", func(g *run.Group) { r.uploads = g })
	establish("side", func(g *run.Group) {
		g.Go("audit", r.audit)
		g.Go("promote", r.promote)
		g.Go("collect", r.collect)
	})
	n.throne.take(r)
	revoke = append(revoke, func() error {
		n.throne.leave(r)
		close(r.over)
		return nil
	})
	r.log.Info("reign has begun")
	n.metrics.Reigns.Inc()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// barrier returns when everything that any leader committed before is applied here.
func (n *node) barrier(ctx context.Context) error {
	failed, err := wait(ctx, n.futures, "barrier", func() error { return n.raft.Barrier(n.cfg.ApplyTimeout).Error() })
	if err = errors.Join(failed, err); err != nil {
		return fmt.Errorf("barrier: %w", err)
	}
	return nil
}

// announce commits who leads, and whatever a first leader has to say. Every step is void when it has happened already.
func (r *reign) announce(ctx context.Context) error {
	propose := func(what string, cmd *commandpb.Command) error {
		result, err := r.n.Propose(ctx, cmd)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if result.Status == state.Refused {
			return fmt.Errorf("%s: refused: %s", what, result.Message)
		}
		return nil
	}
	if err := propose("announce leader", &commandpb.Command{Command: &commandpb.Command_LeaderElected{
		LeaderElected: &commandpb.LeaderElected{Id: r.n.id.ID, Term: r.term},
	}}); err != nil {
		return err
	}
	view, _ := r.n.fsm.view()
	if view.Cluster() == "" {
		if err := propose("initialise cluster", &commandpb.Command{Command: &commandpb.Command_InitCluster{
			InitCluster: &commandpb.InitCluster{Cluster: datadir.NewID()},
		}}); err != nil {
			return err
		}
	}
	if !proto.Equal(view.Node(r.n.id.ID), r.n.record()) {
		return propose("put own node", &commandpb.Command{Command: &commandpb.Command_PutNode{
			PutNode: &commandpb.PutNode{Node: r.n.record()},
		}})
	}
	return nil
}

// throne knows who leads. It is read by every call and written by two: followLeadership (here) and watchLeader (elsewhere).
type throne struct {
	mu struct {
		sync.Mutex
		reign   *reign
		id      string // Raft's leader
		address string
		term    uint64
		changed chan struct{}
	}
}

func newThrone() *throne {
	t := &throne{}
	t.mu.changed = make(chan struct{})
	return t
}

func (t *throne) take(r *reign) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.reign = r
	t.tellLocked()
}

func (t *throne) leave(r *reign) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.reign == r {
		t.mu.reign = nil
	}
	t.tellLocked()
}

func (t *throne) see(id, address string, term uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.id == id && t.mu.address == address && t.mu.term == term {
		return
	}
	t.mu.id, t.mu.address, t.mu.term = id, address, term
	t.tellLocked()
}

func (t *throne) tellLocked() {
	close(t.mu.changed)
	t.mu.changed = make(chan struct{})
}

// reigning returns the published reign, or nil.
func (n *node) reigning() *reign {
	n.throne.mu.Lock()
	defer n.throne.mu.Unlock()
	return n.throne.mu.reign
}

// Leader returns who leads.
func (n *node) Leader() (api.Leader, <-chan struct{}) {
	t := n.throne
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.mu.reign; r != nil {
		return api.Leader{ID: n.id.ID, Address: n.apiAddress, Term: r.term, Here: true, Until: r.over}, t.mu.changed
	}
	leader := api.Leader{ID: t.mu.id, Address: t.mu.address, Term: t.mu.term}
	if leader.ID == "" {
		leader.LostFor = n.lostFor()
	}
	return leader, t.mu.changed
}

// lostFor is the time without contact to a leader.
func (n *node) lostFor() time.Duration {
	last := n.raft.LastContact()
	if last.IsZero() || last.Before(n.started) {
		last = n.started
	}
	return time.Since(last)
}

// watchLeader keeps the throne's view of others up to date: who Raft says leads, and where that node's API is.
func (n *node) watchLeader(ctx context.Context) error {
	seen := make(chan raft.Observation, 16)
	observer := raft.NewObserver(seen, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.RaftState:
			return true
		}
		return false
	})
	n.raft.RegisterObserver(observer)
	defer n.raft.DeregisterObserver(observer)
	last := ""
	for {
		view, changed := n.fsm.view()
		_, id := n.raft.LeaderWithID()
		address := view.Node(string(id)).GetApiAddress()
		if string(id) == n.id.ID {
			address = n.apiAddress
		}
		n.throne.see(string(id), address, n.raft.CurrentTerm())
		if string(id) != last && id != "" {
			n.metrics.LeaderChanges.Inc()
			n.log.Info("leader is known", "leader", string(id), "term", n.raft.CurrentTerm())
		}
		last = string(id)
		select {
		case <-seen:
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}
