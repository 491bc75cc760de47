package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/worker/logfile"
)

// logChunk is the size of one message of output, in bytes.
const logChunk = 32 << 10

// agentService is what a worker answers on its control port.
type agentService struct {
	controlpb.UnimplementedAgentServer
	archive *archive
	worker  string
}

// Logs sends the kept output of a job's task processes, process by process, and follows it as long as the caller wishes.
func (s *agentService) Logs(r *controlpb.LogsRequest, stream controlpb.Agent_LogsServer) error {
	if err := r.Validate(); err != nil {
		return apipb.NewError(codes.InvalidArgument, nil, "logs: %v", err)
	}
	f := &follower{service: s, request: r, send: stream.Send, readers: map[*processOutput]*logfile.Reader{}}
	for {
		changed := s.archive.changed() // before the look, so that nothing is missed
		if err := f.pass(stream.Context()); err != nil {
			return fmt.Errorf("logs of job %s: %w", r.Job, err)
		}
		if !r.Follow {
			return nil
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

// follower is one call of Logs.
type follower struct {
	service *agentService
	request *controlpb.LogsRequest
	send    func(*controlpb.LogChunk) error
	readers map[*processOutput]*logfile.Reader
}

// pass sends everything that is there and was not sent yet.
func (f *follower) pass(ctx context.Context) error {
	for _, o := range f.service.archive.outputs(f.request.Job) {
		r := f.readers[o]
		if r == nil {
			var err error
			if r, err = o.tail(f.request.TailBytes); errors.Is(err, fs.ErrNotExist) {
				continue // pruned between the two looks
			} else if err != nil {
				return err
			}
			f.readers[o] = r
		}
		if err := f.copy(ctx, o, r); err != nil {
			return err
		}
	}
	return nil
}

// copy sends what the reader has not seen, in chunks.
func (f *follower) copy(ctx context.Context, o *processOutput, r *logfile.Reader) error {
	for ctx.Err() == nil {
		data := make([]byte, logChunk)
		n, err := r.Read(data)
		if n > 0 {
			chunk := &controlpb.LogChunk{Worker: f.service.worker, Process: o.key.number, Data: data[:n]}
			if err := f.send(chunk); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}
