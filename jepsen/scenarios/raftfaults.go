package scenarios

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/jepsen/cluster/link"
	"github.com/sluiceio/sluice/jepsen/history"
	"github.com/sluiceio/sluice/proto/apipb"
)

func sortByNumber(list []Scenario) {
	slices.SortStableFunc(list, func(a, b Scenario) int {
		rank := func(s Scenario) int {
			if s.Number == 0 {
				return 1000
			}
			return s.Number
		}
		return rank(a) - rank(b)
	})
}

func nothing(ctx context.Context, l *Lab) error { return cluster.Rest(ctx, l.Duration) }

// until does something again and again while the faults last.
func (l *Lab) until(ctx context.Context, f func() error) error {
	for end := time.Now().Add(l.Duration); time.Now().Before(end); {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// leader of this moment, once there is one and everything is ready.
func (l *Lab) leader(ctx context.Context) (*cluster.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, settleAtMost)
	defer cancel()
	if err := l.C.Ready(ctx); err != nil {
		return nil, err
	}
	return l.C.AwaitLeader(ctx, nil)
}

// around is a time between half of d and one and a half of it.
func (l *Lab) around(d time.Duration) time.Duration {
	return d/2 + time.Duration(l.rnd.Int64N(int64(d)))
}

func (l *Lab) others(n *cluster.Node) (all []*cluster.Node) {
	for _, m := range l.C.Role(cluster.Coordinator) {
		if m != n {
			all = append(all, m)
		}
	}
	return all
}

func killLeaders(ctx context.Context, l *Lab) error {
	return l.until(ctx, func() error {
		n, err := l.leader(ctx)
		if err != nil {
			return err
		}
		if err := l.Hand.Kill(n); err != nil {
			return err
		}
		return errors.Join(cluster.Rest(ctx, l.around(1500*time.Millisecond)), l.Hand.Start(ctx, n))
	})
}

func allCoordinators(ctx context.Context, l *Lab) error {
	for _, n := range l.C.Role(cluster.Coordinator) {
		if err := l.Hand.Kill(n); err != nil {
			return err
		}
	}
	if err := cluster.Rest(ctx, l.around(2*time.Second)); err != nil {
		return err
	}
	return l.Hand.HealAll(ctx)
}

func pauseLeader(ctx context.Context, l *Lab) error {
	return l.until(ctx, func() error {
		n, err := l.leader(ctx)
		if err != nil {
			return err
		}
		if err := l.Hand.Pause(n); err != nil {
			return err
		}
		return errors.Join(cluster.Rest(ctx, l.around(2500*time.Millisecond)), l.Hand.Resume(n), cluster.Rest(ctx, time.Second))
	})
}

// flap pauses the leader for about as long as its followers wait for it.
func flap(ctx context.Context, l *Lab) error {
	return l.until(ctx, func() error {
		n, err := l.C.AwaitLeader(ctx, nil)
		if err != nil {
			return err
		}
		if err := l.Hand.Pause(n); err != nil {
			return err
		}
		return errors.Join(cluster.Rest(ctx, l.around(500*time.Millisecond)), l.Hand.Resume(n), cluster.Rest(ctx, l.around(500*time.Millisecond)))
	})
}

func transferStorm(ctx context.Context, l *Lab) error {
	return l.until(ctx, func() error {
		n, err := l.leader(ctx)
		if err != nil {
			return err
		}
		call, cancel := context.WithTimeout(ctx, 3*time.Second)
		_, err = apipb.NewClusterClient(l.C.Conn(n)).TransferLeader(call, &apipb.TransferLeaderRequest{})
		cancel()
		l.log.Note("transfer", fmt.Sprint(err)) // one that fails is no fault of the cluster's: another may lead meanwhile
		if l.rnd.IntN(2) > 0 {
			return cluster.Rest(ctx, l.around(300*time.Millisecond))
		}
		peers := l.others(n)
		if err := l.Hand.Cut([]*cluster.Node{n}, peers[:1+l.rnd.IntN(len(peers))]); err != nil {
			return err
		}
		return errors.Join(cluster.Rest(ctx, l.around(time.Second)), l.Hand.HealLinks())
	})
}

func cutLeader(ctx context.Context, l *Lab) error {
	return l.until(ctx, func() error {
		n, err := l.leader(ctx)
		if err != nil {
			return err
		}
		if err := l.Hand.Cut([]*cluster.Node{n}, l.others(n)); err != nil {
			return err
		}
		return errors.Join(cluster.Rest(ctx, l.around(3*time.Second)), l.Hand.HealLinks(), cluster.Rest(ctx, time.Second))
	})
}

func cutOneWay(ctx context.Context, l *Lab) error {
	return l.until(ctx, func() error {
		n, err := l.leader(ctx)
		if err != nil {
			return err
		}
		for _, f := range l.others(n) {
			if err := l.Hand.Link("cut one way", n.Name(), f.Name(), link.Rule{Cut: true}); err != nil {
				return err
			}
		}
		return errors.Join(cluster.Rest(ctx, l.around(3*time.Second)), l.Hand.HealLinks(), cluster.Rest(ctx, time.Second))
	})
}

// ring: each coordinator of five sees its two neighbours on either side, so everyone sees a majority and no two see the same.
func ring(ctx context.Context, l *Lab) error {
	all := slices.Clone(l.C.Role(cluster.Coordinator))
	l.rnd.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	for i, n := range all {
		for k := i + 1; k < len(all); k++ {
			if apart := k - i; apart == 1 || apart == len(all)-1 {
				continue
			}
			if err := l.Hand.Cut([]*cluster.Node{n}, []*cluster.Node{all[k]}); err != nil {
				return err
			}
		}
	}
	return errors.Join(cluster.Rest(ctx, l.Duration), l.Hand.HealLinks())
}

func cutAndHeal(ctx context.Context, l *Lab) error {
	for _, n := range l.C.Role(cluster.Coordinator) {
		if err := l.Hand.Syscalls(ctx, n, "fsync,fdatasync:delay_enter=20000"); err != nil {
			return err
		}
	}
	return l.until(ctx, func() error {
		all := l.C.Role(cluster.Coordinator)
		n := all[l.rnd.IntN(len(all))]
		if err := l.Hand.Cut([]*cluster.Node{n}, l.others(n)); err != nil {
			return err
		}
		return errors.Join(cluster.Rest(ctx, 2*time.Second), l.Hand.HealLinks(), cluster.Rest(ctx, 2*time.Second))
	})
}

// syncHangs: a leader with a disk that hangs ends itself, because nobody else can know. It is started again when the disk is well.
func syncHangs(ctx context.Context, l *Lab) error {
	for range 2 {
		n, err := l.leader(ctx)
		if err != nil {
			return err
		}
		if err := l.Hand.Syscalls(ctx, n, "fsync,fdatasync:delay_enter=60s"); err != nil {
			return err
		}
		waiting, cancel := context.WithTimeout(ctx, 20*time.Second)
		_, err = l.C.AwaitLeader(waiting, n)
		cancel()
		if err := errors.Join(err, cluster.Rest(ctx, 4*time.Second), l.revive(ctx, n)); err != nil {
			return err
		}
	}
	return nil
}

// revive ends the injection and starts the node again, whatever has become of it.
func (l *Lab) revive(ctx context.Context, n *cluster.Node) error {
	err := l.Hand.HealSyscalls()
	if n.Alive() {
		err = errors.Join(err, l.Hand.Kill(n))
	}
	return errors.Join(err, l.Hand.Start(ctx, n))
}

func syncFails(ctx context.Context, l *Lab) error {
	n, err := l.leader(ctx)
	if err != nil {
		return err
	}
	if err := l.Hand.Syscalls(ctx, n, "fdatasync:error=EIO:when=1"); err != nil {
		return err
	}
	return errors.Join(cluster.Rest(ctx, l.Duration), l.revive(ctx, n))
}

// diskFull gives the leader a small disk of its own, moves it there, and fills it.
func diskFull(ctx context.Context, l *Lab) error {
	n, err := l.leader(ctx)
	if err != nil {
		return err
	}
	if err := l.Hand.Kill(n); err != nil {
		return err
	}
	unmount, err := cluster.SmallDisk(n.Dir(), 192<<20)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, n.KillIfAlive(), unmount(), l.Hand.Start(context.WithoutCancel(ctx), n))
	}()
	if err := l.Hand.Start(ctx, n); err != nil {
		return err
	}
	if _, err := l.leader(ctx); err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if old, err := l.C.Leader(ctx); err == nil && old != n { // it shall be the leader who has no room
		_, err := apipb.NewClusterClient(l.C.Conn(old)).TransferLeader(call, &apipb.TransferLeaderRequest{})
		l.log.Note("transfer", fmt.Sprint(err))
	}
	if err := l.Hand.Fill(n); err != nil {
		return err
	}
	err = errors.Join(cluster.Rest(ctx, 6*time.Second), l.Hand.Free())
	if !n.Alive() {
		err = errors.Join(err, l.Hand.Start(ctx, n))
	}
	return errors.Join(err, cluster.Rest(ctx, time.Second))
}

