package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Bounds of the HTTP port.
const (
	httpReadTimeout  = 5 * time.Second
	httpWriteTimeout = 30 * time.Second
	httpHeaderBytes  = 16 << 10
)

// serveHTTP answers /metrics, /healthz and /readyz until ctx is done.
func (a *agent) serveHTTP(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: a.handler(), ReadTimeout: httpReadTimeout, WriteTimeout: httpWriteTimeout, MaxHeaderBytes: httpHeaderBytes,
		ErrorLog: a.log.Named("http").StandardLogger(nil),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (a *agent) handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{agent: a}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "ok\nworker %s\n", a.id.ID)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		open, since, _ := a.connection.registered()
		if !open {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, "not registered: no leader for %s\n", time.Since(since).Round(time.Millisecond))
			return
		}
		fmt.Fprintf(w, "registered for %s\n", time.Since(since).Round(time.Millisecond))
	})
	return mux
}
