package bounded

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/jepsen/history"
	"github.com/sluiceio/sluice/jepsen/model"
	"github.com/sluiceio/sluice/jepsen/traffic"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// ground is where scenarios with bounded jobs take place: three coordinators, and three workers with two slots each.
type ground struct {
	job  Stages
	dir  string
	seed uint64
	c    *cluster.Cluster
	file *os.File // of the history
	log  *history.Recorder
	cl   *traffic.Client // of the scenario's own goroutine
	rnd  *rand.Rand      // likewise
}

// newGround starts the cluster and uploads the job. The caller closes it.
func newGround(ctx context.Context, job Stages, dir string, seed uint64) (g *ground, err error) {
	g = &ground{job: job, dir: dir, seed: seed, rnd: rand.New(rand.NewPCG(seed, 0xba7c4))}
	if g.c, err = cluster.New(cluster.Options{Binary: job.Binary, Dir: dir, Coordinators: 3, Workers: 3, Slots: 2}); err != nil {
		return nil, err
	}
	if g.file, err = os.Create(filepath.Join(dir, "history.jsonl")); err != nil {
		return nil, errors.Join(err, g.c.Close())
	}
	g.log = history.New(g.file, time.Now)
	g.cl = g.client("observer", 0)
	if err = g.c.Start(ctx); err == nil {
		err = job.upload(ctx, g.c)
	}
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

// close ends every process. It is an error if the history is not complete.
func (g *ground) close() error { return errors.Join(g.c.Close(), g.log.Err(), g.file.Close()) }

// client is one more client, for another goroutine.
func (g *ground) client(name string, n uint64) *traffic.Client {
	return traffic.NewClient(g.c, g.log, name, g.seed, n)
}

// trial is one job under watch.
type trial struct {
	account
	job, out string
	from     uint64 // index of the log before it was submitted
}

// start submits a job and returns when some of it runs. The caller ends the watch.
func (g *ground) start(ctx context.Context, name string, parallelism int32) (*trial, error) {
	past, err := g.cl.Events(ctx, 0)
	if err != nil {
		return nil, err
	}
	t := &trial{out: filepath.Join(g.dir, "out", name)}
	if n := len(past); n > 0 {
		t.from = past[n-1].Index
	}
	if t.job, err = g.cl.Submit(ctx, g.job.spec(name, t.out, parallelism, nil), name); err != nil {
		return nil, err
	}
	t.watch = watchJob(ctx, g.client("watch "+name, g.rnd.Uint64()), t.job)
	_, err = t.watch.await(ctx, "its first attempts", func(st *apipb.StatusResponse) bool {
		return slices.ContainsFunc(st.Subtasks, func(t *apipb.SubtaskStatus) bool { return t.State == jobpb.SubtaskState_SUBTASK_RUNNING })
	})
	if err == nil {
		err = t.learn(ctx, g.cl)
	}
	if err != nil {
		return nil, errors.Join(err, t.watch.stop())
	}
	return t, nil
}

func (t *trial) learn(ctx context.Context, cl *traffic.Client) (err error) {
	if t.made, err = cl.Plan(ctx, t.job); err != nil {
		return err
	}
	t.plan, err = model.NewPlan(t.made)
	return err
}

// finish waits for the end and reads what there is to read about it.
func (t *trial) finish(ctx context.Context, cl *traffic.Client) (err error) {
	t.final, err = t.watch.end(ctx)
	if err = errors.Join(err, t.watch.stop()); err != nil {
		return err
	}
	t.events, err = cl.Events(ctx, t.from)
	return err
}

// workerNodes are the workers that the cluster knows to be alive, by id.
func workerNodes(ctx context.Context, cl *traffic.Client) (map[string]*cluster.Node, error) {
	leader, err := cl.Cluster().AwaitLeader(ctx, nil)
	if err != nil {
		return nil, err
	}
	got, err := apipb.NewClusterClient(cl.Cluster().Conn(leader)).Workers(ctx, &apipb.WorkersRequest{})
	if err != nil {
		return nil, err
	}
	nodes := map[string]*cluster.Node{}
	for _, w := range got.Workers {
		for _, n := range cl.Cluster().Role(cluster.Worker) {
			if n.API == w.Worker.Address && w.Worker.Health.String() == "WORKER_ALIVE" {
				nodes[w.Worker.Id] = n
			}
		}
	}
	return nodes, nil
}

// awaitEvent asks for an event behind an index until there is one.
func awaitEvent(ctx context.Context, cl *traffic.Client, after uint64, is func(*jobpb.Event) bool) (*jobpb.Event, error) {
	for {
		events, err := cl.Events(ctx, after)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(events, is); i >= 0 {
			return events[i], nil
		}
		if err := cluster.Rest(ctx, 20*time.Millisecond); err != nil {
			return nil, fmt.Errorf("an event behind %d: %w", after, err)
		}
	}
}

// swept waits until no worker holds anything that a job had stored.
func swept(ctx context.Context, c *cluster.Cluster, job string) error {
	for {
		var left []string
		for _, n := range c.Role(cluster.Worker) {
			files, err := filepath.Glob(filepath.Join(n.Dir(), "partitions", job, "*", "*"))
			if err != nil {
				return err
			}
			left = append(left, files...)
		}
		if len(left) == 0 {
			return nil
		}
		if err := cluster.Rest(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("job %s has ended and left %d files of stored results, %s: %w", job, len(left), left[0], err)
		}
	}
}
