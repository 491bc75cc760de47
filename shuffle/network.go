package shuffle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/exchangepb"
	"github.com/sluiceio/sluice/shuffle/budget"
	"github.com/sluiceio/sluice/shuffle/loss"
	"github.com/sluiceio/sluice/shuffle/meet"
)

var errStopped = errors.New("the network of this process has stopped")

// Network holds what the channels of one task process share.
type Network struct {
	cfg    NetworkConfig
	log    hclog.Logger
	memory *budget.Account
	wake   wakeup // for Run: sessions to start, gates to watch
	mu     struct {
		sync.Mutex
		meetings map[channelID]*meet.Meeting[endpoint]
		sessions map[Peer]*session
		starting []*session
		waiting  []*inbox // gates whose producers are not all there
		running  bool
		stopped  bool
	}
}

// NewNetwork checks cfg. Nothing runs before Run.
func NewNetwork(cfg NetworkConfig) (*Network, error) {
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = DefaultConnectTimeout
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	n := &Network{cfg: cfg, log: cfg.Log, wake: newWakeup()}
	if n.log == nil {
		n.log = hclog.NewNullLogger()
	}
	n.memory = budget.New(cfg.Memory)
	n.mu.meetings, n.mu.sessions = map[channelID]*meet.Meeting[endpoint]{}, map[Peer]*session{}
	return n, nil
}

// Memory is how much of the network memory is reserved, and how much there is, in bytes.
func (n *Network) Memory() (reserved, limit int64) { return n.memory.Usage() }

// Account is the account of the network memory, for what shares it.
func (n *Network) Account() *budget.Account { return n.memory }

// Run serves the network until ctx ends and waits for everything that it has started. Channels that are still open
// then are lost. A network runs once.
func (n *Network) Run(ctx context.Context) error {
	n.mu.Lock()
	again := n.mu.running
	n.mu.running = true
	n.mu.Unlock()
	if again {
		return errors.New("shuffle: network runs already")
	}
	g := run.NewGroup(ctx, "shuffle")
	g.Go("dispatch", func(ctx context.Context) error { return n.dispatch(ctx, g) })
	if l := n.cfg.Listener; l != nil {
		server := n.newServer(g)
		g.Go("serve", func(context.Context) error {
			if err := server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
				return fmt.Errorf("serve the exchange: %w", err)
			}
			return nil
		})
		g.Go("stop serving", func(ctx context.Context) error {
			<-ctx.Done()
			server.Stop()
			return nil
		})
	}
	err := g.Wait()
	n.stop()
	return err
}

