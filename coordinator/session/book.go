package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/coordinator/api"
	"github.com/sluiceio/sluice/coordinator/group"
	"github.com/sluiceio/sluice/coordinator/schedule"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Config of a Book.
type Config struct {
	Term                     uint64
	ProtocolMin, ProtocolMax int32         // window of task protocols of the cluster
	BuildLimit               time.Duration // of a user's build function in a dry run
	Facts                    func() *state.View
	// Post hands an event to the scheduler, in order. It waits while the scheduler is busy, but not once gone is closed
	// or the reign is over.
	Post func(e schedule.Event, gone <-chan struct{})
	Log  hclog.Logger
}

// Book has the sessions of one reign.
type Book struct {
	cfg     Config
	serving sync.WaitGroup // handlers inside the reign
	over    chan struct{}  // closed by End

	mu struct {
		sync.Mutex
		byWorker map[string]*session
		builds   map[uint64]chan *controlpb.BuildResult // dry runs that wait
		over     bool
	}
}

// NewBook makes an empty book.
func NewBook(cfg Config) *Book {
	b := &Book{cfg: cfg, over: make(chan struct{})}
	b.mu.byWorker = make(map[string]*session)
	b.mu.builds = make(map[uint64]chan *controlpb.BuildResult)
	return b
}

// End closes every session and waits until their last events are posted.
func (b *Book) End() error {
	b.mu.Lock()
	if !b.mu.over {
		b.mu.over = true
		close(b.over)
	}
	open := make([]*session, 0, len(b.mu.byWorker))
	for _, s := range b.mu.byWorker {
		open = append(open, s)
	}
	b.mu.Unlock()
	for _, s := range open {
		s.close(ErrOver)
	}
	b.serving.Wait()
	return nil
}

// Serve is the life of a session. It returns when that is over, with the reason.
func (b *Book) Serve(in *Incoming) error {
	if err := b.admit(in.Register); err != nil {
		return err
	}
	s := newSession(in.Register)
	if err := b.enter(s); err != nil {
		return err
	}
	defer b.serving.Done()
	in.group.Go("session output", func(context.Context) error { return in.write(s) })
	b.cfg.Log.Info("worker attached", "worker", s.worker, "incarnation", s.incarnation, "address", in.Register.Address)
	s.close(b.converse(s, in))
	b.leave(s)
	b.cfg.Post(schedule.Detached{Worker: s.worker, Incarnation: s.incarnation}, nil)
	close(s.gone)
	b.cfg.Log.Info("worker detached", "worker", s.worker, "incarnation", s.incarnation, "reason", s.reason())
	return s.reason()
}

// admit checks whether this leader can work with a worker.
func (b *Book) admit(w *controlpb.Register) error {
	if w.TermSeen > b.cfg.Term {
		return fmt.Errorf("%w: worker %s has obeyed term %d, this is term %d", ErrOver, w.Worker, w.TermSeen, b.cfg.Term)
	}
	if w.ProtocolMax < b.cfg.ProtocolMin || w.ProtocolMin > b.cfg.ProtocolMax {
		return &api.Refusal{
			Status: codes.FailedPrecondition, Code: api.CodeProtocol,
			Cause: fmt.Errorf("worker %s speaks task protocols %d to %d, this cluster %d to %d",
				w.Worker, w.ProtocolMin, w.ProtocolMax, b.cfg.ProtocolMin, b.cfg.ProtocolMax),
			Hints: []string{"upgrade the older of the two"},
		}
	}
	return nil
}

// enter makes a session the one of its worker. An older one of the same worker ends first, in full, so that the scheduler
// never hears "detached" of a session after "attached" of its successor.
func (b *Book) enter(s *session) error {
	for {
		b.mu.Lock()
		if b.mu.over {
			b.mu.Unlock()
			return ErrOver
		}
		old := b.mu.byWorker[s.worker]
		if old == nil {
			b.mu.byWorker[s.worker] = s
			b.serving.Add(1)
			b.mu.Unlock()
			return nil
		}
		b.mu.Unlock()
		if old.incarnation > s.incarnation {
			return fmt.Errorf("incarnation %d of worker %s is older than %d, which is attached", s.incarnation, s.worker, old.incarnation)
		}
		old.close(ErrReplaced)
		select {
		case <-old.gone:
		case <-b.over:
			return ErrOver
		}
	}
}

func (b *Book) leave(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.byWorker[s.worker] == s {
		delete(b.mu.byWorker, s.worker)
	}
}

