package shuffle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/exchangepb"
	"github.com/sluiceio/sluice/shuffle/frame"
	"github.com/sluiceio/sluice/shuffle/loss"
)

const (
	serviceName = "sluice.exchange.Exchange"
	streamName  = "Open"
	methodName  = "/" + serviceName + "/" + streamName

	// A large window would be hidden buffering in front of the consumer; frames in it have credit in any case.
	streamWindow     = 512 << 10 // bytes
	connectionWindow = 1 << 20   // bytes
	ioBuffer         = 64 << 10  // bytes, for reading and for writing
	maxRequest       = 256 << 10 // bytes of one message of a consumer
	maxControl       = 1024      // answers that wait to be sent before requests are read no further
)

// newServer makes the producers' side of the exchange. Its handlers' senders run in g.
func (n *Network) newServer(g *run.Group) *grpc.Server {
	s := wire.Policy{}.Server( // of connections that were accepted elsewhere
		grpc.ForceServerCodecV2(passThrough{}),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.InitialWindowSize(ioBuffer), // consumers say little
		grpc.InitialConnWindowSize(ioBuffer),
		grpc.ReadBufferSize(ioBuffer), grpc.WriteBufferSize(ioBuffer),
		grpc.WaitForHandlers(true),
		grpc.MaxConcurrentStreams(4), // one, and its successor while it drains
	)
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: serviceName,
		HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{
			StreamName: streamName, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, st grpc.ServerStream) error { return n.handle(g, st) },
		}},
	}, nil)
	return s
}

// serverStream carries the frames of all channels from this process to one other. A sender takes turns between the
// channels that have something to send, so that none waits behind a slow one.
type serverStream struct {
	n    *Network
	wake wakeup
	room wakeup // rings when mu.control has become shorter
	mu   struct {
		sync.Mutex
		control  []mem.BufferSlice // answers, sent before frames
		ready    []*remoteOut
		isReady  map[*remoteOut]bool
		channels map[uint32]*remoteOut // attached, until the consumer has closed them
		over     bool
	}
}

