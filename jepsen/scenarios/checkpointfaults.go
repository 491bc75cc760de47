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
	"github.com/sluiceio/sluice/jepsen/traffic"
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
	leader, err := l.C.AwaitLeader(ctx, nil)
	if err != nil {
		return nil, err
	}
	got, err := apipb.NewClusterClient(l.C.Conn(leader)).Workers(ctx, &apipb.WorkersRequest{})
	if err != nil {
		return nil, err
	}
	for _, w := range got.Workers {
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

const pointTrigger = "process.trigger"

// killInAlignment: the barriers of one process wait, those of the other one have come; then one of the two dies. At last such a checkpoint
// completes, no other one can follow, and a process dies.
func killInAlignment(ctx context.Context, l *Lab) error {
	for rounds := 3; rounds > 0; rounds-- {
		waiting, holders, err := l.misalign(ctx)
		if err != nil {
			return err
		}
		victim := holders[l.rnd.IntN(len(holders))]
		if rounds > 1 {
			err = l.Hand.Crash(ctx, victim)
		} else if err = l.completeMisaligned(ctx, waiting); err == nil {
			_, err = l.Hand.KillTasks(victim)
		}
		err = errors.Join(err, l.releaseAll(pointTrigger), cluster.Rest(ctx, l.around(time.Second)), l.Hand.HealAll(ctx))
		if err == nil && rounds > 1 {
			err = l.rearmAll(pointTrigger)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// misalign waits until the barriers of the ledger are kept back in one of its processes and not in the other one. Workers with one slot
// have one each.
func (l *Lab) misalign(ctx context.Context) (waiting, holders []*cluster.Node, err error) {
	if holders, err = l.holders(ctx); err != nil || len(holders) < 2 {
		return nil, nil, errors.Join(err, fmt.Errorf("the ledger lies on %d workers", len(holders)))
	}
	waits := func(n *cluster.Node) bool { return l.reached(n, pointTrigger) }
	err = await(ctx, "no process waits with its barrier", func() (bool, error) { return slices.ContainsFunc(holders, waits), nil })
	if err != nil {
		return nil, nil, err
	}
	if err := cluster.Rest(ctx, 300*time.Millisecond); err != nil { // as long as a trigger takes to the other one
		return nil, nil, err
	}
	for _, n := range holders {
		if waits(n) {
			waiting = append(waiting, n)
		}
	}
	if len(waiting) == len(holders) {
		err = errors.Join(l.letOne(ctx, waiting[0]), cluster.Rest(ctx, 300*time.Millisecond))
		waiting = waiting[1:]
	}
	return waiting, holders, err
}

// letOne lets the process of a worker go on, up to its next trigger.
func (l *Lab) letOne(ctx context.Context, n *cluster.Node) error {
	return errors.Join(l.release(n, pointTrigger), cluster.Rest(ctx, 60*time.Millisecond), l.rearm(n, pointTrigger))
}

// completeMisaligned lets those that wait go on, and returns when a checkpoint has completed. The next one waits again.
func (l *Lab) completeMisaligned(ctx context.Context, waiting []*cluster.Node) error {
	newest := func() (uint64, error) {
		c, err := l.checkpoints(ctx, l.Job)
		if err != nil || len(c.Kept) == 0 {
			return 0, err
		}
		return c.Kept[len(c.Kept)-1].Id, nil
	}
	before, err := newest()
	for _, n := range waiting {
		err = errors.Join(err, l.letOne(ctx, n))
	}
	if err != nil {
		return err
	}
	return await(ctx, "the checkpoint does not complete", func() (bool, error) {
		is, err := newest()
		return is > before, err
	})
}

func (l *Lab) releaseAll(point string) (err error) {
	for _, n := range l.C.Role(cluster.Worker) {
		err = errors.Join(err, l.release(n, point))
	}
	return err
}

func (l *Lab) rearmAll(point string) (err error) {
	for _, n := range l.C.Role(cluster.Worker) {
		err = errors.Join(err, l.rearm(n, point))
	}
	return err
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

// damagedChunk spoils one copy of something that the newest checkpoint consists of, and has the job go back to it. In the end every copy
// of a savepoint of another job: that must be refused.
func damagedChunk(ctx context.Context, l *Lab) error {
	auditor := &traffic.Auditor{Client: l.client("damager", 60), Job: l.Job}
	for _, how := range []string{"flip", "truncate", "delete"} {
		c, err := l.checkpoints(ctx, l.Job)
		if err != nil {
			return err
		}
		seen := uint64(0)
		for _, k := range c.Kept {
			seen = k.Id
		}
		err = await(ctx, "no new checkpoint", func() (bool, error) {
			c, err := l.checkpoints(ctx, l.Job)
			return err == nil && len(c.Kept) > 0 && c.Kept[len(c.Kept)-1].Id > seen, err
		})
		if err != nil {
			return err
		}
		m, o, err := auditor.Newest(ctx)
		if err != nil {
			return err
		}
		objects := append(slices.Clone(m.Objects), o)
		l.rnd.Shuffle(len(objects), func(i, k int) { objects[i], objects[k] = objects[k], objects[i] })
		for _, o := range objects[:min(len(objects), 3)] {
			if copies := auditor.Copies(o); len(copies) > 1 && !slices.ContainsFunc(copies, l.auditor.Excused) {
				path := copies[l.rnd.IntN(len(copies))]
				l.auditor.Excuse(path)
				if err := l.damage(path, how); err != nil {
					return err
				}
			}
		}
		n, err := l.holder(ctx)
		if err != nil {
			return err
		}
		if _, err := l.Hand.KillTasks(n); err != nil {
			return err
		}
		if err := cluster.Rest(ctx, time.Second); err != nil {
			return err
		}
	}
	return l.refusedSavepoint(ctx)
}

// damage one file of a worker.
func (l *Lab) damage(path, how string) error {
	below, err := filepath.Rel(filepath.Join(l.Dir, "data"), path)
	if err != nil {
		return err
	}
	node, _, _ := strings.Cut(filepath.ToSlash(below), "/")
	l.log.Hurt(how, history.Hurt{Target: node, Detail: below})
	l.log.Hurt("heal", history.Hurt{Target: node, Heals: true}) // it is a moment
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	switch how {
	case "delete":
		return os.Remove(path)
	case "truncate":
		return os.Truncate(path, l.rnd.Int64N(int64(len(raw))))
	}
	raw[l.rnd.IntN(len(raw))] ^= 1 << l.rnd.IntN(8)
	return os.WriteFile(path, raw, 0o600)
}

// refusedSavepoint: a job whose newest checkpoint has no intact copy says so, and does not begin anew.
func (l *Lab) refusedSavepoint(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*settleAtMost)
	defer cancel()
	other := l.ledger
	other.Records, other.Rate, other.Out = -1, 500, filepath.Join(l.Dir, "out", "other")
	other.Settings = map[string]string{"mode": "streaming", "checkpoint.interval": "1h"}
	job, err := l.Client.Submit(ctx, other.Spec("other"), "other")
	if err != nil {
		return err
	}
	if _, err := l.Client.AwaitRunning(ctx, job); err != nil {
		return err
	}
	if _, err := l.Client.Savepoint(ctx, job, "of-other"); err != nil {
		return err
	}
	auditor := &traffic.Auditor{Client: l.client("spoiler", 61), Job: job}
	m, _, err := auditor.Newest(ctx)
	if err != nil {
		return err
	}
	if len(m.Objects) == 0 {
		return errors.New("a savepoint consists of nothing")
	}
	for _, o := range m.Objects {
		for _, path := range auditor.Copies(o) {
			if err := l.damage(path, "flip"); err != nil {
				return err
			}
		}
	}
	for _, n := range l.C.Role(cluster.Worker) {
		if _, err := l.Hand.KillTasks(n); err != nil {
			return err
		}
	}
	st, err := l.Client.Wait(ctx, job)
	if err != nil {
		return err
	}
	said := fmt.Sprintf("%v: %s: %s", st.Status, st.Failure.GetCode(), st.Failure.GetMessage())
	l.log.Note(history.NoteRefusal, history.Refusal{
		What: "a restart from a checkpoint without an intact copy", Refused: st.Status == jobpb.JobStatus_JOB_FAILED && st.Failure.GetCode() == "E153", Said: said,
	})
	return nil
}
