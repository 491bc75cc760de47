package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/coordinator/api"
	"github.com/sluiceio/sluice/internal/failpoint"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/controlpb"
)

// Stream is what gRPC gives for one call of Attach.
type Stream = grpc.BidiStreamingServer[controlpb.WorkerMessage, controlpb.CoordinatorMessage]

// Incoming is a stream whose worker has said who it is.
type Incoming struct {
	Register *controlpb.Register

	stream Stream
	group  *run.Group
	inbox  chan *controlpb.WorkerMessage // closed at the end of the stream
}

// registerWait is how long an opened stream may keep silent.
const registerWait = 10 * time.Second

// Receive starts to read a stream and waits for the registration. The goroutines that move messages belong to g and end
// with the stream, at the latest when the handler has returned: gRPC lets nobody interrupt them earlier.
func Receive(g *run.Group, stream Stream) (*Incoming, error) {
	in := &Incoming{stream: stream, group: g, inbox: make(chan *controlpb.WorkerMessage)}
	g.Go("session input", in.read)
	timer := time.NewTimer(registerWait)
	defer timer.Stop()
	select {
	case m, ok := <-in.inbox:
		if !ok {
			return nil, apipb.NewError(codes.Canceled, nil, "the stream ended before it began")
		}
		if m.GetRegister() == nil {
			return nil, bad(errors.New("the first message is not a registration"))
		}
		if err := m.Validate(); err != nil {
			return nil, bad(err)
		}
		in.Register = m.GetRegister()
		return in, nil
	case <-timer.C:
		return nil, bad(fmt.Errorf("no registration within %s", registerWait))
	case <-stream.Context().Done():
		return nil, context.Cause(stream.Context())
	}
}

func bad(err error) error {
	return &api.Refusal{Status: codes.InvalidArgument, Code: api.CodeSession, Cause: fmt.Errorf("session refused: %w", err)}
}

func (in *Incoming) read(group context.Context) error {
	defer close(in.inbox)
	ctx := in.stream.Context()
	for {
		m, err := in.stream.Recv()
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return nil // the handler sees the inbox closed, which is all that there is to know
		}
		select {
		case in.inbox <- m:
		case <-ctx.Done():
			return nil
		case <-group.Done():
			return nil
		}
	}
}

// write moves the outbox to the stream until the session is closed.
func (in *Incoming) write(s *session) error {
	for {
		select {
		case m := <-s.outbox:
			err := in.tried(m)
			if err == nil {
				err = in.stream.Send(m)
			}
			if err != nil {
				s.close(fmt.Errorf("send: %w", err))
				return nil
			}
		case <-s.closed:
			return nil
		}
	}
}

// tried is where a test ends or stops a coordinator in the middle of a checkpoint: behind some triggers, or with a notice that is not
// sent.
func (in *Incoming) tried(m *controlpb.CoordinatorMessage) error {
	switch {
	case m.GetTrigger() != nil:
		return failpoint.Hit(in.stream.Context(), "session.trigger")
	case m.GetCheckpointNotice() != nil && !m.GetCheckpointNotice().Aborted:
		return failpoint.Hit(in.stream.Context(), "session.completed")
	}
	return nil
}
