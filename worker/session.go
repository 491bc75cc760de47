package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/sluiceio/sluice/internal/failpoint"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/outbox"
)

// Reasons to leave a coordinator.
var (
	errStaleTerm = errors.New("the coordinator leads in an older term than this worker has obeyed")
	errForeign   = errors.New("the coordinator belongs to another cluster")
	errSilent    = errors.New("the leader does not answer")
)

// connection is what the worker knows about its leader. Guarded by its own lock; the session changes it.
type connection struct {
	mu struct {
		sync.Mutex
		cluster   string // of the first Welcome; a worker belongs to one cluster
		leader    string // id; empty while there is no session
		term      uint64 // highest that was obeyed
		draining  bool   // the leader wants no new work here
		since     time.Time
		heartbeat time.Duration
		lostAfter time.Duration
		losses    int64         // sessions that ended
		changed   chan struct{} // closed when a session begins or ends
	}
}

func newConnection(c Config) *connection {
	k := &connection{}
	k.mu.heartbeat, k.mu.lostAfter = c.Heartbeat, c.LostAfter
	k.mu.since = time.Now()
	k.mu.changed = make(chan struct{})
	return k
}

// registered reports whether a session is open, since when it is or is not, and a channel that is closed at the next
// change.
func (k *connection) registered() (open bool, since time.Time, changed <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.leader != "", k.mu.since, k.mu.changed
}

func (k *connection) termSeen() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.term
}

func (k *connection) timings() (heartbeat, lostAfter time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.heartbeat, k.mu.lostAfter
}

// obey accepts a term, or refuses one that is older than the newest. Every message passes here before it is acted on.
func (k *connection) obey(term uint64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if term < k.mu.term {
		return fmt.Errorf("%w: %d, seen %d", errStaleTerm, term, k.mu.term)
	}
	k.mu.term = term
	return nil
}

// welcomed opens a session.
func (k *connection) welcomed(w *controlpb.Welcome) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.cluster == "" {
		k.mu.cluster = w.Cluster
	}
	if k.mu.cluster != w.Cluster {
		return fmt.Errorf("%w: %s, this worker's is %s", errForeign, w.Cluster, k.mu.cluster)
	}
	k.mu.leader, k.mu.draining = w.Leader, w.Drain
	if k.mu.leader == "" {
		k.mu.leader = "unnamed"
	}
	k.mu.heartbeat = time.Duration(w.HeartbeatUs) * time.Microsecond
	k.mu.lostAfter = time.Duration(w.LostAfterUs) * time.Microsecond
	k.change()
	return nil
}

// left closes the session.
func (k *connection) left() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.leader != "" {
		k.mu.leader = ""
		k.mu.losses++
		k.change()
	}
}

// change notes the moment and wakes those who wait. The lock is held.
func (k *connection) change() {
	k.mu.since = time.Now()
	close(k.mu.changed)
	k.mu.changed = make(chan struct{})
}

// sessions keeps one session with whoever leads, until ctx is done.
func (a *agent) sessions(ctx context.Context) error {
	search := firstSearch
	for ctx.Err() == nil {
		if a.search(ctx) {
			search = firstSearch
			continue
		}
		// Not all workers at the same moment.
		if !pause(ctx, search/2+rand.N(search)) {
			return nil
		}
		search = min(2*search, lastSearch)
	}
	return nil
}

// search asks every candidate once and reports whether a session was held.
func (a *agent) search(ctx context.Context) bool {
	asked := map[string]bool{}
	for {
		addr := ""
		for _, c := range a.finder.candidates() { // anew each time: a refusal may have named the leader
			if !asked[c] {
				addr = c
				break
			}
		}
		if addr == "" || ctx.Err() != nil {
			return false
		}
		asked[addr] = true
		held, err := a.attach(ctx, addr)
		if ctx.Err() != nil {
			return held
		}
		if detail, ok := apipb.DetailOf(err); ok && detail.Leader != "" {
			a.finder.hint(detail.Leader)
		}
		if errors.Is(err, errSilent) {
			a.finder.suspect(addr)
		}
		if held {
			a.log.Warn("session with the leader ended", "leader", addr, "error", err)
			return true
		}
		if errors.Is(err, errForeign) {
			a.log.Error("coordinator refused: restart this worker if its cluster was restored from the snapshot of another", "coordinator", addr, "error", err)
			continue
		}
		a.log.Debug("coordinator does not take this worker", "coordinator", addr, "error", err)
	}
}

// attach holds one session with the coordinator at addr. held reports whether it was welcomed; err is why it ended.
func (a *agent) attach(ctx context.Context, addr string) (held bool, err error) {
	conn, err := a.cfg.Policy.Client(addr)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	_, lostAfter := a.connection.timings()
	s := &session{agent: a, cancel: cancel}
	watchdog := time.AfterFunc(lostAfter/2, func() { cancel(errSilent) })
	defer watchdog.Stop()
	s.stream, err = controlpb.NewControlClient(conn).Attach(ctx)
	if err == nil {
		err = s.open()
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return false, err
	}
	watchdog.Stop()
	defer a.connection.left()
	a.finder.found(addr)
	a.log.Info("registered with the leader", "coordinator", addr, "term", a.connection.termSeen())
	return true, s.hold(ctx)
}

// session is one open stream to a leader.
type session struct {
	agent  *agent
	stream controlpb.Control_AttachClient
	cancel context.CancelCauseFunc // ends the stream

	mu struct {
		sync.Mutex
		lastHeard time.Time
	}
}

