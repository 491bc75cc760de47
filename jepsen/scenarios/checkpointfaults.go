package scenarios

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/jepsen/history"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// atCoordinators arms a point at every coordinator, at a hit that the seed draws between two numbers.
func atCoordinators(point string, from, to int, action func(n *cluster.Node) string) func(*Lab, *cluster.Node) string {
	return func(l *Lab, n *cluster.Node) string {
		if n.Role() != cluster.Coordinator {
			return ""
		}
		return fmt.Sprintf("%s=%d:%s", point, from+l.rnd.IntN(to-from+1), action(n))
	}
}

func kills(*cluster.Node) string { return "kill" }

// killsOrStops: the last coordinator stops where the others die.
func killsOrStops(n *cluster.Node) string {
	if n.Name() == "coordinator-3" {
		return "stop"
	}
	return "kill"
}

// atWorkers arms a point in task processes, with DIR being where those of the worker say that they wait.
func atWorkers(point, selection, action string) func(*Lab, *cluster.Node) string {
	return func(l *Lab, n *cluster.Node) string {
		if n.Role() != cluster.Worker {
			return ""
		}
		return fmt.Sprintf("%s=%s:%s", point, selection, strings.ReplaceAll(action, "DIR", l.pointsOf(n)))
	}
}

// holders are the workers that have something of the ledger, when all of it is at work.
func (l *Lab) holders(ctx context.Context) (all []*cluster.Node, err error) {
	ctx, cancel := context.WithTimeout(ctx, settleAtMost)
	defer cancel()
	st, err := l.Client.AwaitRunning(ctx, l.Job)
	if err != nil {
		return nil, err
	}
	workers, err := l.workers(ctx)
	if err != nil {
		return nil, err
	}
	for _, w := range workers {
		if !slices.ContainsFunc(st.Subtasks, func(t *apipb.SubtaskStatus) bool { return t.Worker == w.Worker.Id }) {
			continue
		}
		for _, n := range l.C.Role(cluster.Worker) {
			if n.Advertised() == w.Worker.Address && n.Alive() {
				all = append(all, n)
			}
		}
	}
	return all, nil
}

// checkpoints of the ledger as they are now.
func (l *Lab) checkpoints(ctx context.Context, job string) (*apipb.CheckpointsResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, settleAtMost)
	defer cancel()
	return l.Client.Checkpoints(ctx, job)
}

// crashFor ends a worker with all that it has started, and starts it again after about a second.
func (l *Lab) crashFor(ctx context.Context, n *cluster.Node) error {
	return errors.Join(l.Hand.Crash(ctx, n), cluster.Rest(ctx, l.around(time.Second)), l.Hand.Start(ctx, n))
}

// abortedThenKilled: processes decline a checkpoint that they have frozen, the next one completes, one of them dies.
func abortedThenKilled(ctx context.Context, l *Lab) error {
	for last := uint64(0); ; {
		var failed, next uint64
		err := await(ctx, "no checkpoint has failed and been followed by another", func() (bool, error) {
			c, err := l.checkpoints(ctx, l.Job)
			if err != nil {
				return false, err
			}
			for _, h := range c.History {
				if !h.Completed && h.Id > last {
					failed, next = h.Id, 0
				} else if h.Completed && failed > 0 && h.Id > failed && next == 0 {
					next = h.Id
				}
			}
			return next > 0, nil
		})
		if err != nil {
			return err
		}
		l.log.Note("aborted", fmt.Sprintf("checkpoint %d; %d completed", failed, next))
		n, err := l.holder(ctx)
		if err != nil {
			return err
		}
		if last > 0 {
			return l.crashFor(ctx, n)
		}
		last = next
		if _, err := l.Hand.KillTasks(n); err != nil {
			return err
		}
	}
}