// dispatch starts sessions and watches the deadlines of gates.
func (n *Network) dispatch(ctx context.Context, g *run.Group) error {
	timer := time.NewTimer(n.cfg.ConnectTimeout)
	defer timer.Stop()
	for {
		for _, s := range n.toStart() {
			g.Go("session", s.run)
		}
		if next, ok := n.expire(time.Now()); ok {
			timer.Reset(time.Until(next))
		}
		select {
		case <-n.wake:
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (n *Network) toStart() []*session {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.mu.starting
	n.mu.starting = nil
	return s
}

// expire fails the gates whose time is up, and returns the next deadline.
func (n *Network) expire(now time.Time) (next time.Time, ok bool) {
	n.mu.Lock()
	waiting := n.mu.waiting
	n.mu.waiting = nil
	n.mu.Unlock()
	var still []*inbox
	for _, in := range waiting {
		if in.expire(now) {
			continue
		}
		still = append(still, in)
		if !ok || in.deadline.Before(next) {
			next, ok = in.deadline, true
		}
	}
	n.mu.Lock()
	n.mu.waiting = append(n.mu.waiting, still...)
	n.mu.Unlock()
	return next, ok
}

// stop fails whatever is left.
func (n *Network) stop() {
	n.mu.Lock()
	n.mu.stopped = true
	var left []endpoint
	for _, m := range n.mu.meetings {
		left = append(left, m.Here()...)
	}
	n.mu.Unlock()
	for _, e := range left {
		e.lose(Broken, errStopped)
	}
}

// arrival is one end on its way to its meeting.
type arrival struct {
	id    channelID
	fence Fence
	end   endpoint
}

// join seats the ends of a writer or gate, all or none, and introduces those whose partner is here.
func (n *Network) join(s meet.Side, ends []arrival) error {
	var displaced []endpoint
	type couple struct{ a, b endpoint }
	var couples []couple
	n.mu.Lock()
	if n.mu.stopped {
		n.mu.Unlock()
		return errStopped
	}
	var refusal *LossError
	for i, a := range ends {
		m := n.mu.meetings[a.id]
		if m == nil {
			m = &meet.Meeting[endpoint]{}
			n.mu.meetings[a.id] = m
		}
		r, verdict := m.Enter(s, a.fence, a.end)
		if verdict != meet.Accepted {
			refusal = a.id.lost(loss.For(verdict), nil)
			for _, b := range ends[:i] {
				n.mu.meetings[b.id].Leave(s, b.fence)
			}
			break
		}
		displaced = append(displaced, r.Displaced...)
		if r.Paired {
			couples = append(couples, couple{a.end, r.Partner})
		}
	}
	n.mu.Unlock()
	for _, e := range displaced {
		e.lose(Stale, errors.New("a newer attempt has come"))
	}
	if refusal != nil {
		return refusal
	}
	for _, c := range couples {
		introduce(c.a, c.b)
	}
	return nil
}

// introduce pairs the two ends of a local channel, in whichever order they came.
func introduce(a, b endpoint) {
	w, ok := a.(*localOut)
	if !ok {
		a, b = b, a
		w, ok = a.(*localOut)
	}
	e, local := b.(inEnd)
	if !ok || !local {
		cause := errors.New("one end takes the other for a remote one")
		a.lose(Protocol, cause)
		b.lose(Protocol, cause)
		return
	}
	w.pair(e.in, e.ch)
}

// leave takes the ends of a writer or gate away; their fences stay.
func (n *Network) leave(s meet.Side, ends []arrival) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range ends {
		n.mu.meetings[a.id].Leave(s, a.fence)
	}
}

// find is the writer's end that a partition request asks for.
func (n *Network) find(r *exchangepb.PartitionRequest) (*remoteOut, Reason) {
	if r.GetProtocol() != exchangepb.Protocol || r.GetJob() != n.cfg.Job {
		return nil, Protocol
	}
	f := Fence{
		Job: r.GetJob(), JobEpoch: r.GetJobEpoch(), Region: r.GetRegion(), RegionEpoch: r.GetRegionEpoch(),
		Producer: r.GetProducerAttempt(), Consumer: r.GetConsumerAttempt(),
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	m := n.mu.meetings[channelID{r.GetEdge(), r.GetProducer(), r.GetConsumer()}]
	if m == nil {
		return nil, notYet
	}
	e, verdict := m.Find(f)
	if verdict != meet.Accepted {
		return nil, loss.For(verdict)
	}
	o, ok := e.(*remoteOut)
	if !ok {
		return nil, Protocol // the writer takes this consumer for a local one
	}
	return o, none
}

// connect puts the remote channels of a gate on the sessions with their producers, which are started as needed.
func (n *Network) connect(in *inbox) error {
	sessions, err := n.subscribe(in)
	for _, s := range sessions {
		s.wake.ring()
	}
	n.wake.ring()
	return err
}

func (n *Network) subscribe(in *inbox) (sessions []*session, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for ch := range in.producers {
		p := in.producers[ch].Peer
		if p == nil {
			continue
		}
		s := n.mu.sessions[*p]
		if s == nil {
			if err := n.memory.Reserve("the stream from "+p.name(), connectionBytes); err != nil {
				return sessions, err
			}
			s = &session{n: n, peer: *p, wake: newWakeup()}
			s.mu.channels = map[uint32]*intake{}
			n.mu.sessions[*p] = s
			n.mu.starting = append(n.mu.starting, s)
		}
		i := &intake{s: s, in: in, ch: ch}
		in.attach(ch, i)
		s.add(i)
		sessions = append(sessions, s)
	}
	n.mu.waiting = append(n.mu.waiting, in)
	return sessions, nil
}

// retire takes a session without channels off the books.
func (n *Network) retire(s *session) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.channels) > 0 {
		return false
	}
	delete(n.mu.sessions, s.peer)
	return true
}
