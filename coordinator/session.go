package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/coordinator/api"
	"github.com/sluiceio/sluice/coordinator/schedule"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
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
		acked     uint64                     // newest sequence acknowledged
		heartbeat uint64                     // newest heartbeat
	}
}

const (
	outboxSize = 1024
	// registerWait is how long an opened stream may keep silent.
	registerWait = 10 * time.Second
)

var (
	errSlow     = errors.New("the worker does not read fast enough")
	errReplaced = errors.New("the worker has opened another session")
	errStepped  = errors.New("this coordinator no longer leads")
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
	if ack := m.GetAck(); ack != nil {
		s.mu.Lock()
		s.mu.acked = max(s.mu.acked, ack.Sequence)
		ack.Heartbeat = s.mu.heartbeat
		s.mu.Unlock()
	}
	select {
	case s.outbox <- m:
	default:
		s.close(errSlow)
	}
}

// beat notes a heartbeat and returns the answer to it.
func (s *session) beat(h *controlpb.Heartbeat) *controlpb.Ack {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.heard = time.Now()
	s.mu.samples = h.Samples
	s.mu.heartbeat = max(s.mu.heartbeat, h.Sequence)
	return &controlpb.Ack{Sequence: s.mu.acked, Heartbeat: s.mu.heartbeat}
}

// sessions are those of one reign.
type sessions struct {
	r     *reign
	serve sync.WaitGroup // handlers inside the reign

	mu struct {
		sync.Mutex
		byWorker map[string]*session
		builds   map[uint64]chan *controlpb.BuildResult // dry runs that wait
		over     bool
	}
}

func newSessions(r *reign) *sessions {
	s := &sessions{r: r}
	s.mu.byWorker = make(map[string]*session)
	s.mu.builds = make(map[uint64]chan *controlpb.BuildResult)
	return s
}

// end closes every session and waits for their handlers.
func (s *sessions) end() error {
	s.mu.Lock()
	s.mu.over = true
	open := make([]*session, 0, len(s.mu.byWorker))
	for _, one := range s.mu.byWorker {
		open = append(open, one)
	}
	s.mu.Unlock()
	for _, one := range open {
		one.close(errStepped)
	}
	s.serve.Wait()
	return nil
}

// Attach opens the session of a worker.
func (n *node) Attach(stream grpc.BidiStreamingServer[controlpb.WorkerMessage, controlpb.CoordinatorMessage]) error {
	inbox := make(chan *controlpb.WorkerMessage)
	ctx := stream.Context()
	n.group.Go("session input", func(group context.Context) error {
		defer close(inbox)
		for {
			m, err := stream.Recv()
			if err != nil {
				if !errors.Is(err, io.EOF) && ctx.Err() == nil {
					n.log.Debug("session stream broke", "error", err)
				}
				return nil
			}
			select {
			case inbox <- m:
			case <-ctx.Done():
				return nil
			case <-group.Done():
				return nil
			}
		}
	})
	register, err := firstMessage(ctx, inbox)
	if err != nil {
		return err
	}
	r := n.reigning()
	if r == nil {
		return n.refuseSession(api.ErrNotLeader)
	}
	if err := r.admit(register); err != nil {
		return err
	}
	one := newSession(register)
	if err := r.sessions.enter(one); err != nil {
		return n.refuseSession(err)
	}
	defer r.sessions.serve.Done()
	n.group.Go("session output", func(context.Context) error {
		for {
			select {
			case m := <-one.outbox:
				if err := stream.Send(m); err != nil {
					one.close(fmt.Errorf("send: %w", err))
					return nil
				}
			case <-one.closed:
				return nil
			}
		}
	})
	reason := r.converse(ctx, one, register, inbox)
	one.close(reason)
	r.sessions.leave(one)
	r.driver.post(schedule.Detached{Worker: one.worker, Incarnation: one.incarnation}, nil)
	close(one.gone)
	r.log.Info("worker detached", "worker", one.worker, "incarnation", one.incarnation, "reason", one.reason())
	return n.refuseSession(one.reason())
}