// savepointThenKilled: what a restart goes back to is a savepoint, because no other checkpoint has come since.
func savepointThenKilled(ctx context.Context, l *Lab) error {
	for round := range 3 {
		before, err := l.checkpoints(ctx, l.Job)
		if err != nil {
			return err
		}
		request := fmt.Sprintf("savepoint-%d", round)
		waiting, cancel := context.WithTimeout(ctx, settleAtMost)
		s, err := l.Client.Savepoint(waiting, l.Job, request)
		cancel()
		if err != nil {
			return err
		}
		l.log.Note("savepoint", s.GetSavepoint().GetId())
		n, err := l.holder(ctx)
		if err != nil {
			return err
		}
		if round%2 == 0 {
			_, err = l.Hand.KillTasks(n)
		} else {
			err = l.crashFor(ctx, n)
		}
		if err != nil {
			return err
		}
		if err := cluster.Rest(ctx, l.around(2*time.Second)); err != nil {
			return err
		}
		for _, k := range before.Kept { // those of former rounds
			if k.Kind == jobpb.CheckpointKind_CHECKPOINT_SAVEPOINT {
				if err := l.Client.DeleteSavepoint(ctx, l.Job, k.Id); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

const pointCommit = "process.commit"

// sinkDown: nothing can be committed while more checkpoints complete than are kept; in the middle of it a process dies.
func sinkDown(ctx context.Context, l *Lab) error {
	for range 2 {
		behind := func(n uint64) func() (bool, error) {
			return func() (bool, error) {
				c, err := l.checkpoints(ctx, l.Job)
				if err != nil || len(c.Kept) == 0 {
					return false, err
				}
				return c.Kept[len(c.Kept)-1].Id >= c.Confirmed+n, nil
			}
		}
		if err := await(ctx, "output is committed although it cannot be", behind(6)); err != nil {
			return err
		}
		n, err := l.holder(ctx)
		if err != nil {
			return err
		}
		l.Hand.Log.Hurt("sink down", history.Hurt{Target: n.Name()})
		_, err = l.Hand.KillTasks(n)
		err = errors.Join(err, await(ctx, "output is committed although it cannot be", behind(9)))
		err = errors.Join(err, l.releaseAll(pointCommit))
		l.Hand.Log.Hurt("heal", history.Hurt{Target: n.Name(), Heals: true})
		err = errors.Join(err, await(ctx, "output is not committed although it can be", func() (bool, error) {
			behind, err := behind(4)()
			return !behind, err
		}))
		if err := errors.Join(err, l.rearmAll(pointCommit)); err != nil {
			return err
		}
	}
	return l.releaseAll(pointCommit)
}

// pausedCommit: a process stops itself between two files of a commit, and its worker with it. When their replacement runs, both go on.
func pausedCommit(ctx context.Context, l *Lab) error {
	for range 2 {
		var n *cluster.Node
		err := await(ctx, "no process has stopped in a commit", func() (bool, error) {
			for _, w := range l.C.Role(cluster.Worker) {
				stopped, err := w.TaskStopped()
				if err != nil {
					return false, err
				}
				if stopped {
					n = w
					return true, nil
				}
			}
			return false, nil
		})
		if err != nil {
			return err
		}
		if err := errors.Join(l.Hand.Pause(n), cluster.Rest(ctx, 6*time.Second), l.Hand.Resume(n), cluster.Rest(ctx, 2*time.Second)); err != nil {
			return err
		}
	}
	return l.disarm(ctx)
}

// killedCommits: processes die between two files of a commit, again and again.
func killedCommits(ctx context.Context, l *Lab) error {
	seen := map[*cluster.Node]int{}
	for end := time.Now().Add(l.Duration); time.Now().Before(end); {
		for _, n := range l.C.Role(cluster.Worker) {
			died, err := announced(n, pointPublish)
			if err != nil {
				return err
			}
			for ; seen[n] < died; seen[n]++ {
				l.Hand.TaskNoticed(n)
			}
		}
		if err := cluster.Rest(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	if len(seen) == 0 {
		return errors.New("no process has died in a commit")
	}
	return l.disarm(ctx)
}

const pointPublish = "file.publish"

// announced counts how often task processes of a worker have said that they end or stop themselves at a point.
func announced(n *cluster.Node, point string) (times int, err error) {
	logs, err := filepath.Glob(filepath.Join(n.Dir(), "processes", "*", "log", "*"))
	for _, name := range logs {
		raw, e := os.ReadFile(name)
		if e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
		times += strings.Count(string(raw), "failpoint "+point+": process ")
	}
	return times, err
}

// powerFails ends all workers at once.
func powerFails(ctx context.Context, l *Lab) error {
	if _, err := l.holders(ctx); err != nil {
		return err
	}
	for _, n := range l.C.Role(cluster.Worker) {
		if err := l.Hand.Crash(ctx, n); err != nil {
			return err
		}
	}
	return errors.Join(cluster.Rest(ctx, l.around(2*time.Second)), l.Hand.HealAll(ctx))
}

// powerCut ends all workers at once. The second time one of them comes back without its disk.
func powerCut(ctx context.Context, l *Lab) error {
	for round := range 2 {
		if _, err := l.holders(ctx); err != nil {
			return err
		}
		if err := cluster.Rest(ctx, l.around(2*time.Second)); err != nil {
			return err
		}
		all := l.C.Role(cluster.Worker)
		for _, n := range all {
			if err := l.Hand.Crash(ctx, n); err != nil {
				return err
			}
		}
		if round == 1 {
			n := all[l.rnd.IntN(len(all))]
			l.log.Hurt("wipe", history.Hurt{Target: n.Name()})
			if err := n.Wipe(); err != nil {
				return err
			}
		}
		if err := errors.Join(cluster.Rest(ctx, l.around(2*time.Second)), l.Hand.HealAll(ctx)); err != nil {
			return err
		}
	}
	return nil
}
