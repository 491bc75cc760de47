package scenarios

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/jepsen/cluster/link"
	"github.com/sluiceio/sluice/jepsen/history"
	"github.com/sluiceio/sluice/jepsen/scenarios/bounded"
	"github.com/sluiceio/sluice/jepsen/traffic"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// holder is a worker that has something of the ledger.
func (l *Lab) holder(ctx context.Context) (*cluster.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, settleAtMost)
	defer cancel()
	if _, err := l.Client.AwaitRunning(ctx, l.Job); err != nil {
		return nil, err
	}
	for {
		n, err := l.Client.Holder(ctx, l.Job)
		if n != nil || err != nil && !traffic.Retryable(err) {
			return n, err
		}
		if stop := cluster.Rest(ctx, 50*time.Millisecond); stop != nil {
			return nil, fmt.Errorf("no worker has anything of the ledger: %w", errors.Join(stop, err))
		}
	}
}

func killWorker(ctx context.Context, l *Lab) error {
	n, err := l.holder(ctx)
	if err != nil {
		return err
	}
	if err := l.Hand.Crash(ctx, n); err != nil {
		return err
	}
	return errors.Join(cluster.Rest(ctx, l.around(5*time.Second)), l.Hand.Start(ctx, n))
}

func killWorkers(ctx context.Context, l *Lab) error {
	return l.until(ctx, func() error {
		all := l.C.Role(cluster.Worker)
		n := all[l.rnd.IntN(len(all))]
		if err := l.Hand.Crash(ctx, n); err != nil {
			return err
		}
		return errors.Join(cluster.Rest(ctx, 1500*time.Millisecond), l.Hand.Start(ctx, n), cluster.Rest(ctx, 1500*time.Millisecond))
	})
}

func killEarly(ctx context.Context, l *Lab) error {
	return l.until(ctx, func() error {
		n, err := l.holder(ctx)
		if err != nil {
			return err
		}
		if err := cluster.Rest(ctx, l.around(time.Second)); err != nil {
			return err
		}
		if l.rnd.IntN(2) == 0 {
			_, err := l.Hand.KillTasks(n)
			return err
		}
		return errors.Join(l.Hand.Crash(ctx, n), cluster.Rest(ctx, l.around(time.Second)), l.Hand.Start(ctx, n))
	})
}

func leaderDuringRestart(ctx context.Context, l *Lab) error {
	return l.until(ctx, func() error {
		leader, err := l.leader(ctx)
		if err != nil {
			return err
		}
		n, err := l.holder(ctx)
		if err != nil {
			return err
		}
		if _, err := l.Hand.KillTasks(n); err != nil {
			return err
		}
		waiting, cancel := context.WithTimeout(ctx, 10*time.Second)
		_, err = l.Client.AwaitStatus(waiting, l.Job, jobpb.JobStatus_JOB_RESTARTING, jobpb.JobStatus_JOB_WAITING)
		cancel()
		if err != nil && waiting.Err() == nil {
			return err // else it was too quick to be seen: the leader dies all the same
		}
		if err := l.Hand.Kill(leader); err != nil {
			return err
		}
		return errors.Join(cluster.Rest(ctx, l.around(1500*time.Millisecond)), l.Hand.Start(ctx, leader), cluster.Rest(ctx, 2*time.Second))
	})
}

// stateDiskFull gives a worker a small disk and fills it: checkpoints fail or go elsewhere, and the jobs go on.
func stateDiskFull(ctx context.Context, l *Lab) (err error) {
	n, err := l.holder(ctx)
	if err != nil {
		return err
	}
	if err := l.Hand.Crash(ctx, n); err != nil {
		return err
	}
	unmount, err := cluster.SmallDisk(n.Dir(), 192<<20)
	if err != nil {
		return err
	}
	defer func() {
		if n.Alive() {
			err = errors.Join(err, l.Hand.Crash(context.WithoutCancel(ctx), n))
		}
		err = errors.Join(err, unmount(), l.Hand.Start(context.WithoutCancel(ctx), n))
	}()
	if err := l.Hand.Start(ctx, n); err != nil {
		return err
	}
	if _, err := l.leader(ctx); err != nil {
		return err
	}
	for _, other := range l.C.Role(cluster.Worker) { // what it has comes to the small disk
		if other != n {
			if err := l.crashFor(ctx, other); err != nil {
				return err
			}
			break
		}
	}
	if _, err := l.holders(ctx); err != nil {
		return err
	}
	return errors.Join(l.Hand.Fill(n), cluster.Rest(ctx, 6*time.Second), l.Hand.Free(), cluster.Rest(ctx, 2*time.Second))
}

