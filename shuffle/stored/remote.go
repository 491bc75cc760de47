package stored

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/exchangepb"
	"github.com/sluiceio/sluice/shuffle"
)

var errNoAnswer = errors.New("no answer within the connect timeout")

// patience is how long an answered call must have lasted to count as one that was waiting for the producer, and not as
// one that fails again and again.
const patience = time.Second

// readThere asks the agent of another worker, again when the connection breaks, from where the call before has come to.
func (l *lane) readThere(ctx context.Context, p Producer) error {
	x := l.in.x
	if x.cfg.Dial == nil {
		return &AskedError{p.Name, fmt.Errorf("it lies on worker %s, and this process cannot dial", p.Peer.Worker)}
	}
	a := &assembler{lane: l}
	defer a.drop()
	var since time.Time // when it began to fail
	retry := firstRetry
	for {
		before, start := a.blocks, time.Now()
		answered, err := l.call(ctx, p, a)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if final(err) {
			return err
		}
		a.drop()
		now := time.Now()
		if a.blocks > before || answered && now.Sub(start) >= patience {
			since, retry = time.Time{}, firstRetry
		}
		if since.IsZero() {
			since = now
		}
		x.log.Debug("read of a stored result broke", "worker", p.Peer.Worker, "partition", p.Name.String(), "error", err)
		if now.Sub(since) >= x.cfg.ConnectTimeout {
			return &LinkError{Name: p.Name, Where: fmt.Sprintf("worker %s (%s)", p.Peer.Worker, p.Peer.Address), Cause: err}
		}
		if !pause(ctx, retry) {
			return context.Cause(ctx)
		}
		retry = min(2*retry, lastRetry)
	}
}

// pause waits for d, or returns false when ctx is done before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// final reports whether asking again would be answered in the same way.
func final(err error) bool {
	var lost *LostError
	var asked *AskedError
	var memory *shuffle.MemoryError
	return errors.As(err, &lost) || errors.As(err, &asked) || errors.As(err, &memory)
}

// answer is what an error of the agent means.
func answer(n Name, err error) error {
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	switch cause := errors.New(s.Message()); s.Code() {
	case codes.DataLoss:
		return &LostError{Name: n, Cause: cause}
	case codes.InvalidArgument, codes.Unimplemented:
		return &AskedError{n, cause}
	}
	return err
}

// call reads on behind the blocks that a has. answered: the agent has accepted the request.
func (l *lane) call(ctx context.Context, p Producer, a *assembler) (answered bool, err error) {
	x := l.in.x
	c, err := x.conns.acquire(*p.Peer)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, x.conns.release(c)) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(x.cfg.ConnectTimeout, func() { cancel(errNoAnswer) })
	defer watchdog.Stop()
	st, err := c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, methodName)
	if err == nil {
		err = st.SendMsg(l.request(p, a))
	}
	if err == nil || errors.Is(err, io.EOF) { // EOF: the agent has refused, and the status tells why
		var header metadata.MD
		header, err = st.Header()
		answered = header != nil
	}
	watchdog.Stop()
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if err != nil {
		return false, answer(p.Name, err)
	}
	g := run.NewGroup(ctx, "read")
	g.Go("grant", func(ctx context.Context) error { return l.grant(ctx, st) })
	end, err := l.receive(ctx, st, a)
	g.Stop()
	cancel(nil) // a grant on its way
	if werr := g.Wait(); err == nil && werr != nil {
		err = werr
	}
	if err != nil {
		return answered, answer(p.Name, err)
	}
	l.finish(end)
	return true, nil
}

func (l *lane) request(p Producer, a *assembler) *exchangepb.FromReader {
	in, n := l.in, p.Name
	in.mu.Lock()
	l.granted = in.depth - l.held
	chunks := l.granted
	in.mu.Unlock()
	return &exchangepb.FromReader{Message: &exchangepb.FromReader_Request{Request: &exchangepb.ReadRequest{
		Protocol: exchangepb.Protocol, Worker: p.Peer.Worker, Job: n.Job, JobEpoch: n.JobEpoch, Region: n.Region, RegionEpoch: n.RegionEpoch,
		Edge: n.Edge, Producer: n.Producer, Attempt: n.Attempt, Consumer: in.consumer, Block: l.from + a.blocks,
		Chunks: int32(chunks), Stored: p.Stored,
	}}}
}

// grant tells the agent of room for more chunks, half of the lane's at a time.
func (l *lane) grant(ctx context.Context, st grpc.ClientStream) error {
	for {
		if n := l.room(); n > 0 {
			m := &exchangepb.FromReader{Message: &exchangepb.FromReader_More{More: &exchangepb.ReadMore{Chunks: int32(n)}}}
			if err := st.SendMsg(m); err != nil {
				return nil // the receiving half learns why
			}
		}
		select {
		case <-l.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// room takes the chunks that are to be granted.
func (l *lane) room() int {
	in := l.in
	in.mu.Lock()
	defer in.mu.Unlock()
	n := in.depth - l.held - l.granted
	if n < (in.depth+1)/2 {
		return 0
	}
	l.granted += n
	return n
}

// receive reads what the agent sends, to its end.
func (l *lane) receive(ctx context.Context, st grpc.ClientStream, a *assembler) (element.Time, error) {
	before := a.blocks
	for {
		var m inbound
		if err := st.RecvMsg(&m); errors.Is(err, io.EOF) {
			return 0, errors.New("the agent ended the call without saying that it is complete")
		} else if err != nil {
			return 0, err
		}
		var kind [1]byte
		m.data.CopyTo(kind[:])
		switch {
		case kind[0] == kindChunk && m.data.Len() > 1 && m.data.Len() <= chunkBuffer:
			b, n, err := l.accept(&m)
			if err == nil {
				err = a.add(ctx, b, n-1)
			}
			if err != nil {
				return 0, err
			}
		case kind[0] == kindEnd:
			return l.conclude(&m, a, a.blocks-before)
		default:
			n := m.data.Len()
			m.data.Free()
			return 0, fmt.Errorf("%w: a message of kind %d and %d bytes", errProtocol, kind[0], n)
		}
	}
}

var errProtocol = errors.New("the agent violates the protocol")

// accept copies a message into a buffer, for which the agent had a grant.
func (l *lane) accept(m *inbound) (b []byte, n int, err error) {
	defer m.data.Free()
	l.in.mu.Lock()
	granted := l.granted > 0
	if granted {
		l.granted--
	}
	l.in.mu.Unlock()
	if granted {
		b = l.tryBuffer()
	}
	if b == nil {
		return nil, 0, fmt.Errorf("%w: a chunk without a grant", errProtocol)
	}
	return b, m.data.CopyTo(b), nil
}

// conclude reads the last message.
func (l *lane) conclude(m *inbound, a *assembler, got int64) (element.Time, error) {
	defer m.data.Free()
	var end exchangepb.ReadEnd
	err := proto.Unmarshal(m.data.Materialize()[1:], &end)
	if err == nil {
		err = end.Validate()
	}
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errProtocol, err)
	}
	if got != end.GetBlocks() || a.large != nil {
		return 0, a.corrupt("the agent has sent %d blocks, %d have arrived", end.GetBlocks(), got)
	}
	return element.Time(end.GetTimeUs()), nil
}