// tornLog cuts the tail off a follower's Raft log. It either goes on with what the others give it, or says why it does not; then it is
// replaced.
func tornLog(ctx context.Context, l *Lab) error {
	leader, err := l.leader(ctx)
	if err != nil {
		return err
	}
	victim := l.others(leader)[l.rnd.IntN(len(l.others(leader)))]
	if err := l.Hand.Kill(victim); err != nil {
		return err
	}
	logs, err := filepath.Glob(filepath.Join(victim.Dir(), "*.db"))
	if err != nil || len(logs) == 0 {
		return fmt.Errorf("%d Raft logs below %s: %v", len(logs), victim.Dir(), err)
	}
	info, err := os.Stat(logs[0])
	if err != nil {
		return err
	}
	l.log.Hurt("torn log", history.Hurt{Target: victim.Name(), Detail: logs[0]})
	if err := os.Truncate(logs[0], info.Size()/2+l.rnd.Int64N(info.Size()/2)); err != nil {
		return err
	}
	was, err := os.ReadFile(victim.LogFile())
	if err != nil {
		return err
	}
	if err := errors.Join(l.Hand.Start(ctx, victim), cluster.Rest(ctx, 5*time.Second)); err != nil {
		return err
	}
	is, err := os.ReadFile(victim.LogFile())
	if err != nil {
		return err
	}
	said := bytes.TrimSpace(is[len(was):])
	if !victim.Alive() {
		l.log.Note(history.NoteRefusal, history.Refusal{What: "a torn Raft log", Refused: len(said) > 0, Said: string(said[:min(len(said), 2000)])})
		return l.replace(ctx, victim)
	}
	l.log.Note("torn log", "the node goes on; chains tell whether rightly")
	return nil
}