// zombie: a worker stands still until its attempts are replaced, and then goes on.
func zombie(ctx context.Context, l *Lab) error {
	n, err := l.holder(ctx)
	if err != nil {
		return err
	}
	if err := l.Hand.Pause(n); err != nil {
		return err
	}
	return errors.Join(cluster.Rest(ctx, l.Duration*2/3), l.Hand.Resume(n), cluster.Rest(ctx, l.Duration/3))
}

func worker10sDown(ctx context.Context, l *Lab) error {
	n, err := l.holder(ctx)
	if err != nil {
		return err
	}
	if err := l.Hand.Link("off the network", n.Name(), link.Any, link.Rule{Cut: true}); err != nil {
		return err
	}
	return errors.Join(cluster.Rest(ctx, 10*time.Second), l.Hand.HealLinks(), cluster.Rest(ctx, 2*time.Second))
}

// cutWorker from the leader only, then from one peer only.
func cutWorker(ctx context.Context, l *Lab) error {
	leader, err := l.leader(ctx)
	if err != nil {
		return err
	}
	n, err := l.holder(ctx)
	if err != nil {
		return err
	}
	err = errors.Join(l.Hand.Cut([]*cluster.Node{n}, []*cluster.Node{leader}), cluster.Rest(ctx, l.Duration/2), l.Hand.HealLinks(), cluster.Rest(ctx, time.Second))
	if err != nil {
		return err
	}
	for _, p := range l.C.Role(cluster.Worker) {
		if p != n {
			return errors.Join(l.Hand.Cut([]*cluster.Node{n}, []*cluster.Node{p}), cluster.Rest(ctx, l.Duration/2), l.Hand.HealLinks())
		}
	}
	return errors.New("there is one worker only")
}

// tornFrame ends connections between workers in the middle of what they carry.
func tornFrame(ctx context.Context, l *Lab) error {
	return l.until(ctx, func() error {
		all := l.C.Role(cluster.Worker)
		for _, a := range all {
			for _, b := range all {
				if a == b {
					continue
				}
				if err := l.Hand.Link("torn frame", a.Name(), b.Name(), link.Rule{CutAfter: 1000 + l.rnd.Int64N(50_000)}); err != nil {
					return err
				}
			}
		}
		return errors.Join(cluster.Rest(ctx, l.around(time.Second)), l.Hand.HealLinks(), cluster.Rest(ctx, 3*time.Second))
	})
}

// controlResets: of what goes between workers and coordinators one piece in twenty ends its connection, so that what was under way is sent
// again, or was done although nobody learned of it.
func controlResets(ctx context.Context, l *Lab) error {
	for _, w := range l.C.Role(cluster.Worker) {
		for _, c := range l.C.Role(cluster.Coordinator) {
			for _, d := range [][2]string{{w.Name(), c.Name()}, {c.Name(), w.Name()}} {
				if err := l.Hand.Link("resets", d[0], d[1], link.Rule{Reset: 0.05}); err != nil {
					return err
				}
			}
		}
	}
	return errors.Join(cluster.Rest(ctx, l.Duration), l.Hand.HealLinks(), cluster.Rest(ctx, time.Second))
}

// endDuringFault keeps the leader away while the input ends.
func endDuringFault(ctx context.Context, l *Lab) error {
	for range 200 {
		left := baseline + l.Duration + afterwards
		st, err := l.Client.Status(ctx, l.Job)
		if err != nil {
			return err
		}
		left -= time.Duration(time.Now().UnixMicro()-st.StartedUs) * time.Microsecond
		if left > time.Second {
			if err := cluster.Rest(ctx, min(left-time.Second, time.Second)); err != nil {
				return err
			}
			continue
		}
		n, err := l.leader(ctx)
		if err != nil {
			return err
		}
		if err := l.Hand.Kill(n); err != nil {
			return err
		}
		return errors.Join(cluster.Rest(ctx, 3*time.Second), l.Hand.Start(ctx, n))
	}
	return errors.New("the input has not come to its end")
}