func firstMessage(ctx context.Context, inbox <-chan *controlpb.WorkerMessage) (*controlpb.Register, error) {
	timer := time.NewTimer(registerWait)
	defer timer.Stop()
	select {
	case m, ok := <-inbox:
		if !ok {
			return nil, apipb.NewError(codes.Canceled, nil, "the stream ended before it began")
		}
		if m.GetRegister() == nil {
			return nil, badSession(errors.New("the first message is not a registration"))
		}
		if err := m.Validate(); err != nil {
			return nil, badSession(err)
		}
		return m.GetRegister(), nil
	case <-timer.C:
		return nil, badSession(fmt.Errorf("no registration within %s", registerWait))
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func badSession(err error) error {
	return &api.Refusal{Status: codes.InvalidArgument, Code: api.CodeSession, Cause: fmt.Errorf("session refused: %w", err)}
}

// refuseSession tells a worker why its session is over, and where the leader is. The worker looks for the leader again in
// every case.
func (n *node) refuseSession(reason error) error {
	leader, _ := n.Leader()
	code := api.CodeSession
	if errors.Is(reason, api.ErrNotLeader) || errors.Is(reason, errStepped) {
		code = api.CodeNoLeader
	}
	return apipb.NewError(codes.Unavailable, &apipb.ErrorDetail{Code: code, Retryable: true, Leader: leader.Address},
		"session ended: %v", reason)
}

// admit checks whether this leader can work with a worker.
func (r *reign) admit(w *controlpb.Register) error {
	if w.TermSeen > r.term {
		return r.n.refuseSession(fmt.Errorf("%w: the worker has obeyed term %d, this is term %d", errStepped, w.TermSeen, r.term))
	}
	if w.ProtocolMax < r.n.cfg.ProtocolMin || w.ProtocolMin > r.n.cfg.ProtocolMax {
		return &api.Refusal{
			Status: codes.FailedPrecondition, Code: api.CodeProtocol,
			Cause: fmt.Errorf("worker %s speaks task protocols %d to %d, this cluster %d to %d",
				w.Worker, w.ProtocolMin, w.ProtocolMax, r.n.cfg.ProtocolMin, r.n.cfg.ProtocolMax),
			Hints: []string{"upgrade the older of the two"},
		}
	}
	return nil
}

// enter makes a session the one of its worker. An older one of the same worker ends first, in full, so that the scheduler
// never hears "detached" of a session after "attached" of its successor.
func (s *sessions) enter(one *session) error {
	for {
		s.mu.Lock()
		if s.mu.over {
			s.mu.Unlock()
			return errStepped
		}
		old := s.mu.byWorker[one.worker]
		if old == nil {
			s.mu.byWorker[one.worker] = one
			s.serve.Add(1)
			s.mu.Unlock()
			return nil
		}
		s.mu.Unlock()
		if old.incarnation > one.incarnation {
			return fmt.Errorf("incarnation %d is older than %d, which is attached", one.incarnation, old.incarnation)
		}
		old.close(errReplaced)
		<-old.gone
	}
}

func (s *sessions) leave(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.byWorker[one.worker] == one {
		delete(s.mu.byWorker, one.worker)
	}
}

// converse hands what the worker says to the driver until the session ends.
func (r *reign) converse(ctx context.Context, one *session, register *controlpb.Register, inbox <-chan *controlpb.WorkerMessage) error {
	r.log.Info("worker attached", "worker", one.worker, "incarnation", one.incarnation, "address", register.Address)
	r.driver.post(schedule.Attached{Register: register}, one.closed)
	for {
		select {
		case m, ok := <-inbox:
			if !ok {
				return errors.New("the stream ended")
			}
			if err := m.Validate(); err != nil {
				return fmt.Errorf("invalid message: %w", err)
			}
			if err := r.hear(one, m); err != nil {
				return err
			}
		case <-one.closed:
			return one.reason()
		case <-ctx.Done():
			return fmt.Errorf("the stream broke: %w", context.Cause(ctx))
		}
	}
}

func (r *reign) hear(one *session, m *controlpb.WorkerMessage) error {
	switch v := m.Message.(type) {
	case *controlpb.WorkerMessage_Register:
		return errors.New("invalid message: a second registration")
	case *controlpb.WorkerMessage_Heartbeat:
		ack := one.beat(v.Heartbeat)
		one.send(&controlpb.CoordinatorMessage{Term: r.term, Message: &controlpb.CoordinatorMessage_Ack{Ack: ack}})
		r.driver.post(schedule.Heartbeat{Worker: one.worker, Incarnation: one.incarnation}, one.closed)
	case *controlpb.WorkerMessage_Report:
		r.driver.post(schedule.Reported{Worker: one.worker, Incarnation: one.incarnation, Report: v.Report}, one.closed)
	case *controlpb.WorkerMessage_BuildResult:
		r.n.checkProtocol(v.BuildResult)
		if v.BuildResult.Job == "" {
			r.sessions.answerBuild(v.BuildResult)
			return nil
		}
		r.driver.post(schedule.Built{Worker: one.worker, Incarnation: one.incarnation, Result: v.BuildResult}, one.closed)
	case *controlpb.WorkerMessage_Draining:
		r.driver.post(schedule.Draining{
			Worker: one.worker, Incarnation: one.incarnation, Deadline: time.UnixMicro(v.Draining.DeadlineUs),
		}, one.closed)
	}
	return nil
}

// checkProtocol turns the graph of a binary whose runtime is outside the window into a failure.
func (n *node) checkProtocol(b *controlpb.BuildResult) {
	if b.Failure != nil || b.Protocol >= n.cfg.ProtocolMin && b.Protocol <= n.cfg.ProtocolMax {
		return
	}
	b.Built = nil
	b.Failure = &jobpb.Failure{
		Code: api.CodeProtocol, Kind: jobpb.FailureKind_FAILURE_FATAL,
		Message: fmt.Sprintf("the binary speaks task protocol %d, this cluster %d to %d: build the job with a matching release",
			b.Protocol, n.cfg.ProtocolMin, n.cfg.ProtocolMax),
	}
}

func (s *sessions) find(worker string, incarnation uint64) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.mu.byWorker[worker]; one != nil && one.incarnation == incarnation {
		return one
	}
	return nil
}

func (s *sessions) send(worker string, incarnation uint64, m *controlpb.CoordinatorMessage) {
	if one := s.find(worker, incarnation); one != nil {
		one.send(m)
	}
}

func (s *sessions) drop(worker string, incarnation uint64, reason string) {
	if one := s.find(worker, incarnation); one != nil {
		one.close(errors.New(reason))
	}
}

// Samples returns the newest counters of a job's attempts.
func (n *node) Samples(job string) []*taskpb.Counters {
	r := n.reigning()
	if r == nil {
		return nil
	}
	var all []*taskpb.Counters
	for _, p := range r.sessions.samples() {
		if p.Job == job {
			all = append(all, p.Sample.Counters...)
		}
	}
	return all
}

func (s *sessions) samples() []*controlpb.ProcessSample {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*controlpb.ProcessSample
	for _, one := range s.mu.byWorker {
		one.mu.Lock()
		all = append(all, one.mu.samples...)
		one.mu.Unlock()
	}
	return all
}

// Heard returns the age of a worker's newest heartbeat.
func (n *node) Heard(worker string) (time.Duration, bool) {
	r := n.reigning()
	if r == nil {
		return 0, false
	}
	r.sessions.mu.Lock()
	one := r.sessions.mu.byWorker[worker]
	r.sessions.mu.Unlock()
	if one == nil {
		return 0, false
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	return time.Since(one.mu.heard), true
}

// ---------------------------------------------------------------- dry runs

// maxBuilds are the dry runs that may wait at a time.
const maxBuilds = 64

// Build runs the user's build function on some attached worker.
func (n *node) Build(ctx context.Context, spec *jobpb.JobSpec) (*controlpb.BuildResult, error) {
	r := n.reigning()
	if r == nil {
		return nil, api.ErrNotLeader
	}
	limit := n.scheduleConfig(r.term).BuildLimit
	view, _ := n.fsm.view()
	known := view.Artifact(spec.Artifact)
	for _, one := range r.sessions.builders(func(w *commandpb.Worker) bool {
		return w != nil && !w.Draining && (known == nil || w.Os == known.Os && w.Arch == known.Arch)
	}) {
		result, err := r.sessions.build(ctx, one, spec, limit)
		if result != nil || err != nil {
			return result, err
		}
		// That worker was lost in the middle; another one may do.
	}
	return nil, &api.Refusal{
		Status: codes.Unavailable, Code: api.CodeNoWorker, Retryable: true,
		Cause: errors.New("no worker is attached that could run the build"),
		Hints: []string{"sluice workers shows which are known; a plan needs one, a submit does not"},
	}
}

// builders are the sessions of suitable workers, in order of their ids from a random place on.
func (s *sessions) builders(suits func(*commandpb.Worker) bool) []*session {
	view, _ := s.r.n.fsm.view()
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*session
	for id, one := range s.mu.byWorker {
		if suits(view.Worker(id)) {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b *session) int { return compare(a.worker, b.worker) })
	if len(all) > 1 {
		from := rand.IntN(len(all))
		all = append(all[from:], all[:from]...)
	}
	return all
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// build asks one worker; nil without an error says that the worker was lost.
func (s *sessions) build(ctx context.Context, one *session, spec *jobpb.JobSpec, limit time.Duration) (*controlpb.BuildResult, error) {
	id, answer := rand.Uint64(), make(chan *controlpb.BuildResult, 1)
	s.mu.Lock()
	if len(s.mu.builds) >= maxBuilds {
		s.mu.Unlock()
		return nil, &api.Refusal{Status: codes.ResourceExhausted, Code: api.CodeNoWorker, Retryable: true,
			Cause: fmt.Errorf("%d dry runs are under way already", maxBuilds)}
	}
	s.mu.builds[id] = answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.mu.builds, id)
		s.mu.Unlock()
	}()
	one.send(&controlpb.CoordinatorMessage{Term: s.r.term, Message: &controlpb.CoordinatorMessage_Build{
		Build: &controlpb.RequestBuild{Build: id, Spec: spec, TimeLimitUs: limit.Microseconds()},
	}})
	// The worker enforces the limit; the rest is for fetching the binary.
	timer := time.NewTimer(2*limit + registerWait)
	defer timer.Stop()
	select {
	case result := <-answer:
		return result, nil
	case <-one.closed:
		return nil, nil
	case <-s.r.over:
		return nil, api.ErrNotLeader
	case <-timer.C:
		return nil, &api.Refusal{Status: codes.DeadlineExceeded, Code: api.CodeNoWorker, Retryable: true,
			Cause: fmt.Errorf("worker %s did not answer the build", one.worker)}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *sessions) answerBuild(result *controlpb.BuildResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.mu.builds[result.Build] <- result:
	default: // nobody waits any more, or it was answered already
	}
}
