package bounded

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/jepsen/traffic"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// watch follows a job: it keeps every revision of it that it gets to see, in order.
type watch struct {
	cl    *traffic.Client
	job   string
	group *run.Group

	mu struct {
		sync.Mutex
		seen  []*apipb.StatusResponse
		moved chan struct{} // closed and replaced with each revision
	}
}

// lookEvery is the pause between two looks at a job.
const lookEvery = 10 * time.Millisecond

func watchJob(ctx context.Context, cl *traffic.Client, job string) *watch {
	w := &watch{cl: cl, job: job, group: run.NewGroup(ctx, "watch "+job)}
	w.mu.moved = make(chan struct{})
	w.group.Go("look", func(ctx context.Context) error {
		for {
			st, err := cl.Status(ctx, job)
			if err != nil {
				return err
			}
			w.note(st)
			if terminal(st.Status) {
				return nil
			}
			if err := cluster.Rest(ctx, lookEvery); err != nil {
				return err
			}
		}
	})
	return w
}

// stop ends the watch and waits for it. It may have ended by itself, with the job.
func (w *watch) stop() error {
	w.group.Stop()
	return w.group.Wait()
}

func terminal(s jobpb.JobStatus) bool {
	return s == jobpb.JobStatus_JOB_FINISHED || s == jobpb.JobStatus_JOB_FAILED || s == jobpb.JobStatus_JOB_CANCELLED
}

func (w *watch) note(st *apipb.StatusResponse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.mu.seen); n > 0 && w.mu.seen[n-1].Revision >= st.Revision {
		return
	}
	w.mu.seen = append(w.mu.seen, st)
	close(w.mu.moved)
	w.mu.moved = make(chan struct{})
}

// last is the newest revision seen; nil: none yet.
func (w *watch) last() (st *apipb.StatusResponse, moved <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.mu.seen); n > 0 {
		st = w.mu.seen[n-1]
	}
	return st, w.mu.moved
}

// await returns the first revision from now on that is as wanted. It is an error if the job ends before.
func (w *watch) await(ctx context.Context, what string, is func(*apipb.StatusResponse) bool) (*apipb.StatusResponse, error) {
	for {
		st, moved := w.last()
		switch {
		case st != nil && is(st):
			return st, nil
		case st != nil && terminal(st.Status):
			return nil, fmt.Errorf("job %s ended as %v before %s: %v", w.job, st.Status, what, st.Failure)
		}
		select {
		case <-moved:
		case <-w.group.Context().Done():
			return nil, fmt.Errorf("waiting for %s of job %s: the watch has ended: %w", what, w.job, context.Cause(w.group.Context()))
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for %s of job %s: %w; it is %v: %s", what, w.job, ctx.Err(), st.GetStatus(), st.GetMessage())
		}
	}
}

// end waits until the job has ended, and is an error unless it finished.
func (w *watch) end(ctx context.Context) (*apipb.StatusResponse, error) {
	st, err := w.await(ctx, "the end", func(st *apipb.StatusResponse) bool { return terminal(st.Status) })
	if err == nil && st.Status != jobpb.JobStatus_JOB_FINISHED {
		err = fmt.Errorf("job %s is %v: %v", w.job, st.Status, st.Failure)
	}
	return st, err
}

// around are the newest revision before an index of the log and the oldest one at or after it, of those that were seen.
func (w *watch) around(index uint64) (before, after *apipb.StatusResponse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, st := range w.mu.seen {
		if st.Revision >= index {
			return before, st
		}
		before = st
	}
	return before, nil
}
