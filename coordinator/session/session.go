package session

import (
	"errors"
	"sync"
	"time"

	"github.com/sluiceio/sluice/proto/controlpb"
)

// session is the stream of one worker incarnation to this leader.
//
// # Nobody waits for a worker
//
// The leader's messages go into outbox, which is bounded. One goroutine moves them to the stream and may be stuck there for
// as long as the worker does not read; when the outbox is full, the session is closed, which the scheduler sees as
// Detached. The worker comes back with its inventory, and the scheduler sends again what is missing. (Blocking the driver was
// rejected: one stopped worker would stop the cluster. Dropping single messages too: a session delivers in order or ends.)
type session struct {
	worker      string
	incarnation uint64

	outbox chan *controlpb.CoordinatorMessage
	closed chan struct{} // closed by close
	gone   chan struct{} // closed when Detached has been posted

	mu struct {
		sync.Mutex
		reason    error // why it was closed; nil while it is open
		heard     time.Time
		samples   []*controlpb.ProcessSample // of the newest heartbeat
		welcomed  bool                       // the welcome is in the outbox
		acked     uint64                     // newest report that was acknowledged
		heartbeat uint64                     // newest heartbeat
	}
}

const outboxSize = 1024

// Reasons for the end of a session.
var (
	ErrSlow     = errors.New("the worker does not read fast enough")
	ErrReplaced = errors.New("the worker has opened another session")
	// ErrOver: the reign has ended, or the worker has obeyed a newer leader.
	ErrOver = errors.New("this coordinator no longer leads")
)

func newSession(r *controlpb.Register) *session {
	s := &session{
		worker:      r.Worker,
		incarnation: r.Incarnation,
		outbox:      make(chan *controlpb.CoordinatorMessage, outboxSize),
		closed:      make(chan struct{}),
		gone:        make(chan struct{}),
	}
	s.mu.heard = time.Now()
	return s
}

// close ends the session; the first reason counts.
func (s *session) close(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.reason == nil {
		s.mu.reason = reason
		close(s.closed)
	}
}

func (s *session) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.reason
}

// send queues a message, or closes a session that cannot take it.
func (s *session) send(m *controlpb.CoordinatorMessage) {
	s.mu.Lock()
	if ack := m.GetAck(); ack != nil {
		s.mu.acked = max(s.mu.acked, ack.Sequence)
		ack.Heartbeat = s.mu.heartbeat
	}
	s.mu.welcomed = s.mu.welcomed || m.GetWelcome() != nil
	s.mu.Unlock()
	select {
	case s.outbox <- m:
	default:
		s.close(ErrSlow)
	}
}

// beat notes a heartbeat and returns the answer to it; none before the welcome, which is the first thing that a worker
// hears.
func (s *session) beat(h *controlpb.Heartbeat) *controlpb.Ack {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.heard = time.Now()
	s.mu.samples = h.Samples
	s.mu.heartbeat = max(s.mu.heartbeat, h.Sequence)
	if !s.mu.welcomed {
		return nil
	}
	return &controlpb.Ack{Sequence: s.mu.acked, Heartbeat: s.mu.heartbeat}
}

func (s *session) age() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.mu.heard)
}

func (s *session) sampled() []*controlpb.ProcessSample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.samples
}
