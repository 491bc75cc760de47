package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/launch"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// embed runs a built-in job and returns its record and rows.
func embed(t *testing.T, cfg Config) (*jobpb.Job, []string) {
	t.Helper()
	p, err := flow.Build("sluice", &cfg, build)
	if err != nil {
		t.Fatal(err)
	}
	program, err := p.Program()
	if err != nil {
		t.Fatal(err)
	}
	job, err := launch.Embed(context.WithoutCancel(t.Context()), program, launch.Embedding{Name: "sluice", Settings: map[string]string{"restart": "none"}})
	if err != nil {
		t.Fatal(err)
	}
	parts, err := filepath.Glob(filepath.Join(cfg.Out, "[^.]*"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, part := range parts {
		data, err := os.ReadFile(part)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, strings.Fields(string(data))...)
	}
	slices.Sort(rows)
	return job, rows
}

func TestBuiltInJobsAreExact(t *testing.T) {
	const n, keys = 10_000, 7
	counts := map[int64]int64{}
	var passed []string
	for i := range int64(n) {
		counts[i%keys]++
		passed = append(passed, fmt.Sprintf("%d|%d", i, i%keys))
	}
	slices.Sort(passed)
	var counted []string
	for k, c := range counts {
		counted = append(counted, fmt.Sprintf("%d|%d", k, c))
	}
	slices.Sort(counted)
	for name, want := range map[string][]string{"count": counted, "pass": passed} {
		t.Run(name, func(t *testing.T) {
			job, rows := embed(t, Config{Job: name, Records: n, Keys: keys, FailAt: -1, Out: t.TempDir()})
			if job.Status != jobpb.JobStatus_JOB_FINISHED || !slices.Equal(rows, want) {
				t.Errorf("%v (%v), %d rows, want %d", job.Status, job.Failure, len(rows), len(want))
			}
		})
	}
}

func TestAskedFailureFailsTheJobAndPublishesNothing(t *testing.T) {
	job, rows := embed(t, Config{Job: "pass", Records: 1000, Keys: 1, FailAt: 500, Out: t.TempDir()})
	if job.Status != jobpb.JobStatus_JOB_FAILED || !strings.Contains(job.Failure.GetMessage(), "record 500") || len(rows) > 0 {
		t.Errorf("%v: %v, %d rows", job.Status, job.Failure, len(rows))
	}
}

func TestBadParametersArePlanErrors(t *testing.T) {
	for _, cfg := range []Config{{Job: "nope", Keys: 1}, {Job: "count", Keys: 0}, {Job: "pass", Keys: -1}} {
		_, err := flow.Build("sluice", &cfg, build)
		var plan *flow.PlanError
		if !errors.As(err, &plan) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	for _, name := range Names() {
		if !Known(name) || !strings.Contains(Describe(), name) {
			t.Errorf("%s is not described", name)
		}
	}
}
