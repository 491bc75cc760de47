package badinput

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/flowtest"
)

// drop is a sink that takes everything.
func drop[T any]() flow.Sink[T] {
	return flow.SinkFunc(func(context.Context, []T) error { return nil })
}

func self(v int) int { return v }

func numbers(n int) (vs []int) {
	for i := range n {
		vs = append(vs, i)
	}
	return vs
}

// try runs a job that must fail, once, and returns why it did.
func try(t *testing.T, build func(p *flow.Pipeline), opts ...flowtest.Option) *flowtest.JobError {
	t.Helper()
	opts = append([]flowtest.Option{flowtest.Setting("restart", "none")}, opts...)
	err := flowtest.Try(t, &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
		build(p)
		return nil
	}, opts...)
	job, ok := errors.AsType[*flowtest.JobError](err)
	if !ok {
		t.Fatalf("the job did not fail: %v", err)
	}
	return job
}

// run runs a job that must finish.
func run(t *testing.T, build func(p *flow.Pipeline), opts ...flowtest.Option) {
	t.Helper()
	flowtest.Run(t, &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
		build(p)
		return nil
	}, opts...)
}

// refused builds a plan that must have one fault, with its place in this package and a fix.
func refused(t *testing.T, code string, build func(p *flow.Pipeline), says ...string) {
	t.Helper()
	_, err := flow.Build("faulty", &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
		build(p)
		return nil
	})
	plan, ok := errors.AsType[*flow.PlanError](err)
	if !ok {
		t.Fatalf("it was built: %v", err)
	}
	d := plan.Diagnostics[0]
	if len(plan.Diagnostics) != 1 || d.Code != code || !strings.Contains(d.Where, "badinput/") || len(d.Hints) == 0 {
		t.Errorf("want one %s with place and fix:\n%v", code, err)
	}
	for _, text := range says {
		if !strings.Contains(d.Message, text) {
			t.Errorf("%q does not say %q", d.Message, text)
		}
	}
}
