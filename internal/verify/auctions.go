package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// readAuctions are the profiles of the auction workload, the largest first.
func readAuctions(root string) ([]*workload, error) {
	raw, err := os.ReadFile(filepath.Join(root, "examples", "nexmark", "data", "nx1_expected.json"))
	if err != nil {
		return nil, err
	}
	var file struct {
		Runs []struct {
			Name       string
			Seed       uint64
			UsPerEvent int64
			N          int64
			Queries    map[string]digest
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, err
	}
	var all []*workload
	for _, r := range file.Runs {
		all = append(all, &workload{
			name: r.Name, binary: "nexmark", records: float64(r.N), expected: r.Queries,
			params: func(query, out string) []string {
				return []string{"events=" + strconv.FormatInt(r.N, 10), "out=" + out, "query=" + query,
					"seed=" + strconv.FormatUint(r.Seed, 10), "usPerEvent=" + strconv.FormatInt(r.UsPerEvent, 10)}
			},
		})
	}
	slices.SortStableFunc(all, func(a, b *workload) int { return cmp.Compare(b.records, a.records) })
	return all, nil
}

// place is where a query runs.
type place int

const (
	embedded place = iota
	onCluster
)

func (p place) String() string {
	if p == onCluster {
		return "on the cluster"
	}
	return "embedded"
}

// try runs a query at a place and returns how long it took, if its answer is right.
func (s *suite) try(ctx context.Context, where place, w *workload, query string, settings map[string]string) (time.Duration, error) {
	if where == onCluster {
		return s.onCluster(ctx, w, query, settings)
	}
	return s.embedded(ctx, w, query, settings)
}

// budgets are the limits of the memory for keyed state; the first is what a process has by itself, which is more than enough.
var budgets = []string{"", "64MiB"}

// auctionClaims are all queries over all profiles.
func (s *suite) auctionClaims(where place) (cs []claim) {
	for _, w := range s.auctions {
		for _, budget := range slices.Backward(budgets) {
			limit := "without a limit for state"
			if budget != "" {
				limit = "with " + budget + " for state"
			}
			cs = append(cs, claim{
				name:    fmt.Sprintf("all %d queries over the profile %s of NX1 are exact, %v, %s, at parallelism 1, 2 and 4 in mode streaming and 2 in mode auto", len(w.expected), w.name, where, limit),
				command: auctionCommand(where, w, budget),
				check:   func(ctx context.Context) (string, error) { return s.auctionMatrix(ctx, where, w, budget) },
			})
		}
	}
	return cs
}

// auctionCommand is the command of a matrix, for the page.
func auctionCommand(where place, w *workload, budget string) string {
	command, param, set := "bin/examples/nexmark", " --", " --sluice."
	if where == onCluster {
		command, param, set = "sluice submit bin/examples/nexmark --wait", " -p ", " --set "
	}
	for _, p := range w.params("QUERY", "OUT") {
		command += param + p
	}
	command += set + "parallelism=P" + set + "mode=MODE"
	if budget != "" {
		command += set + "state.memory=" + budget
	}
	return command
}

// timedWays are the parallelisms and modes of the queries over event time.
var timedWays = []struct{ parallelism, mode string }{{"1", "streaming"}, {"2", "streaming"}, {"4", "streaming"}, {"2", "auto"}}

// auctionMatrix runs every query in every way and tells of all that fail.
func (s *suite) auctionMatrix(ctx context.Context, where place, w *workload, budget string) (string, error) {
	type timing struct {
		what string
		took time.Duration
	}
	var runs []timing
	var wrong []string
	for _, query := range slices.Sorted(maps.Keys(w.expected)) {
		for _, way := range timedWays {
			settings := map[string]string{"parallelism": way.parallelism, "mode": way.mode}
			if budget != "" {
				settings["state.memory"] = budget
			}
			what := fmt.Sprintf("%s at parallelism %s in mode %s", query, way.parallelism, way.mode)
			took, err := s.try(ctx, where, w, query, settings)
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			if err != nil {
				wrong = append(wrong, fmt.Sprintf("%s: %v", what, err))
			}
			runs = append(runs, timing{what, took})
		}
	}
	if len(wrong) > 0 {
		return fmt.Sprintf("%d of %d runs", len(runs)-len(wrong), len(runs)), errors.New(strings.Join(wrong, "; "))
	}
	byTime := func(a, b timing) int { return cmp.Compare(a.took, b.took) }
	slow, fast := slices.MaxFunc(runs, byTime), slices.MinFunc(runs, byTime)
	return fmt.Sprintf("%d runs; the slowest is %s with %.2f M events/s, the fastest %s with %.2f M events/s",
		len(runs), slow.what, w.records/1e6/slow.took.Seconds(), fast.what, w.records/1e6/fast.took.Seconds()), nil
}
