package coordinator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// serveHTTP answers /metrics, /healthz and /readyz until ctx ends.
func (n *node) serveHTTP(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(n.metrics.registry, promhttp.HandlerOpts{}))
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
	case leader.ID == n.id.id:
		return errors.New("this coordinator was elected and is not established yet")
	case leader.Address == "":
		return errors.New("the leader's address is not known yet")
	}
	if commit, applied := n.raft.CommitIndex(), n.raft.AppliedIndex(); applied+readyLag < commit {
		return fmt.Errorf("%d committed entries are not applied yet", commit-applied)
	}
	return nil
}