// handle serves one consumer process until its stream ends.
func (n *Network) handle(g *run.Group, st grpc.ServerStream) error {
	if err := n.memory.Reserve("a stream from another process", connectionBytes); err != nil {
		return status.Error(codes.ResourceExhausted, err.Error())
	}
	defer n.memory.Release(connectionBytes)
	s := &serverStream{n: n, wake: newWakeup(), room: newWakeup()}
	s.mu.isReady, s.mu.channels = map[*remoteOut]bool{}, map[uint32]*remoteOut{}
	sent, stop := make(chan struct{}), make(chan struct{})
	g.Go("send", func(ctx context.Context) error {
		defer close(sent)
		s.send(ctx, st, stop)
		return nil
	})
	err := s.receive(st)
	s.end(err)
	close(stop)
	<-sent // a handler must not return while its stream is being written to
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// receive reads what the consumer says until the stream ends.
func (s *serverStream) receive(st grpc.ServerStream) error {
	for {
		var m exchangepb.FromConsumer
		if err := st.RecvMsg(&m); err != nil {
			return err
		}
		if err := m.Validate(); err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
		if err := s.dispatch(st.Context(), &m); err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
	}
}

func (s *serverStream) dispatch(ctx context.Context, m *exchangepb.FromConsumer) error {
	switch x := m.GetMessage().(type) {
	case *exchangepb.FromConsumer_Request:
		return s.request(ctx, x.Request)
	case *exchangepb.FromConsumer_Credits:
		for _, c := range x.Credits.GetCredits() {
			o := s.channel(c.GetChannel())
			if o != nil && !o.grant(int(c.GetFrames())) {
				return fmt.Errorf("channel %d has too much credit", c.GetChannel())
			}
		}
	case *exchangepb.FromConsumer_Cancel:
		c := x.Cancel
		s.mu.Lock()
		o := s.mu.channels[c.GetChannel()]
		delete(s.mu.channels, c.GetChannel())
		s.mu.Unlock()
		if o == nil {
			return nil // refused or lost before
		}
		var cause error
		if c.GetMessage() != "" {
			cause = errors.New(c.GetMessage())
		}
		o.consumerClosed(loss.Of(c.GetRefusal()), cause)
	}
	return nil
}

func (s *serverStream) channel(number uint32) *remoteOut {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.channels[number]
}

// request joins a consumer to the writer that it asks for, or says why not.
func (s *serverStream) request(ctx context.Context, r *exchangepb.PartitionRequest) error {
	if err := s.waitForRoom(ctx); err != nil {
		return err
	}
	number := r.GetChannel()
	if s.channel(number) != nil {
		return fmt.Errorf("channel %d is in use", number)
	}
	o, reason := s.n.find(r)
	if reason == none {
		s.mu.Lock()
		s.mu.channels[number] = o
		s.mu.Unlock()
		if reason = o.attach(s, r); reason != none {
			s.mu.Lock()
			delete(s.mu.channels, number)
			s.mu.Unlock()
		}
	}
	if reason != none {
		var cause error
		if reason == Protocol {
			cause = fmt.Errorf("job %s region %d protocol %d, this process speaks %d for job %s",
				r.GetJob(), r.GetRegion(), r.GetProtocol(), exchangepb.Protocol, s.n.cfg.Job)
		}
		s.refuse(number, reason, cause)
		return nil
	}
	b := make([]byte, frame.HeaderLen)
	(&frame.Header{Type: frame.Opened, Channel: number}).Put(b)
	s.answer(b)
	s.enqueue(o)
	return nil
}

// waitForRoom keeps a consumer that does not read its answers from filling the memory with them.
func (s *serverStream) waitForRoom(ctx context.Context) error {
	for {
		s.mu.Lock()
		n := len(s.mu.control)
		s.mu.Unlock()
		if n < maxControl {
			return nil
		}
		select {
		case <-s.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// refuse tells the consumer that a channel is closed or was never opened.
func (s *serverStream) refuse(number uint32, r Reason, cause error) {
	s.mu.Lock()
	delete(s.mu.channels, number)
	s.mu.Unlock()
	text := ""
	if cause != nil {
		text = cut(cause.Error(), frame.MaxText)
	}
	b := append(make([]byte, frame.HeaderLen), text...)
	h := frame.Header{Type: frame.Closed, Code: uint8(r.Refusal()), Channel: number, Payload: uint32(len(text)), Raw: uint32(len(text)), Sum: frame.Sum(b[frame.HeaderLen:])}
	h.Put(b)
	s.answer(b)
}

func (s *serverStream) answer(b []byte) {
	s.mu.Lock()
	if !s.mu.over {
		s.mu.control = append(s.mu.control, mem.BufferSlice{mem.SliceBuffer(b)})
	}
	s.mu.Unlock()
	s.wake.ring()
}

// enqueue gives a channel its turn.
func (s *serverStream) enqueue(o *remoteOut) {
	s.mu.Lock()
	if !s.mu.isReady[o] && !s.mu.over {
		s.mu.isReady[o] = true
		s.mu.ready = append(s.mu.ready, o)
	}
	s.mu.Unlock()
	s.wake.ring()
}

// send writes answers and frames until the stream ends.
func (s *serverStream) send(ctx context.Context, st grpc.ServerStream, stop <-chan struct{}) {
	var m outbound
	for {
		for s.next(&m) {
			if err := st.SendMsg(&m); err != nil {
				return // the receiving half sees the end of the stream as well, and reports it
			}
		}
		select {
		case <-s.wake:
		case <-stop:
			return
		case <-ctx.Done():
			return
		}
	}
}

// next is the next message to send.
func (s *serverStream) next(m *outbound) bool {
	for {
		s.mu.Lock()
		if len(s.mu.control) > 0 {
			m.data = s.mu.control[0]
			s.mu.control = append(s.mu.control[:0], s.mu.control[1:]...)
			s.mu.Unlock()
			s.room.ring()
			return true
		}
		if len(s.mu.ready) == 0 {
			s.mu.Unlock()
			return false
		}
		o := s.mu.ready[0]
		s.mu.ready = append(s.mu.ready[:0], s.mu.ready[1:]...)
		delete(s.mu.isReady, o)
		s.mu.Unlock()
		data, more := o.next()
		if more {
			s.enqueue(o)
		}
		if data != nil {
			m.data = data
			return true
		}
	}
}

// end fails the channels that the stream still carried. Those whose consumer has confirmed the end were removed.
func (s *serverStream) end(err error) {
	s.mu.Lock()
	s.mu.over = true
	channels := s.mu.channels
	s.mu.channels, s.mu.ready, s.mu.control = nil, nil, nil
	s.mu.Unlock()
	if errors.Is(err, io.EOF) {
		err = errors.New("the consumer's process closed the stream")
	}
	for _, o := range channels {
		o.lose(Broken, err)
	}
}

// cut shortens s to at most n bytes, between runes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}
