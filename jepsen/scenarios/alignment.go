package scenarios

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluiceio/sluice/jepsen/cluster"
)

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
