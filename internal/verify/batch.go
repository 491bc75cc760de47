package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// many is the number of records of the diamonds and self-joins.
const many = 10_000_000

// slowdown is the limit for the time with a third of the memory, to the time with all of it.
const slowdown = 2

func (s *suite) batchClaims() []claim {
	cs := []claim{
		{
			name:    "f8x forms 1,362,203,759 pairs and is exact, embedded, parallelism 2",
			command: "bin/examples/flights --query=f8x --input=data/flights-3m --half=1500000 --out=OUT --sluice.parallelism=2",
			check:   s.allPairs,
		},
		{
			name:    "f8 with a half to a twentieth of its build side's memory forms the same pairs; with a third in at most twice the time",
			command: "go run ./bench/curve -input data/flights-3m -half 1500000",
			check:   s.curve,
		},
		{
			name:    "f8 is exact with 8 MiB for all batch operators, embedded, in every mode and schedule",
			command: "bin/examples/flights --query=f8 … --sluice.batch.memory=8MiB --sluice.parallelism=2 --sluice.mode=MODE --sluice.schedule=SCHEDULE",
			check:   s.short,
		},
	}
	for _, job := range []string{"diamond", "selfjoin"} {
		for _, schedule := range schedules {
			cs = append(cs, claim{
				name:    fmt.Sprintf("a %s over 10,000,000 records finishes all pipelined, schedule %s", job, schedule),
				command: fmt.Sprintf("bin/trial --job=%s --rows=%d --out=OUT --sluice.mode=streaming --sluice.schedule=%s --sluice.parallelism=2", job, many, schedule),
				check:   func(ctx context.Context) (string, error) { return s.knot(ctx, job, schedule) },
			})
		}
	}
	return cs
}

func (s *suite) allPairs(ctx context.Context) (string, error) {
	took, err := s.embedded(ctx, s.flights, "f8x", map[string]string{"parallelism": "2"})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, %.0f M pairs/s", s.flights.expected["f8x"], 1362.203759/took.Seconds()), nil
}

// short runs f8 with so little memory that its join spills several times over.
func (s *suite) short(ctx context.Context) (string, error) {
	var took []time.Duration
	for _, mode := range modes {
		for _, schedule := range schedules {
			d, err := s.embedded(ctx, s.flights, "f8", map[string]string{"parallelism": "2", "mode": mode, "schedule": schedule, "batch.memory": "8MiB"})
			if err != nil {
				return "", fmt.Errorf("mode %s, schedule %s: %w", mode, schedule, err)
			}
			took = append(took, d)
		}
	}
	return s.flights.figure("f8", took), nil
}

// curve runs the benchmark of the join over memory and judges its rows.
func (s *suite) curve(ctx context.Context) (string, error) {
	out, err := output(ctx, s.root, nil, "go", "run", "./bench/curve", "-input", s.input, "-half", parameters["half"], "-json")
	if err != nil {
		return "", err
	}
	var c struct {
		BuildSide int64
		Rows      []struct {
			Share                 string
			Seconds, Ratio        float64
			SpilledBytes, Pairs   int64
			SpilledRecords, Depth int64
		}
	}
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		return "", err
	}
	figure := []string{fmt.Sprintf("build side %d MiB", c.BuildSide>>20)}
	third := 0.0
	for _, r := range c.Rows {
		figure = append(figure, fmt.Sprintf("%s: %.1f s (× %.2f), %d MiB spilled", r.Share, r.Seconds, r.Ratio, r.SpilledBytes>>20))
		if r.Share == "1/3" {
			third = r.Ratio
		}
	}
	text := strings.Join(figure, "; ")
	switch {
	case third == 0:
		return text, errors.New("no run with a third of the memory")
	case third > slowdown:
		return text, fmt.Errorf("with a third of the memory it takes %.2f times as long; %d at most", third, slowdown)
	}
	return text, nil
}

// knot runs a job whose branches meet again, and checks its rows against a plain loop.
func (s *suite) knot(ctx context.Context, job, schedule string) (string, error) {
	out := s.out()
	start := time.Now()
	_, err := output(ctx, s.dir, nil, s.bin("trial"), "--job="+job, "--rows="+strconv.Itoa(many), "--out="+out,
		"--sluice.mode=streaming", "--sluice.schedule="+schedule, "--sluice.parallelism=2")
	if err != nil {
		return "", err
	}
	took := time.Since(start)
	got, err := rowsOf(out)
	if err != nil {
		return "", err
	}
	if want := knotted(job); !slices.Equal(got, want) {
		return "", fmt.Errorf("rows %v, want %v", got, want)
	}
	return fmt.Sprintf("%.1f M records/s", many/1e6/took.Seconds()), os.RemoveAll(out)
}

// knotted are the rows of a job of internal/trial: bucket|pairs|sum of both numbers of each pair.
func knotted(job string) (rows []string) {
	const buckets, group = 8, 4
	var pairs, sums [buckets]int64
	for i := range int64(many) {
		first, end := i, i+1
		if job == "selfjoin" {
			first, end = i/group*group, i/group*group+group
		}
		for j := first; j < min(end, many); j++ {
			pairs[i%buckets]++
			sums[i%buckets] += i + j
		}
	}
	for b := range buckets {
		rows = append(rows, fmt.Sprintf("%d|%d|%d", b, pairs[b], sums[b]))
	}
	return rows
}

// rowsOf are the committed rows of a directory, sorted.
func rowsOf(dir string) (rows []string, err error) {
	parts, err := filepath.Glob(filepath.Join(dir, "part-*"))
	if err != nil {
		return nil, err
	}
	for _, name := range parts {
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		rows = append(rows, strings.Fields(string(raw))...)
	}
	slices.Sort(rows)
	return rows, nil
}