// converse hands what the worker says to the scheduler until the session ends.
func (b *Book) converse(s *session, in *Incoming) error {
	b.cfg.Post(schedule.Attached{Register: in.Register}, s.closed)
	for {
		select {
		case m, ok := <-in.inbox:
			if !ok {
				return errors.New("the stream ended")
			}
			if err := m.Validate(); err != nil {
				return fmt.Errorf("invalid message: %w", err)
			}
			if err := b.hear(s, m); err != nil {
				return err
			}
		case <-s.closed:
			return s.reason()
		}
	}
}

func (b *Book) hear(s *session, m *controlpb.WorkerMessage) error {
	switch v := m.Message.(type) {
	case *controlpb.WorkerMessage_Register:
		return errors.New("invalid message: a second registration")
	case *controlpb.WorkerMessage_Heartbeat:
		if ack := s.beat(v.Heartbeat); ack != nil {
			s.send(&controlpb.CoordinatorMessage{Term: b.cfg.Term, Message: &controlpb.CoordinatorMessage_Ack{Ack: ack}})
		}
		b.tellGroups(s, v.Heartbeat.Samples)
		b.cfg.Post(schedule.Heartbeat{Worker: s.worker, Incarnation: s.incarnation}, s.closed)
	case *controlpb.WorkerMessage_Report:
		b.cfg.Post(schedule.Reported{Worker: s.worker, Incarnation: s.incarnation, Report: v.Report}, s.closed)
	case *controlpb.WorkerMessage_BuildResult:
		b.checkProtocol(v.BuildResult)
		if v.BuildResult.Job == "" {
			b.answerBuild(v.BuildResult)
			return nil
		}
		b.cfg.Post(schedule.Built{Worker: s.worker, Incarnation: s.incarnation, Result: v.BuildResult}, s.closed)
	case *controlpb.WorkerMessage_Draining:
		b.cfg.Post(schedule.Draining{
			Worker: s.worker, Incarnation: s.incarnation, Deadline: time.UnixMicro(v.Draining.DeadlineUs),
		}, s.closed)
	case *controlpb.WorkerMessage_Objects:
		b.cfg.Post(schedule.Objects{Worker: s.worker, Incarnation: s.incarnation, Report: v.Objects}, s.closed)
	case *controlpb.WorkerMessage_Lost:
		b.cfg.Post(schedule.Missing{Worker: s.worker, Incarnation: s.incarnation, Results: v.Lost}, s.closed)
	}
	return nil
}

// checkProtocol turns the graph of a binary whose runtime is outside the window into a failure.
func (b *Book) checkProtocol(r *controlpb.BuildResult) {
	if r.Failure != nil || r.Protocol >= b.cfg.ProtocolMin && r.Protocol <= b.cfg.ProtocolMax {
		return
	}
	r.Built = nil
	r.Failure = &jobpb.Failure{
		Code: api.CodeProtocol, Kind: jobpb.FailureKind_FAILURE_FATAL,
		Message: fmt.Sprintf("the binary speaks task protocol %d, this cluster %d to %d: build the job with a matching release",
			r.Protocol, b.cfg.ProtocolMin, b.cfg.ProtocolMax),
	}
}

func (b *Book) find(worker string) *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.byWorker[worker]
}

// Send queues a message for an incarnation. Without a session of it, the message is dropped.
func (b *Book) Send(worker string, incarnation uint64, m *controlpb.CoordinatorMessage) {
	if s := b.find(worker); s != nil && s.incarnation == incarnation {
		m.Term = b.cfg.Term
		s.send(m)
	}
}

// Drop ends the session of an incarnation; the worker may come back.
func (b *Book) Drop(worker string, incarnation uint64, reason string) {
	if s := b.find(worker); s != nil && s.incarnation == incarnation {
		s.close(errors.New(reason))
	}
}

// Heard returns the age of a worker's newest heartbeat; false without a session.
func (b *Book) Heard(worker string) (time.Duration, bool) {
	if s := b.find(worker); s != nil {
		return s.age(), true
	}
	return 0, false
}

// tellGroups answers a heartbeat with where the alignment groups of its processes stand elsewhere.
func (b *Book) tellGroups(s *session, samples []*controlpb.ProcessSample) {
	named := func(p *controlpb.ProcessSample) bool { return len(p.Sample.GetGroups()) > 0 }
	if !slices.ContainsFunc(samples, named) {
		return
	}
	for _, m := range group.Elsewhere(samples, b.Samples()) {
		s.send(&controlpb.CoordinatorMessage{Term: b.cfg.Term, Message: &controlpb.CoordinatorMessage_GroupClocks{GroupClocks: m}})
	}
}

// Samples are those of the newest heartbeats of all workers.
func (b *Book) Samples() []*controlpb.ProcessSample {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []*controlpb.ProcessSample
	for _, s := range b.mu.byWorker {
		all = append(all, s.sampled()...)
	}
	return all
}
