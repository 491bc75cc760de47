package coordinator

import (
	"context"
	"sync"
	"time"

	"github.com/sluiceio/sluice/internal/run"
)

// futures are the questions to Raft that have no answer yet.
//
// Raft's futures can only be waited for, not given up, and some are never answered: an entry that was committed while
// Raft shuts down is lost between its main goroutine and the state machine's, and nobody tells its future. So each is
// waited for in a goroutine of its own, whose caller may leave at a deadline; and Raft is shut down only when all have
// been answered. That takes no longer than the leader's lease: a leader without a quorum answers them with
// "leadership lost".
type futures struct {
	group *run.Group

	mu struct {
		sync.Mutex
		open int
		none chan struct{} // closed while open is 0
	}
}

func newFutures() *futures {
	f := &futures{group: run.NewGroup(context.Background(), "raft")}
	f.mu.none = make(chan struct{})
	close(f.mu.none)
	return f
}

// wait asks a question and returns its answer, or why ctx ended first. question blocks until Raft has answered.
func wait[T any](ctx context.Context, f *futures, name string, question func() T) (T, error) {
	answers := make(chan T, 1)
	f.begin()
	f.group.Go(name, func(context.Context) error {
		defer f.end()
		answers <- question()
		return nil
	})
	select {
	case answer := <-answers:
		return answer, nil
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

func (f *futures) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.open == 0 {
		f.mu.none = make(chan struct{})
	}
	f.mu.open++
}

func (f *futures) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.open--; f.mu.open == 0 {
		close(f.mu.none)
	}
}

// settled waits until every question is answered, and reports false if that takes longer than limit. Nobody may ask any
// more.
func (f *futures) settled(limit time.Duration) bool {
	f.mu.Lock()
	none := f.mu.none
	f.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-none:
		return true
	case <-timer.C:
		return false
	}
}
