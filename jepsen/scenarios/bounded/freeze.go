package bounded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/jepsen/traffic"
	"github.com/sluiceio/sluice/proto/apipb"
)

// frozen are task processes that have been stopped.
type frozen []cluster.Task

// quiet is how long nothing may move before everything counts as frozen.
const quiet = 200 * time.Millisecond

// freeze stops every task process until nothing about the job moves: reports under way arrive, and what is started
// meanwhile is stopped as well. Agents and coordinators go on. The caller thaws, also after an error.
func freeze(ctx context.Context, cl *traffic.Client, w *watch) (stopped frozen, st *apipb.StatusResponse, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		n := len(stopped)
		if stopped, err = stopped.all(cl.Cluster()); err != nil {
			return stopped, nil, err
		}
		before, _ := w.last()
		if err := cluster.Rest(ctx, quiet); err != nil {
			return stopped, nil, fmt.Errorf("job %s does not come to rest: %w", w.job, err)
		}
		if st, err = cl.Status(ctx, w.job); err != nil {
			return stopped, nil, err
		}
		if before != nil && st.Revision == before.Revision && len(stopped) == n {
			return stopped, st, nil
		}
	}
}

// all stops the task processes that are not stopped yet.
func (f frozen) all(c *cluster.Cluster) (frozen, error) {
	known := map[cluster.Task]bool{}
	for _, t := range f {
		known[t] = true
	}
	for _, n := range c.Role(cluster.Worker) {
		if !n.Alive() {
			continue
		}
		tasks, err := n.Tasks()
		if err != nil {
			return f, err
		}
		for _, t := range tasks {
			if known[t] {
				continue
			}
			f = append(f, t)
			if err := t.Pause(); err != nil {
				return f, err
			}
		}
	}
	return f, nil
}

// thaw lets those that live go on.
func (f frozen) thaw() error {
	var errs []error
	for _, t := range f {
		errs = append(errs, t.Resume())
	}
	return errors.Join(errs...)
}
