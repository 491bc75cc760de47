package shuffle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/exchangepb"
	"github.com/sluiceio/sluice/shuffle/frame"
	"github.com/sluiceio/sluice/shuffle/loss"
)

const (
	firstRetry   = 5 * time.Millisecond
	lastRetry    = 200 * time.Millisecond
	drainTimeout = 5 * time.Second // for the peer to end a stream that has no channels left
)

// session is the consuming side of the stream from one other process. It lives as long as it has channels: it dials,
// asks for the partitions, passes frames to the gates and credit back. When the stream breaks, the channels that were
// open are lost; those that were still asking go on to ask over the next one.
type session struct {
	n    *Network
	peer Peer
	wake wakeup
	mu   struct {
		sync.Mutex
		channels map[uint32]*intake
		last     uint32    // channel number
		ask      []*intake // to be asked for now
		later    []*intake // refused for the time being
		owed     []*intake // with credit to grant
		closed   []*exchangepb.Closed
		fresh    bool // a channel was added since the last retry
	}
}

// intake is the consuming end of one channel from another process.
type intake struct {
	s      *session
	number uint32
	in     *inbox
	ch     int

	// Guarded by the session's lock.
	asked   bool // on the current stream
	opened  bool
	removed bool
	credit  int
	answer  string // to the last request, or why there was none
}

func (i *intake) request() *exchangepb.FromConsumer {
	f := i.in.fenceOf(i.ch)
	id := i.in.id(i.ch)
	return &exchangepb.FromConsumer{Message: &exchangepb.FromConsumer_Request{Request: &exchangepb.PartitionRequest{
		Protocol: exchangepb.Protocol, Job: f.Job, JobEpoch: f.JobEpoch, Region: f.Region, RegionEpoch: f.RegionEpoch,
		Edge: id.edge, Producer: id.producer, Consumer: id.consumer, ProducerAttempt: f.Producer, ConsumerAttempt: f.Consumer,
		Channel: i.number, Credit: int32(i.in.exclusive), FrameBytes: int32(i.in.unit),
	}}}
}

// grant passes credit to the producer; what is not sent yet adds up.
func (i *intake) grant(frames int) {
	s := i.s
	s.mu.Lock()
	if !i.removed {
		if i.credit == 0 {
			s.mu.owed = append(s.mu.owed, i)
		}
		i.credit += frames
	}
	s.mu.Unlock()
	s.wake.ring()
}

// close ends the channel from the consumer's side. With none it needs nothing more.
func (i *intake) close(r Reason, cause error) {
	s := i.s
	s.mu.Lock()
	if !i.removed {
		i.removed = true
		delete(s.mu.channels, i.number)
		if i.asked {
			c := &exchangepb.Closed{Channel: i.number, Refusal: r.Refusal()}
			if cause != nil {
				c.Message = cut(cause.Error(), exchangepb.MaxMessage)
			}
			s.mu.closed = append(s.mu.closed, c)
		}
	}
	s.mu.Unlock()
	s.wake.ring()
}

func (i *intake) lastAnswer() string {
	i.s.mu.Lock()
	defer i.s.mu.Unlock()
	if i.answer == "" {
		return "no answer from " + i.s.peer.name()
	}
	return i.answer
}

func (p Peer) name() string {
	return fmt.Sprintf("process %d on %s (%s)", p.Process, p.Worker, p.Address)
}

// add puts a channel on the session. The inbox knows its intake already: answers may come at once. The caller rings.
func (s *session) add(i *intake) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.last++
	i.number = s.mu.last
	s.mu.channels[i.number] = i
	s.mu.ask = append(s.mu.ask, i)
	s.mu.fresh = true
}

// run connects, again and again, while there are channels.
func (s *session) run(ctx context.Context) error {
	defer s.n.memory.Release(connectionBytes)
	retry := firstRetry
	for !s.n.retire(s) {
		err := s.serve(ctx)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		s.broken(err, ctx.Err() != nil || errors.Is(err, ErrGone))
		if err == nil {
			continue
		}
		s.n.log.Debug("session ended", "worker", s.peer.Worker, "process", s.peer.Process, "error", err)
		if s.refreshed() {
			retry = firstRetry
		}
		timer := time.NewTimer(retry)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		retry = min(2*retry, lastRetry)
	}
	return nil
}

