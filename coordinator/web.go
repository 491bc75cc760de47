package coordinator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/coordinator/telemetry"
	"github.com/sluiceio/sluice/proto/controlpb"
)

// serveHTTP answers /metrics, /healthz and /readyz until ctx ends.
func (n *node) serveHTTP(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(n.metrics.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := n.ready(); err != nil {
			http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second}
	stop := context.AfterFunc(ctx, func() {
		if err := server.Close(); err != nil {
			n.log.Debug("close http server", "error", err)
		}
	})
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve http: %w", err)
	}
	return nil
}

// readyLag is how many entries a node may be behind and still call itself ready.
const readyLag = 1024

// ready says why this node should get no calls: it knows no leader, or it has not caught up.
func (n *node) ready() error {
	leader, _ := n.Leader()
	switch {
	case leader.Here:
		return nil
	case leader.ID == "":
		return errors.New("no leader is known")
	case leader.ID == n.id.ID:
		return errors.New("this coordinator was elected and is not established yet")
	case leader.Address == "":
		return errors.New("the leader's address is not known yet")
	}
	if commit, applied := n.raft.CommitIndex(), n.raft.AppliedIndex(); applied+readyLag < commit {
		return fmt.Errorf("%d committed entries are not applied yet", commit-applied)
	}
	return nil
}

// source is the node as the metrics see it.
type source struct{ n *node }

func (s source) Raft() telemetry.Raft {
	leader, _ := s.n.Leader()
	r := telemetry.Raft{
		Term: s.n.raft.CurrentTerm(), Commit: s.n.raft.CommitIndex(), Applied: s.n.raft.AppliedIndex(), Leads: leader.Here,
	}
	if !r.Leads {
		r.Contact = s.n.lostFor()
	}
	for _, server := range s.n.servers() {
		if server.Suffrage == raft.Voter {
			r.Voters++
		} else {
			r.NonVoters++
		}
	}
	return r
}

func (s source) Facts() *state.View {
	view, _ := s.n.fsm.view()
	return view
}

func (s source) Samples() []*controlpb.ProcessSample {
	if r := s.n.reigning(); r != nil {
		return r.sessions.Samples()
	}
	return nil
}
