package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/worker/artifact"
)

// fetchRounds is how often all coordinators are asked for an artifact; between two rounds is a growing pause.
const (
	fetchRounds = 4
	fetchPause  = 250 * time.Millisecond
)

// acquire returns a job binary, from the cache or from whichever coordinator has it.
func (a *agent) acquire(ctx context.Context, digest string) (*artifact.Handle, error) {
	var faults error
	for round := range fetchRounds {
		for _, addr := range a.finder.candidates() {
			handle, err := a.cache.Acquire(ctx, digest, func(ctx context.Context, digest string, w io.Writer) error {
				return a.fetch(ctx, addr, digest, w)
			})
			if err == nil {
				return handle, nil
			}
			if ctx.Err() != nil {
				return nil, err
			}
			if errors.Is(err, artifact.ErrLocal) {
				return nil, fmt.Errorf("the job binary cannot be stored on worker %s: %w", a.id.ID, err)
			}
			a.log.Warn("artifact not fetched", "artifact", digest, "from", addr, "error", err)
			faults = errors.Join(faults, fmt.Errorf("from %s: %w", addr, err))
		}
		if round == fetchRounds-1 {
			break
		}
		if !pause(ctx, fetchPause<<round) {
			return nil, context.Cause(ctx)
		}
		faults = nil // the last round tells
	}
	return nil, fmt.Errorf("no coordinator could deliver the job binary: %w", faults)
}

// fetch streams an artifact from one coordinator. A transfer that stands still is given up.
func (a *agent) fetch(ctx context.Context, addr, digest string, w io.Writer) error {
	conn, err := a.cfg.Policy.Client(addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(a.cfg.FetchTimeout, func() {
		cancel(fmt.Errorf("nothing arrived for %s", a.cfg.FetchTimeout))
	})
	defer watchdog.Stop()
	stream, err := apipb.NewArtifactsClient(conn).Fetch(ctx, &apipb.FetchRequest{Digest: digest})
	for err == nil {
		var chunk *apipb.Chunk
		if chunk, err = stream.Recv(); err == nil {
			watchdog.Reset(a.cfg.FetchTimeout)
			_, err = w.Write(chunk.Data)
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
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