func (s *session) refreshed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := s.mu.fresh
	s.mu.fresh = false
	return fresh
}

// broken fails the open channels, or all of them, and has the others asked for anew.
func (s *session) broken(err error, all bool) {
	reason := Broken
	if errors.Is(err, ErrGone) {
		reason = Gone
	}
	if err == nil { // drained, and channels have come since
		err = errors.New("closed because it was not needed")
	}
	err = fmt.Errorf("stream from %s: %w", s.peer.name(), err)
	var lost []*intake
	s.mu.Lock()
	s.mu.ask, s.mu.later, s.mu.owed, s.mu.closed = nil, nil, nil, nil
	for number, i := range s.mu.channels {
		if i.opened || all {
			i.removed = true
			delete(s.mu.channels, number)
			lost = append(lost, i)
			continue
		}
		i.asked, i.credit, i.answer = false, 0, err.Error()
		s.mu.ask = append(s.mu.ask, i)
	}
	s.mu.Unlock()
	for _, i := range lost {
		i.in.lose(i.ch, reason, err)
	}
}

// serve runs one connection. A nil error means that it was not needed any more.
func (s *session) serve(ctx context.Context) (err error) {
	// Shorter than the gates' patience, so that they can say why nothing came of it.
	dialCtx, cancel := context.WithTimeout(ctx, s.n.cfg.ConnectTimeout/4)
	conn, err := s.n.cfg.Dial(dialCtx, s.peer)
	cancel()
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	cc, err := client(conn)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	defer func() {
		if cerr := errors.Join(cc.Close(), ignoreClosed(conn.Close())); err == nil && cerr != nil {
			err = fmt.Errorf("close connection: %w", cerr)
		}
	}()
	g := run.NewGroup(ctx, "session")
	st, err := cc.NewStream(g.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, methodName)
	if err != nil {
		g.Stop()
		return errors.Join(fmt.Errorf("open stream: %w", err), g.Wait())
	}
	r := &received{done: make(chan struct{})}
	g.Go("receive", func(context.Context) error {
		defer close(r.done)
		r.err = s.receive(st)
		return nil // the sender reports it, and ends with it
	})
	g.Go("send", func(ctx context.Context) error { return s.send(ctx, st, r) })
	return g.Wait()
}

// received is how the receiving half of a stream ended.
type received struct {
	done chan struct{}
	err  error // valid after done; nil: the producer's process ended the stream
}

// cause waits for the end of the receiving half and says why the stream broke.
func (r *received) cause() error {
	<-r.done
	if r.err != nil {
		return r.err
	}
	return errors.New("the producer's process closed the stream")
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}

// client makes a gRPC connection of an open network connection. It is never dialled a second time: a broken stream
// means that records were lost, which must not be papered over.
func client(conn net.Conn) (*grpc.ClientConn, error) {
	var used atomic.Bool
	return wire.Policy{}.Client("producer",
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if used.Swap(true) {
				return nil, errors.New("connection lost")
			}
			return conn, nil
		}),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(passThrough{}), grpc.MaxCallRecvMsgSize(exchangepb.MaxFrameBytes)),
		grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(connectionWindow),
		grpc.WithReadBufferSize(ioBuffer), grpc.WithWriteBufferSize(ioBuffer),
	)
}

