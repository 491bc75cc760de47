package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// wideKeys and wideRows: every key has two or three records.
	wideKeys = 10_000_000
	wideRows = 25_000_000
	// wideState is the memory for the state of wideKeys, a tenth of what they take.
	wideState = 64 << 20
	// wideResident is how much a process with such a state may have resident, in bytes: state, buffers between subtasks, the
	// program, and what the collector leaves until its next turn.
	wideResident = 512 << 20
)

func (s *suite) stateClaims() []claim {
	return []claim{
		{
			name:    "10,000,000 keys with 64 MiB for state are counted exactly, through the public API, with less than 512 MiB of its own resident",
			command: fmt.Sprintf("bin/trial --job=wide --rows=%d --keys=%d --out=OUT --sluice.parallelism=2 --sluice.mode=streaming --sluice.state.memory=64MiB", wideRows, wideKeys),
			check:   s.wide,
		},
		s.goTest("10,000 random programs of state and timers, with eviction, freeze, rewind, restore and rescale mixed in, equal their model",
			"./worker/operator/process", "-run RandomProgramsOfStateAndTimers -long", "programs:"),
		s.goTest("10,000 random lives of each kind of table equal their model", "./worker/state", "-run Model -timeout 60m -long", "ok "),
		s.goTest("10,000,000 keys in a table of 64 MiB, with checkpoints, a rewind and a restore", "./worker/state", "-run StateLargerThanMemory -timeout 60m -long", "updates at"),
	}
}

// goTest is a claim that tests of a package hold, with the last line of their output that contains word as the figure.
func (s *suite) goTest(name, pkgs, flags, word string) claim {
	args := append([]string{"test", "-count=1", "-v"}, strings.Fields(pkgs)...)
	args = append(args, strings.Fields(flags)...)
	return claim{name: name, command: "go " + strings.Join(args, " "), check: func(ctx context.Context) (string, error) {
		out, err := output(ctx, s.root, nil, "go", args...)
		return lastLine(out, word), err
	}}
}

// wide counts more keys than memory holds.
func (s *suite) wide(ctx context.Context) (string, error) {
	out := s.out()
	start := time.Now()
	_, used, err := watched(ctx, s.dir, nil, s.bin("trial"), "--job=wide", "--rows="+strconv.Itoa(wideRows), "--keys="+strconv.Itoa(wideKeys), "--out="+out,
		"--sluice.parallelism=2", "--sluice.mode=streaming", "--sluice.state.memory="+strconv.Itoa(wideState))
	if err != nil {
		return "", err
	}
	took := time.Since(start)
	got, err := rowsOf(out)
	if err != nil {
		return "", err
	}
	figure := fmt.Sprintf("%.2f M records/s, at most %d MiB of its own resident, %d MiB with the mapped files of the overflow", wideRows/1e6/took.Seconds(), used.own>>20, used.all>>20)
	if want := widened(); !slices.Equal(got, want) {
		return figure, fmt.Errorf("rows %v, want %v", got, want)
	}
	if used.own == 0 || used.own > wideResident {
		return figure, errors.New("that is too much, or not known")
	}
	return figure, os.RemoveAll(out)
}

// widened are the rows of the job: per bucket the keys, and the sum of (key + 1) × count.
func widened() (rows []string) {
	const buckets, stride = 8, 2654435761
	counts := make([]int64, wideKeys)
	for i := range int64(wideRows) {
		counts[i%wideKeys*(stride%wideKeys)%wideKeys]++
	}
	var keys, sums [buckets]int64
	for k, n := range counts {
		keys[k%buckets]++
		sums[k%buckets] += int64(k+1) * n
	}
	for b := range buckets {
		rows = append(rows, fmt.Sprintf("%d|%d|%d", b, keys[b], sums[b]))
	}
	return rows
}
