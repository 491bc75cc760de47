package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const devCluster = "sluice dev --coordinators 3 --workers 3 --slots 4 --data-dir DIR --detach"

func (s *suite) clusterClaims() (cs []claim) {
	cs = append(cs, claim{name: "a cluster of 3 coordinators and 3 workers starts", command: devCluster, check: s.startCluster})
	for _, q := range queries {
		cs = append(cs, claim{
			name: fmt.Sprintf("%s over 3,000,000 flights is exact, on the cluster, at parallelism 1, 2 and 4 in every mode, and under every schedule", q),
			command: fmt.Sprintf("sluice submit bin/examples/flights -p query=%s -p input=data/flights-3m -p out=OUT -p cut=2001-04-01 -p half=1500000 --parallelism P --set mode=MODE --set schedule=SCHEDULE --wait",
				q),
			check: func(ctx context.Context) (string, error) { return s.clusterMatrix(ctx, q) },
		})
	}
	for _, q := range disordered {
		cs = append(cs, s.disorderClaim(onCluster, q))
	}
	cs = append(cs, s.auctionClaims(onCluster)...)
	cs = append(cs, s.lifeClaims()...)
	return append(cs, claim{name: "the cluster stops and leaves no process", command: "sluice dev stop --data-dir DIR", check: func(ctx context.Context) (string, error) {
		return "", s.stop(ctx)
	}})
}

// clusterMatrix runs a query at every parallelism in every mode, and at one of them under the other schedules.
func (s *suite) clusterMatrix(ctx context.Context, query string) (string, error) {
	var took []time.Duration
	try := func(parallelism int, mode, schedule string) error {
		d, err := s.onCluster(ctx, s.flights, query, map[string]string{"parallelism": strconv.Itoa(parallelism), "mode": mode, "schedule": schedule})
		if err != nil {
			return fmt.Errorf("parallelism %d, mode %s, schedule %s: %w", parallelism, mode, schedule, err)
		}
		took = append(took, d)
		return nil
	}
	for _, p := range parallelisms {
		for _, mode := range modes {
			if err := try(p, mode, "region"); err != nil {
				return "", err
			}
		}
	}
	for _, schedule := range schedules[1:] {
		for _, mode := range modes[:2] {
			if err := try(2, mode, schedule); err != nil {
				return "", err
			}
		}
	}
	return s.flights.figure(query, took), nil
}

func (s *suite) startCluster(ctx context.Context) (string, error) {
	data := s.clusterDir()
	start := time.Now()
	if _, err := output(ctx, s.root, nil, s.bin("sluice"), "dev", "--coordinators", "3", "--workers", "3", "--slots", "4", "--data-dir", data, "--detach"); err != nil {
		return "", err
	}
	took := time.Since(start)
	raw, err := os.ReadFile(filepath.Join(data, "cluster.json"))
	if err != nil {
		return "", err
	}
	var file struct {
		Nodes []struct{ Role, API string }
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return "", err
	}
	var addrs []string
	for _, n := range file.Nodes {
		if n.Role == "coordinator" {
			addrs = append(addrs, n.API)
		}
	}
	s.addr = strings.Join(addrs, ",")
	return took.Round(time.Millisecond).String(), nil
}

// ensureCluster starts the cluster if the claim that it starts has held before.
func (s *suite) ensureCluster(ctx context.Context) error {
	if s.addr != "" {
		return nil
	}
	_, err := s.startCluster(ctx)
	return err
}

// sluice types a command to the cluster.
func (s *suite) sluice(ctx context.Context, args ...string) (string, error) {
	return output(ctx, s.root, []string{"SLUICE_ADDR=" + s.addr, "SLUICE_CONTEXTS=" + filepath.Join(s.dir, "contexts.json")}, s.bin("sluice"), args...)
}

func (s *suite) clusterDir() string { return filepath.Join(s.dir, "cluster") }

// stop stops the cluster, if it runs.
func (s *suite) stop(ctx context.Context) error {
	if s.addr == "" {
		return nil
	}
	s.addr = ""
	_, err := output(ctx, s.root, nil, s.bin("sluice"), "dev", "stop", "--data-dir", s.clusterDir())
	return err
}

// onCluster submits a query and returns the time until its answer was there, if it is right.
func (s *suite) onCluster(ctx context.Context, w *workload, query string, settings map[string]string) (time.Duration, error) {
	if err := s.ensureCluster(ctx); err != nil {
		return 0, err
	}
	out := s.out()
	args := []string{"submit", s.bin("examples", w.binary), "--wait", "--timeout", "5m"}
	for _, p := range w.params(query, out) {
		args = append(args, "-p", p)
	}
	for name, v := range settings {
		args = append(args, "--set", name+"="+v)
	}
	start := time.Now()
	if _, err := s.sluice(ctx, args...); err != nil {
		return 0, err
	}
	took := time.Since(start)
	return took, s.compare(ctx, w, query, out)
}