// receive passes frames to the gates until the stream ends.
func (s *session) receive(st grpc.ClientStream) error {
	for {
		var m inbound
		if err := st.RecvMsg(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := s.dispatch(m.data); err != nil {
			return err
		}
	}
}

// dispatch handles one frame. An error means that the stream cannot be understood.
func (s *session) dispatch(data mem.BufferSlice) error {
	var b [frame.HeaderLen]byte
	h, err := frame.Parse(b[:data.CopyTo(b[:])])
	if err == nil && uint64(data.Len()) != frame.HeaderLen+uint64(h.Payload) {
		err = fmt.Errorf("%w: %d bytes, header says %d and %d", frame.ErrCorrupt, data.Len(), frame.HeaderLen, h.Payload)
	}
	if err != nil {
		data.Free()
		return err
	}
	s.mu.Lock()
	i := s.mu.channels[h.Channel]
	if i != nil && h.Type != frame.Closed {
		i.opened = true
	}
	s.mu.Unlock()
	if i == nil { // closed here while this was under way
		data.Free()
		return nil
	}
	if h.Type != frame.Data {
		defer data.Free()
	}
	switch h.Type {
	case frame.Data:
		if err := i.in.arrive(i.ch, h, data); err != nil {
			i.close(Protocol, err)
			i.in.lose(i.ch, Protocol, err)
		} else if h.Flags&frame.Ended != 0 {
			i.close(none, nil)
		}
	case frame.Backlog:
		i.in.announced(i.ch, int(min(h.Backlog, maxBacklog)))
	case frame.Opened:
		i.in.opened(i.ch)
	case frame.Closed:
		return s.refused(i, h, data)
	}
	return nil
}

// refused handles the producer's No.
func (s *session) refused(i *intake, h frame.Header, data mem.BufferSlice) error {
	text := data.Materialize()[frame.HeaderLen:]
	if err := h.Verify(text); err != nil {
		return err
	}
	reason := loss.Of(exchangepb.Refusal(h.Code))
	s.mu.Lock()
	if reason == notYet && !i.opened {
		i.asked, i.answer = false, reason.String()
		if !i.removed {
			s.mu.later = append(s.mu.later, i)
		}
		s.mu.Unlock()
		s.wake.ring()
		return nil
	}
	i.removed = true
	delete(s.mu.channels, i.number)
	s.mu.Unlock()
	var cause error
	if len(text) > 0 {
		cause = errors.New(string(text))
	}
	if reason == none || reason == notYet {
		reason, cause = Protocol, fmt.Errorf("closed with refusal %d", h.Code)
	}
	i.in.lose(i.ch, reason, cause)
	s.wake.ring()
	return nil
}

// send passes requests, credit and closings to the producers, until no channel is left.
func (s *session) send(ctx context.Context, st grpc.ClientStream, r *received) error {
	retry := firstRetry
	var again <-chan time.Time // runs while channels wait for their next try
	for {
		messages, waiting, idle := s.outgoing()
		for _, m := range messages {
			if err := st.SendMsg(m); errors.Is(err, io.EOF) {
				return r.cause()
			} else if err != nil {
				return err
			}
		}
		if idle {
			return s.drain(ctx, st, r)
		}
		if waiting && again == nil {
			if s.refreshed() {
				retry = firstRetry
			}
			again = time.After(retry)
			retry = min(2*retry, lastRetry)
		}
		select {
		case <-s.wake:
		case <-again:
			again = nil
			s.again()
		case <-r.done:
			return r.cause()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// drain ends a stream without channels.
func (s *session) drain(ctx context.Context, st grpc.ClientStream, r *received) error {
	if err := st.CloseSend(); err != nil {
		return err
	}
	timer := time.NewTimer(drainTimeout)
	defer timer.Stop()
	select {
	case <-r.done:
		return r.err
	case <-timer.C:
		return errors.New("the producer's process does not end the stream")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// again has the refused channels asked for once more.
func (s *session) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.ask = append(s.mu.ask, s.mu.later...)
	s.mu.later = nil
}

// outgoing takes what is to be sent. waiting: channels wait for their next try. idle: there are no channels.
func (s *session) outgoing() (messages []*exchangepb.FromConsumer, waiting, idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.mu.ask {
		if !i.removed {
			i.asked = true
			messages = append(messages, i.request())
		}
	}
	credits := &exchangepb.Credits{}
	for _, i := range s.mu.owed {
		if i.removed {
			continue
		}
		credits.Credits = append(credits.Credits, &exchangepb.Credit{Channel: i.number, Frames: int32(i.credit)})
		i.credit = 0
		if len(credits.Credits) == exchangepb.MaxCredits {
			messages = append(messages, &exchangepb.FromConsumer{Message: &exchangepb.FromConsumer_Credits{Credits: credits}})
			credits = &exchangepb.Credits{}
		}
	}
	if len(credits.Credits) > 0 {
		messages = append(messages, &exchangepb.FromConsumer{Message: &exchangepb.FromConsumer_Credits{Credits: credits}})
	}
	for _, c := range s.mu.closed {
		messages = append(messages, &exchangepb.FromConsumer{Message: &exchangepb.FromConsumer_Cancel{Cancel: c}})
	}
	s.mu.ask, s.mu.owed, s.mu.closed = nil, s.mu.owed[:0], nil
	return messages, len(s.mu.later) > 0, len(s.mu.channels) == 0
}
