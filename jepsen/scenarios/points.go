package scenarios

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluiceio/sluice/internal/failpoint"
	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/proto/apipb"
)

// reachedWithin is how long a named point may take to be reached.
const reachedWithin = 40 * time.Second

// arm gives the nodes the points of the scenario, before they start.
func (l *Lab) arm() error {
	if l.Scenario.points == nil {
		return nil
	}
	for _, n := range l.C.Nodes() {
		if points := l.Scenario.points(l, n); points != "" {
			n.SetEnv(failpoint.Environment + "=" + points)
		}
		if err := os.MkdirAll(l.pointsOf(n), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// pointsOf is where points of a node that pause say that they are reached, and are told to go on.
func (l *Lab) pointsOf(n *cluster.Node) string {
	return filepath.Join(l.Dir, "data", "points", n.Name())
}

// reached reports whether a process of a node waits at a point.
func (l *Lab) reached(n *cluster.Node, point string) bool {
	_, err := os.Stat(filepath.Join(l.pointsOf(n), point+".reached"))
	_, gone := os.Stat(filepath.Join(l.pointsOf(n), point+".release"))
	return err == nil && gone != nil
}

// release lets a process go on, and all that come to the point later.
func (l *Lab) release(n *cluster.Node, point string) error {
	return os.WriteFile(filepath.Join(l.pointsOf(n), point+".release"), nil, 0o644)
}

// rearm has the next process wait at the point again.
func (l *Lab) rearm(n *cluster.Node, point string) error {
	var errs []error
	for _, end := range []string{".reached", ".release"} {
		if err := os.Remove(filepath.Join(l.pointsOf(n), point+end)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// await asks again until something has come about.
func await(ctx context.Context, what string, is func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, reachedWithin)
	defer cancel()
	for {
		ok, err := is()
		if err != nil || ok {
			return err
		}
		if stop := cluster.Rest(ctx, 20*time.Millisecond); stop != nil {
			return fmt.Errorf("%s: %w", what, stop)
		}
	}
}

// leadersAtPoint: every coordinator, once it leads, ends or stops itself at a point. Some seconds later it is started, or goes on.
func leadersAtPoint(ctx context.Context, l *Lab) error {
	due := map[*cluster.Node]time.Time{}
	turn := time.Now().Add(turnWithin)
	stopped := map[*cluster.Node]bool{}
	for armed := slices.Clone(l.C.Role(cluster.Coordinator)); len(armed)+len(due) > 0; {
		err := await(ctx, "no leader has come to the point", func() (bool, error) {
			for i, n := range armed {
				if n.Alive() && !n.Stopped() {
					continue
				}
				armed = slices.Delete(armed, i, i+1)
				n.SetEnv()
				stopped[n], due[n] = n.Alive(), time.Now().Add(l.around(2500*time.Millisecond))
				l.Hand.Noticed(n, stopped[n])
				return true, nil
			}
			for _, at := range due {
				if !time.Now().Before(at) {
					return true, nil
				}
			}
			if len(armed) > 0 && len(due) == 0 && !time.Now().Before(turn) {
				turn = time.Now().Add(turnWithin)
				l.handOver(ctx, armed[0])
			}
			return false, nil
		})
		if err != nil {
			return err
		}
		for _, n := range l.C.Role(cluster.Coordinator) {
			at, waits := due[n]
			if !waits || time.Now().Before(at) {
				continue
			}
			delete(due, n)
			if stopped[n] {
				err = l.Hand.Resume(n)
			} else {
				err = l.Hand.Start(ctx, n)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// turnWithin is how long leaders are left as they are.
const turnWithin = 4 * time.Second

// handOver makes a coordinator the leader. That it does not work changes nothing: another try follows.
func (l *Lab) handOver(ctx context.Context, to *cluster.Node) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	leader, err := l.C.Leader(ctx)
	if err != nil || leader == to {
		return
	}
	id, err := l.idOf(ctx, to)
	if err == nil {
		_, err = apipb.NewClusterClient(l.C.Conn(leader)).TransferLeader(ctx, &apipb.TransferLeaderRequest{To: id})
	}
	l.log.Note("transfer", fmt.Sprint(err))
}

// disarm starts workers again without points, one after another.
func (l *Lab) disarm(ctx context.Context) error {
	for _, n := range l.C.Role(cluster.Worker) {
		n.SetEnv()
		if n.Alive() {
			if err := l.Hand.Crash(ctx, n); err != nil {
				return err
			}
		}
		ready, cancel := context.WithTimeout(ctx, settleAtMost)
		err := errors.Join(l.Hand.Start(ctx, n), l.C.Ready(ready))
		if err == nil {
			_, err = l.Client.AwaitRunning(ready, l.Job)
		}
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}