// cancelRace submits and cancels at once, through several coordinators, while leaders and task processes are killed.
func cancelRace(ctx context.Context, l *Lab) error {
	g := run.NewGroup(ctx, "cancel")
	over, stop := context.WithTimeout(g.Context(), l.Duration)
	defer stop()
	for i := range 4 {
		c := l.client(fmt.Sprintf("canceller-%d", i+1), uint64(i)+50)
		g.Go("canceller", func(context.Context) error {
			for n := 0; cluster.Rest(over, 100*time.Millisecond) == nil; n++ {
				request := fmt.Sprintf("race-%d-%d", i+1, n)
				job, err := c.SubmitOnce(over, l.small(request, 2000), request)
				if err != nil {
					continue
				}
				what := history.Ask{Job: job, Request: request}
				if cluster.Rest(over, time.Duration(n%5)*40*time.Millisecond) == nil {
					c.CancelOnce(over, what)
					c.StatusOnce(over, what)
				}
			}
			return nil
		})
	}
	g.Go("faults", func(ctx context.Context) error {
		for over.Err() == nil {
			n, err := l.leader(ctx)
			if err != nil {
				return err
			}
			if err := l.Hand.Kill(n); err != nil {
				return err
			}
			if err := errors.Join(cluster.Rest(ctx, l.around(2*time.Second)), l.Hand.Start(ctx, n), cluster.Rest(ctx, 2*time.Second)); err != nil {
				return err
			}
		}
		return nil
	})
	return g.Wait()
}

// small is a job that ends soon.
func (l *Lab) small(name string, records int) *jobpb.JobSpec {
	return &jobpb.JobSpec{Name: "small", Artifact: l.artifact, Parallelism: 1, Params: map[string]string{
		"job": "count", "records": fmt.Sprint(records), "out": filepath.Join(l.Dir, "out", "load", name),
	}}
}

// stages is the job of the scenarios with bounded jobs.
func (l *Lab) stages() (bounded.Stages, string, error) {
	artifact, err := traffic.Artifact(l.Binary)
	dir := filepath.Join(l.Dir, "data")
	return bounded.Stages{Binary: l.Binary, Artifact: artifact, Records: 400_000, Keys: 200_000, PauseUs: 10_000}, dir, errors.Join(err, os.MkdirAll(dir, 0o755))
}

func damagedResults(ctx context.Context, l *Lab) error {
	job, dir, err := l.stages()
	if err != nil {
		return err
	}
	d := &bounded.Damage{Job: job, Dir: dir, Files: 4, Parallelism: 4, Seed: l.Seed, Log: l.Log}
	rep, err := d.Run(ctx)
	return l.answer(fmt.Sprintf("%d files damaged, %d subtasks ran again", rep.Files, rep.Again), err)
}

func lostResults(ctx context.Context, l *Lab) error {
	job, dir, err := l.stages()
	if err != nil {
		return err
	}
	b := &bounded.BatchLoss{Job: job, Dir: dir, Kills: 3, Parallelism: 4, Seed: l.Seed, Log: l.Log}
	rep, err := b.Run(ctx)
	return l.answer(fmt.Sprintf("%d losses, %d subtasks ran again, %d finished ones out of reach did not", rep.Kills, rep.Again, rep.Protected), err)
}

func contest(ctx context.Context, l *Lab) error {
	job, dir, err := l.stages()
	if err != nil {
		return err
	}
	job.Records, job.Keys, job.PauseUs = 60_000, 5_000, 2_000
	c := &bounded.Contest{Job: job, Dir: dir, Rounds: 4, Seed: l.Seed, Log: l.Log}
	rep, err := c.Run(ctx)
	return l.answer(fmt.Sprintf("%d pairs, %d jobs were seen to lack slots", rep.Rounds, rep.Waited), err)
}

// answer records the verdict of an experiment that judges itself.
func (l *Lab) answer(what string, err error) error {
	a := history.Answer{Job: "stages", Got: "the oracle's rows", Want: "the oracle's rows"}
	if err != nil {
		a.Objection = err.Error()
	}
	l.log.Note("experiment", what)
	l.log.Note(history.NoteAnswer, a)
	return nil
}
