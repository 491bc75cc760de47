package scenarios

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/jepsen/history"
	"github.com/sluiceio/sluice/jepsen/traffic"
	"github.com/sluiceio/sluice/proto/apipb"
)

// peers of the newest configuration.
func (l *Lab) peers(ctx context.Context) ([]*apipb.PeerInfo, error) {
	leader, err := l.C.AwaitLeader(ctx, nil)
	if err != nil {
		return nil, err
	}
	got, err := apipb.NewClusterClient(l.C.Conn(leader)).Peers(ctx, &apipb.PeersRequest{})
	return got.GetPeers(), err
}

// workers as the leader knows them, those that are lost included.
func (l *Lab) workers(ctx context.Context) ([]*apipb.WorkerInfo, error) {
	leader, err := l.C.AwaitLeader(ctx, nil)
	if err != nil {
		return nil, err
	}
	got, err := apipb.NewClusterClient(l.C.Conn(leader)).Workers(ctx, &apipb.WorkersRequest{})
	return got.GetWorkers(), err
}

// replace a coordinator by one without data at the same address: the old identity is removed, the new one joins and is promoted when it has
// caught up.
func (l *Lab) replace(ctx context.Context, n *cluster.Node) error {
	ctx, cancel := context.WithTimeout(ctx, settleAtMost)
	defer cancel()
	if n.Alive() {
		if err := l.Hand.Kill(n); err != nil {
			return err
		}
	}
	old, err := l.idOf(ctx, n)
	if err != nil {
		return err
	}
	if err := l.removePeer(ctx, old); err != nil {
		return err
	}
	l.log.Hurt("replace", history.Hurt{Target: n.Name(), Detail: old})
	if err := errors.Join(n.Wipe(), l.Hand.Start(ctx, n)); err != nil {
		return err
	}
	for {
		peers, err := l.peers(ctx)
		for _, p := range peers {
			if p.ApiAddress == n.Advertised() && p.Id != old && p.Voter && err == nil {
				return nil
			}
		}
		if stop := cluster.Rest(ctx, 200*time.Millisecond); stop != nil {
			return fmt.Errorf("%s does not become a voter again: %w", n.Name(), errors.Join(stop, err))
		}
	}
}

func (l *Lab) idOf(ctx context.Context, n *cluster.Node) (string, error) {
	for {
		peers, err := l.peers(ctx)
		for _, p := range peers {
			if p.ApiAddress == n.Advertised() {
				return p.Id, nil
			}
		}
		if stop := cluster.Rest(ctx, 200*time.Millisecond); stop != nil {
			return "", fmt.Errorf("no peer at %s: %w", n.Advertised(), errors.Join(stop, err))
		}
	}
}

func (l *Lab) removePeer(ctx context.Context, id string) error {
	for {
		leader, err := l.C.AwaitLeader(ctx, nil)
		if err != nil {
			return err
		}
		call, cancel := context.WithTimeout(ctx, 3*time.Second)
		_, err = apipb.NewClusterClient(l.C.Conn(leader)).RemovePeer(call, &apipb.RemovePeerRequest{Id: id, Force: true})
		cancel()
		peers, list := l.peers(ctx)
		gone := list == nil
		for _, p := range peers {
			gone = gone && p.Id != id
		}
		if gone {
			return nil
		}
		// A leader that has not heard of the others yet refuses what would stop the cluster: asked again, it knows better.
		if err != nil && !traffic.Retryable(err) && status.Code(err) != codes.FailedPrecondition {
			return err
		}
		if stop := cluster.Rest(ctx, 200*time.Millisecond); stop != nil {
			return fmt.Errorf("peer %s is not removed: %w", id, errors.Join(stop, err))
		}
	}
}

func replaceAll(ctx context.Context, l *Lab) error {
	for _, n := range l.C.Role(cluster.Coordinator) {
		if _, err := l.leader(ctx); err != nil {
			return err
		}
		if err := l.replace(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func replacedThenKilled(ctx context.Context, l *Lab) error {
	return errors.Join(replaceAll(ctx, l), killWorker(ctx, l))
}
