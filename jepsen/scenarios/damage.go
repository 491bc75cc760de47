package scenarios

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/jepsen/history"
	"github.com/sluiceio/sluice/jepsen/traffic"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

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

// bothCopies takes the workers away one after the other, each with its disk, and each only when what lay on the one before has been
// copied again: a savepoint that was taken at first has lost every copy that it was written with.
func bothCopies(ctx context.Context, l *Lab) error {
	waiting, cancel := context.WithTimeout(ctx, settleAtMost)
	s, err := l.Client.Savepoint(waiting, l.Job, "savepoint-of-old")
	cancel()
	if err != nil {
		return err
	}
	l.log.Note("savepoint", s.GetSavepoint().GetId())
	for i, n := range l.C.Role(cluster.Worker) {
		if err := l.Hand.Crash(ctx, n); err != nil {
			return err
		}
		l.log.Hurt("wipe", history.Hurt{Target: n.Name()})
		if err := errors.Join(n.Wipe(), l.Hand.Start(ctx, n)); err != nil {
			return err
		}
		err := await(ctx, "copies are missing after "+n.Name(), func() (bool, error) { return l.whole(ctx, i+1) })
		if err != nil {
			return err
		}
	}
	return nil
}

// whole reports whether so many workers count as lost, and everything that is kept has its copies all the same.
func (l *Lab) whole(ctx context.Context, lost int) (bool, error) {
	workers, err := l.workers(ctx)
	if err != nil {
		return false, err
	}
	for _, w := range workers {
		if w.Worker.Health == commandpb.WorkerHealth_WORKER_LOST {
			lost--
		}
	}
	c, err := l.checkpoints(ctx, l.Job)
	if err != nil {
		return false, err
	}
	few := slices.ContainsFunc(c.Kept, func(k *apipb.CheckpointInfo) bool { return k.UnderReplicated+k.Missing > 0 })
	return lost == 0 && !few, nil
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