// open registers and waits to be welcomed.
func (s *session) open() error {
	a := s.agent
	if err := failpoint.Hit(s.stream.Context(), "worker.register"); err != nil {
		return err
	}
	if err := s.stream.Send(&controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_Register{Register: a.registration()}}); err != nil {
		return s.reason(err)
	}
	m, err := s.receive()
	if err != nil {
		return err
	}
	welcome := m.GetWelcome()
	if welcome == nil {
		return fmt.Errorf("the coordinator began with %T instead of a welcome", m.Message)
	}
	return a.connection.welcomed(welcome)
}

// reason finds the error behind a failed send: the stream tells it only when it is read.
func (s *session) reason(sendErr error) error {
	if _, err := s.stream.Recv(); err != nil {
		return err
	}
	return sendErr
}

// receive returns the next message that this worker may obey.
func (s *session) receive() (*controlpb.CoordinatorMessage, error) {
	m, err := s.stream.Recv()
	if err != nil {
		return nil, err
	}
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("message of the leader: %w", err)
	}
	if err := s.agent.connection.obey(m.Term); err != nil {
		s.agent.counters.stale.Add(1)
		return nil, err
	}
	return m, nil
}

// hold runs the session until it ends, and returns why.
func (s *session) hold(ctx context.Context) error {
	s.mu.lastHeard = time.Now()
	g := run.NewGroup(ctx, "session")
	g.Go("receive", s.listen)
	g.Go("send", s.speak)
	g.Go("watch", s.watch)
	g.Go("close", func(ctx context.Context) error {
		<-ctx.Done()
		s.cancel(context.Cause(ctx)) // listen and speak block on the stream
		return nil
	})
	return g.Wait()
}

// listen obeys the leader. The stream ends with the session's context.
func (s *session) listen(ctx context.Context) error {
	for {
		m, err := s.receive()
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.mu.lastHeard = time.Now()
		s.mu.Unlock()
		s.agent.obey(m)
	}
}

// speak sends reports, answers and heartbeats, all from one goroutine.
func (s *session) speak(ctx context.Context) error {
	a := s.agent
	heartbeat, _ := a.connection.timings()
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	var sequence, sent, answered uint64
	for {
		reports, news := a.outbox.After(sent)
		for _, r := range reports {
			if err := failpoint.Hit(ctx, "worker.report"); err != nil {
				return err
			}
			if err := s.send(&controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_Report{Report: r}}); err != nil {
				return err
			}
			sent = r.Sequence
		}
		results, behind, answers := a.builds.after(answered)
		for _, r := range results {
			if err := s.send(&controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_BuildResult{BuildResult: r}}); err != nil {
				return err
			}
		}
		answered = behind
		var m *controlpb.WorkerMessage
		if len(reports) == outbox.Batch {
			news = closed // there may be more: look again, but let a heartbeat through
		}
		select {
		case <-news:
		case <-answers:
		case <-ticker.C:
			sequence++
			m = &controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_Heartbeat{Heartbeat: &controlpb.Heartbeat{
				Sequence: sequence, Samples: a.table.samples(),
			}}}
		case r := <-a.requests:
			m = &controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_Report{Report: r}}
		case d := <-a.drains:
			m = &controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_Draining{Draining: d}}
		case lost := <-a.results.Lost():
			m = &controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_Lost{Lost: lost}}
		case r := <-a.objects.Reports():
			m = &controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_Objects{Objects: r}}
		case <-ctx.Done():
			return nil
		}
		if m == nil {
			continue
		}
		if err := s.send(m); err != nil {
			return err
		}
	}
}

// closed is a channel that is always ready.
var closed = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// send passes one message on. That it failed is told better by the reader, which learns the status.
func (s *session) send(m *controlpb.WorkerMessage) error {
	if err := s.stream.Send(m); err != nil {
		return fmt.Errorf("send to the leader: %w", err)
	}
	return nil
}

// watch ends a session whose leader has fallen silent: it answers every heartbeat. It must be sooner than the loss timeout: a paused leader keeps its
// connections, and its successor gives every worker only that long to come.
func (s *session) watch(ctx context.Context) error {
	_, lostAfter := s.agent.connection.timings()
	limit := lostAfter * 2 / 3
	ticker := time.NewTicker(limit / 8)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		s.mu.Lock()
		silence := time.Since(s.mu.lastHeard)
		s.mu.Unlock()
		if silence > limit {
			return fmt.Errorf("%w: nothing heard for %s", errSilent, silence.Round(time.Millisecond))
		}
	}
}

// registration says who this worker is and everything that runs on it.
func (a *agent) registration() *controlpb.Register {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return &controlpb.Register{
		Worker: a.id.ID, Incarnation: a.id.Incarnation, Address: a.addresses.Control, DataAddress: a.addresses.Data,
		Slots: int32(a.cfg.Slots), Memory: a.cfg.Memory, Version: a.cfg.Version,
		ProtocolMin: taskpb.ProtocolMin, ProtocolMax: taskpb.ProtocolMax, Os: runtime.GOOS, Arch: runtime.GOARCH,
		Host: host, Zone: a.cfg.Zone, TermSeen: a.connection.termSeen(),
		Processes: a.table.inventory(), Artifacts: a.cache.Digests(), Partitions: a.results.Inventory(),
		Objects: a.objects.Inventory(),
	}
}
