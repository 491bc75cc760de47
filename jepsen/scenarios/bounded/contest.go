package bounded

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/jepsen/traffic"
)

// Contest submits two jobs at the same moment, each of which needs every slot of the cluster, again and again. It promises:
// both finish, their rows are right, and neither makes the other run anything again.
type Contest struct {
	Job    Stages
	Dir    string
	Rounds int
	Seed   uint64
	Log    func(format string, args ...any)

	*ground
}

// ContestReport is what happened.
type ContestReport struct {
	Rounds  int
	Waited  int           // jobs of which it was seen that they lacked slots
	Slowest time.Duration // of both jobs of a round
}

// needs are the ways in which a job needs every slot: for a region as wide as the cluster; for all of it at once; and
// stage by stage, as wide as the cluster, where each subtask is a region.
var needs = []map[string]string{
	{"mode": "streaming"},
	{"schedule": "eager"},
	{"mode": "streaming", "schedule": "lazy"},
	{"schedule": "region"},
}

const (
	allSlots     = 6 // three workers with two each
	contestLimit = time.Minute
)

// Run performs the experiment.
func (s *Contest) Run(ctx context.Context) (rep ContestReport, err error) {
	if s.ground, err = newGround(ctx, s.Job, s.Dir, s.Seed); err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for i := range s.Rounds {
		kinds := []int{i % len(needs), s.rnd.IntN(len(needs))}
		if err := s.round(ctx, i, kinds, &rep); err != nil {
			return rep, fmt.Errorf("round %d of %d, settings %v and %v: %w", i+1, s.Rounds, needs[kinds[0]], needs[kinds[1]], err)
		}
	}
	return rep, nil
}

func (s *Contest) round(ctx context.Context, i int, kinds []int, rep *ContestReport) error {
	ctx, cancel := context.WithTimeout(ctx, contestLimit)
	defer cancel()
	begun := time.Now()
	waited := make([]bool, len(kinds))
	g := run.NewGroup(ctx, "contest")
	for k, kind := range kinds {
		name := fmt.Sprintf("contest-%d-%d", i+1, k+1)
		cl := s.client(name, s.rnd.Uint64())
		g.Go(name, func(ctx context.Context) (err error) {
			waited[k], err = s.contend(ctx, cl, name, needs[kind])
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, w := range waited {
		if w {
			rep.Waited++
		}
	}
	took := time.Since(begun)
	rep.Slowest = max(rep.Slowest, took)
	rep.Rounds++
	s.Log("round %d: %v and %v, %v", i+1, needs[kinds[0]], needs[kinds[1]], took.Round(time.Millisecond))
	return nil
}

// contend runs one of the jobs.
func (s *Contest) contend(ctx context.Context, cl *traffic.Client, name string, settings map[string]string) (waited bool, err error) {
	out := filepath.Join(s.dir, "out", name)
	job, err := cl.Submit(ctx, s.job.spec(name, out, allSlots, settings), name)
	if err != nil {
		return false, err
	}
	w := watchJob(ctx, cl, job)
	st, err := w.end(ctx)
	if err = errors.Join(err, w.stop()); err != nil {
		return false, err
	}
	for _, sub := range st.Subtasks {
		if sub.Attempt != 1 {
			return false, fmt.Errorf("job %s: %s[%d] is attempt %d", job, sub.Operator, sub.Index, sub.Attempt)
		}
	}
	for _, r := range w.mu.seen { // the watch has ended
		waited = waited || strings.Contains(r.Message, "slots")
	}
	if err := s.job.check(out); err != nil {
		return waited, fmt.Errorf("job %s: %w", job, err)
	}
	return waited, nil
}
