package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// endlessFor is how long an endless job is watched.
	endlessFor = time.Minute
	// idleResident is how much a task process of an idle job with state may have resident, in bytes.
	idleResident = 40_000_000
)

func (s *suite) lifeClaims() []claim {
	return []claim{
		{
			name:    "an endless q5 at full speed runs for a minute with growing counters, and ends when it is cancelled",
			command: "sluice submit bin/examples/nexmark -p query=q5 -p events=0 -p usPerEvent=1000 -p out=OUT --set parallelism=4; sluice cancel JOB",
			check:   s.endless,
		},
		{
			name:    "a task process of an idle job with state has less than 40 MB resident",
			command: "sluice submit bin/examples/nexmark -p query=q11 -p events=0 -p rate=10 -p out=OUT --set parallelism=2",
			check:   s.idle,
		},
		s.kills(200),
	}
}

// kills is a claim about output that is exact although task processes are killed all the time.
func (s *suite) kills(n int) claim {
	args := []string{"test", "./internal/endtoend", "-count=1", "-timeout=60m", "-v", "-run", "WhateverIsKilled", "-kills", strconv.Itoa(n)}
	return claim{
		name:    fmt.Sprintf("%d kills of task processes, the leader and a worker, over eight queries, with checkpoints every 100 ms and every second: the output is what the oracle says", n),
		command: "go " + strings.Join(args, " "),
		check: func(ctx context.Context) (string, error) {
			out, err := output(ctx, s.root, nil, "go", args...)
			return lastLine(out, "kills,"), err
		},
	}
}

// jobStatus is the part of `sluice status -o json` that claims look at.
type jobStatus struct {
	Status   string
	Subtasks []struct {
		Counters *struct {
			RecordsIn int64 `json:",string"`
		}
	}
	Failure *struct{ Code, Message string }
}

func (j jobStatus) records() (n int64) {
	for _, t := range j.Subtasks {
		if t.Counters != nil {
			n += t.Counters.RecordsIn
		}
	}
	return n
}

// begin submits a job of nexmark without end and returns its id.
func (s *suite) begin(ctx context.Context, name string, args ...string) (string, error) {
	if err := s.ensureCluster(ctx); err != nil {
		return "", err
	}
	out, err := s.sluice(ctx, append([]string{"submit", s.bin("examples", "nexmark"), "--name", name, "-o", "json", "-p", "events=0", "-p", "out=" + s.out()}, args...)...)
	if err != nil {
		return "", err
	}
	var answer struct{ Job string }
	if err := json.Unmarshal([]byte(out), &answer); err != nil || answer.Job == "" {
		return "", fmt.Errorf("answer of submit: %s: %w", out, err)
	}
	return answer.Job, nil
}

func (s *suite) status(ctx context.Context, job string) (j jobStatus, err error) {
	out, err := s.sluice(ctx, "status", job, "-o", "json")
	if err != nil {
		return j, err
	}
	if err := json.Unmarshal([]byte(out), &j); err != nil {
		return j, err
	}
	if j.Failure != nil {
		return j, fmt.Errorf("the job failed: %s %s", j.Failure.Code, j.Failure.Message)
	}
	return j, nil
}

// end cancels a job and sees that it ends.
func (s *suite) end(ctx context.Context, job string) error {
	if _, err := s.sluice(ctx, "cancel", job); err != nil {
		return err
	}
	deadline := time.Now().Add(time.Minute)
	for {
		j, err := s.status(ctx, job)
		if err != nil {
			return err
		}
		if j.Status == "JOB_CANCELLED" {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("a minute after it was cancelled it is %s", j.Status)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// endless watches the counters of a job that has no end.
func (s *suite) endless(ctx context.Context) (string, error) {
	job, err := s.begin(ctx, "endless", "-p", "query=q5", "-p", "usPerEvent=1000", "--set", "parallelism=4")
	if err != nil {
		return "", err
	}
	const looks = 6
	start, last := time.Now(), int64(0)
	var most int64
	for range looks {
		if err := pause(ctx, endlessFor/looks); err != nil {
			return "", err
		}
		j, err := s.status(ctx, job)
		if err != nil {
			return "", err
		}
		if n := j.records(); j.Status != "JOB_RUNNING" || n <= last {
			return "", fmt.Errorf("after %v it is %s with %d records, %d before", time.Since(start).Round(time.Second), j.Status, n, last)
		} else {
			last = n
		}
		resident, err := s.resident()
		if err != nil {
			return "", err
		}
		most = max(most, resident)
	}
	figure := fmt.Sprintf("%.1f M records/s into its operators, at most %d MiB resident in a task process", float64(last)/1e6/time.Since(start).Seconds(), most>>20)
	return figure, s.end(ctx, job)
}

// idle measures the task processes of a job with state that has next to nothing to do.
func (s *suite) idle(ctx context.Context) (string, error) {
	job, err := s.begin(ctx, "idle", "-p", "query=q11", "-p", "rate=10", "--set", "parallelism=2")
	if err != nil {
		return "", err
	}
	if err := pause(ctx, endlessFor/2); err != nil {
		return "", err
	}
	j, err := s.status(ctx, job)
	if err != nil {
		return "", err
	}
	resident, err := s.resident()
	if err != nil {
		return "", err
	}
	figure := fmt.Sprintf("%.1f MB resident after %v", float64(resident)/1e6, endlessFor/2)
	if err := s.end(ctx, job); err != nil {
		return figure, err
	}
	switch {
	case j.Status != "JOB_RUNNING" || j.records() == 0:
		return figure, fmt.Errorf("it was %s with %d records", j.Status, j.records())
	case resident == 0 || resident > idleResident:
		return figure, errors.New("that is not what was promised")
	}
	return figure, nil
}

// resident is the most that a task process of the cluster has resident now, in bytes; 0: there is none.
func (s *suite) resident() (most int64, err error) {
	records, err := filepath.Glob(filepath.Join(s.clusterDir(), "w*", "processes", "*", "process"))
	if err != nil {
		return 0, err
	}
	for _, name := range records {
		raw, err := os.ReadFile(name)
		if err != nil {
			continue // it has gone meanwhile
		}
		lines := strings.SplitN(string(raw), "\n", 3) // kind and version; the record; its checksum
		var record struct{ Pid int }
		if len(lines) < 3 || json.Unmarshal([]byte(lines[1]), &record) != nil {
			return 0, fmt.Errorf("%s: %q", name, raw)
		}
		if b, ok := residentOf(record.Pid, "VmRSS"); ok {
			most = max(most, b)
		}
	}
	return most, nil
}
