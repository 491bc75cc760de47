package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/coordinator/api"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

const (
	// maxBuilds are the dry runs that may wait at a time.
	maxBuilds = 64
	// fetchTime is what a dry run may take beyond the build itself, twice: the worker may have to fetch the binary first.
	fetchTime = 10 * time.Second
)

// Build runs the user's build function on some attached worker, without creating a job, and waits for the answer. A worker
// that is lost in the middle is replaced by another one.
func (b *Book) Build(ctx context.Context, spec *jobpb.JobSpec) (*controlpb.BuildResult, error) {
	for _, s := range b.builders(spec.Artifact) {
		result, err := b.buildOn(ctx, s, spec)
		if errors.Is(err, errLost) {
			continue
		}
		return result, err
	}
	return nil, &api.Refusal{
		Status: codes.Unavailable, Code: api.CodeNoWorker, Retryable: true,
		Cause: errors.New("no worker is attached that could run the build"),
		Hints: []string{"sluice workers shows which are known; a plan needs one, a submit does not"},
	}
}

// builders are the sessions of workers on which the binary runs, from a random place on.
func (b *Book) builders(digest string) []*session {
	view := b.cfg.Facts()
	binary := view.Artifact(digest)
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []*session
	for id, s := range b.mu.byWorker {
		w := view.Worker(id)
		if w == nil || w.Draining || binary != nil && (w.Os != binary.Os || w.Arch != binary.Arch) {
			continue
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(x, y *session) int { return strings.Compare(x.worker, y.worker) })
	if len(all) > 1 {
		from := rand.IntN(len(all))
		all = slices.Concat(all[from:], all[:from])
	}
	return all
}

// errLost: the worker is gone without an answer.
var errLost = errors.New("the worker was lost")

func (b *Book) buildOn(ctx context.Context, s *session, spec *jobpb.JobSpec) (*controlpb.BuildResult, error) {
	id, answer := rand.Uint64(), make(chan *controlpb.BuildResult, 1)
	if err := b.expectBuild(id, answer); err != nil {
		return nil, err
	}
	defer b.forgetBuild(id)
	s.send(&controlpb.CoordinatorMessage{Term: b.cfg.Term, Message: &controlpb.CoordinatorMessage_Build{
		Build: &controlpb.RequestBuild{Build: id, Spec: spec, TimeLimitUs: b.cfg.BuildLimit.Microseconds()},
	}})
	timer := time.NewTimer(2 * (b.cfg.BuildLimit + fetchTime))
	defer timer.Stop()
	select {
	case result := <-answer:
		return result, nil
	case <-s.closed:
		return nil, errLost
	case <-b.over:
		return nil, api.ErrNotLeader
	case <-timer.C:
		b.abandonBuild(s, id)
		return nil, &api.Refusal{Status: codes.DeadlineExceeded, Code: api.CodeNoWorker, Retryable: true,
			Cause: fmt.Errorf("worker %s did not answer the build", s.worker)}
	case <-ctx.Done():
		b.abandonBuild(s, id)
		return nil, context.Cause(ctx)
	}
}

// abandonBuild ends a build whose answer nobody waits for any more.
func (b *Book) abandonBuild(s *session, id uint64) {
	s.send(&controlpb.CoordinatorMessage{Term: b.cfg.Term, Message: &controlpb.CoordinatorMessage_AbandonBuild{
		AbandonBuild: &controlpb.AbandonBuild{Build: id},
	}})
}

func (b *Book) expectBuild(id uint64, answer chan *controlpb.BuildResult) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.mu.builds) >= maxBuilds {
		return &api.Refusal{Status: codes.ResourceExhausted, Code: api.CodeNoWorker, Retryable: true,
			Cause: fmt.Errorf("%d dry runs are under way already", maxBuilds)}
	}
	b.mu.builds[id] = answer
	return nil
}

func (b *Book) forgetBuild(id uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.mu.builds, id)
}

func (b *Book) answerBuild(result *controlpb.BuildResult) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.mu.builds[result.Build] <- result:
	default: // nobody waits any more, or it was answered already
	}
}
