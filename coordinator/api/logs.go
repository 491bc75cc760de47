package api

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/controlpb"
)

// Logs gathers the captured output of a job from every live worker: any of them may have run an earlier attempt. Lines of
// one worker stay in order; those of different workers arrive as they come.
func (s *jobsServer) Logs(req *apipb.LogsRequest, stream grpc.ServerStreamingServer[apipb.LogLine]) error {
	if err := req.Validate(); err != nil {
		return invalid(err)
	}
	facts, err := s.facts.Read(stream.Context())
	if err != nil {
		return err
	}
	if facts.Job(req.Job) == nil {
		return unknownJob(req.Job)
	}
	// One sender: a gRPC stream takes one message at a time.
	lines := make(chan *apipb.LogLine)
	readers := run.NewGroup(stream.Context(), "logs")
	workers := 0
	for w := range facts.Workers() {
		if w.Health != commandpb.WorkerHealth_WORKER_ALIVE {
			continue
		}
		workers++
		readers.Go(w.Id, func(ctx context.Context) error { return s.workerLogs(ctx, w, req, lines) })
	}
	if workers == 0 {
		return &Refusal{Status: codes.Unavailable, Code: CodeNoWorker, Retryable: true,
			Cause: errors.New("no live worker to ask for logs"), Hints: []string{"sluice workers shows which are known"}}
	}
	sender := run.NewGroup(context.WithoutCancel(stream.Context()), "send logs")
	sender.Go("send", func(context.Context) error {
		defer readers.Stop()
		for line := range lines {
			if err := stream.Send(line); err != nil {
				readers.Stop()
				for range lines {
					continue // let the readers see that they are stopped
				}
				return err
			}
		}
		return nil
	})
	err = readers.Wait()
	close(lines)
	return errors.Join(err, sender.Wait())
}

// workerLogs relays one worker's output. A worker that cannot be reached, or does not know the job, must not hide what the
// others say: the former is told in a line of its own.
func (s *jobsServer) workerLogs(ctx context.Context, w *commandpb.Worker, req *apipb.LogsRequest, lines chan<- *apipb.LogLine) error {
	send := func(line *apipb.LogLine) error {
		select {
		case lines <- line:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	err := func() error {
		conn, err := s.dialer.Conn(w.Address)
		if err != nil {
			return err
		}
		from, err := controlpb.NewAgentClient(conn).Logs(ctx, &controlpb.LogsRequest{
			Job: req.Job, Follow: req.Follow, TailBytes: req.TailBytes,
		})
		if err != nil {
			return err
		}
		for {
			chunk, err := from.Recv()
			if err != nil {
				return err
			}
			if err := send(&apipb.LogLine{Worker: w.Id, Process: chunk.Process, Data: chunk.Data}); err != nil {
				return err
			}
		}
	}()
	if errors.Is(err, io.EOF) || ctx.Err() != nil || apipb.CodeOf(err) == codes.NotFound {
		return nil
	}
	return send(&apipb.LogLine{Worker: w.Id, Data: fmt.Appendf(nil, "sluice: no logs from worker %s: %s\n", w.Id, apipb.MessageOf(err))})
}
