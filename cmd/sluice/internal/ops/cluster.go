package ops

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/commandpb"
)

// Info returns what a coordinator says about the cluster; it needs no leader.
func Info(ctx context.Context, c *Client) (*apipb.InfoResponse, error) {
	var resp *apipb.InfoResponse
	err := c.Do(ctx, func(ctx context.Context, to Coordinator) (err error) {
		resp, err = to.Cluster.Info(ctx, &apipb.InfoRequest{})
		return err
	})
	return resp, err
}

// ShowInfo shows what the coordinator that answers first knows of the cluster.
func ShowInfo(ctx context.Context, s *Session) error {
	resp, err := Info(ctx, s.Client)
	if err != nil {
		return err
	}
	return s.print(resp, func(w *tabwriter.Writer) {
		row(w, "cluster", resp.Cluster)
		row(w, "answered by", resp.Node)
		row(w, "leader", resp.Leader)
		row(w, "leader address", resp.LeaderAddress)
		row(w, "term", resp.Term)
		row(w, "applied", resp.Applied)
		row(w, "version", resp.Version)
		row(w, "task protocols", fmt.Sprintf("%d to %d", resp.ProtocolMin, resp.ProtocolMax))
		row(w, "platforms", fmt.Sprint(resp.Platforms))
	})
}

// Workers lists the workers.
func Workers(ctx context.Context, s *Session, f Freshness) error {
	var resp *apipb.WorkersResponse
	err := s.Client.Do(ctx, func(ctx context.Context, to Coordinator) (err error) {
		resp, err = to.Cluster.Workers(ctx, &apipb.WorkersRequest{Stale: f == Stale})
		return err
	})
	if err != nil {
		return err
	}
	return s.print(resp, func(w *tabwriter.Writer) {
		row(w, "WORKER", "HOST", "ADDRESS", "SLOTS", "MEMORY", "PLATFORM", "HEALTH", "HEARTBEAT", "VERSION")
		for _, i := range resp.Workers {
			k := i.Worker
			row(w, k.GetId(), k.GetHost(), k.GetAddress(), fmt.Sprintf("%d/%d", i.UsedSlots, k.GetSlots()), size(k.GetMemory()),
				k.GetOs()+"/"+k.GetArch(), health(k), spanUs(i.LastHeartbeatUs), k.GetVersion())
		}
		note(w, resp.Read)
	})
}

func health(k *commandpb.Worker) string {
	text := enum(k.GetHealth())
	if k.GetDraining() {
		text += ", draining"
	}
	return text
}

// Drain says whether a worker gets new work.
type Drain int

// The two wishes.
const (
	DrainOff Drain = iota
	DrainOn
)

// SetDrain starts or lifts the drain of a worker.
func SetDrain(ctx context.Context, s *Session, worker string, d Drain) error {
	var resp *apipb.DrainWorkerResponse
	err := s.Client.Do(ctx, func(ctx context.Context, to Coordinator) (err error) {
		resp, err = to.Cluster.DrainWorker(ctx, &apipb.DrainWorkerRequest{Worker: worker, Drain: d == DrainOn})
		return err
	})
	if err != nil {
		return err
	}
	return s.print(resp, func(w *tabwriter.Writer) {
		if d == DrainOn {
			row(w, "worker "+worker+" drains: it gets no new work")
			return
		}
		row(w, "worker "+worker+" takes work again")
	})
}

// Peers lists the coordinators.
func Peers(ctx context.Context, s *Session, f Freshness) error {
	var resp *apipb.PeersResponse
	err := s.Client.Do(ctx, func(ctx context.Context, to Coordinator) (err error) {
		resp, err = to.Cluster.Peers(ctx, &apipb.PeersRequest{Stale: f == Stale})
		return err
	})
	if err != nil {
		return err
	}
	return s.print(resp, func(w *tabwriter.Writer) {
		if len(resp.Peers) == 0 {
			row(w, "the coordinator that answered is in no cluster yet; its log says what it waits for")
			return
		}
		row(w, "NODE", "API", "RAFT", "ROLE", "VOTER", "TERM", "APPLIED", "LAST CONTACT", "VERSION")
		for _, p := range resp.Peers {
			voter := "no"
			if p.Voter {
				voter = "yes"
			}
			contact := spanUs(p.LastContactUs)
			if p.Role == "leader" {
				contact = "-"
			}
			row(w, p.Id, p.ApiAddress, p.RaftAddress, p.Role, voter, resp.Read.GetTerm(), p.Applied, contact, p.Version)
		}
		_, _ = fmt.Fprintf(w, "\nFailure tolerance: %d%s\n", resp.FailureTolerance, toleranceNote(resp.FailureTolerance)) // a buffer
		note(w, resp.Read)
	})
}

func toleranceNote(n int32) string {
	if n > 0 {
		return ""
	}
	return " (one more loss stops scheduling; running jobs continue)"
}
