package flowtest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/flowtest"
)

type config struct {
	Lines []string `flag:"lines"`
}

func build(p *flow.Pipeline, cfg *config) error {
	p.Of("lines", cfg.Lines...).
		FlatMapSeq(strings.FieldsSeq).
		KeyBy(flow.Self).
		Count().
		To("counts", flowtest.Sink[flow.KV[string, int64]]("never used"))
	return nil
}

func counted(c *flowtest.Collected[flow.KV[string, int64]]) []string {
	var lines []string
	for _, kv := range c.Values() {
		lines = append(lines, fmt.Sprint(kv.Key, kv.Value))
	}
	slices.Sort(lines)
	return lines
}

func TestAJobRunsWithItsOwnSource(t *testing.T) {
	out := flowtest.Sink[flow.KV[string, int64]]("counts")
	flowtest.Run(t, &config{Lines: []string{"a b a", "b a"}}, build, out)
	if got := counted(out); !slices.Equal(got, []string{"a3", "b2"}) {
		t.Errorf("got %v", got)
	}
	for _, at := range out.Times() {
		if at != flow.MaxTime {
			t.Errorf("a final count has time %v", at)
		}
	}
}

func TestSourcesAreReplaced(t *testing.T) {
	out := flowtest.Sink[flow.KV[string, int64]]("counts")
	flowtest.Run(t, &config{Lines: []string{"x"}}, build, flowtest.Source("lines", "a", "a"), out, flowtest.Cores(3))
	if got := counted(out); !slices.Equal(got, []string{"a2"}) {
		t.Errorf("got %v", got)
	}
}

func TestPlanErrorsAreReturned(t *testing.T) {
	err := flowtest.Try(t, &config{}, build, flowtest.Source("elsewhere", 1), flowtest.Sink[flow.KV[string, int64]]("counts"))
	plan, ok := errors.AsType[*flow.PlanError](err)
	if !ok || !plan.Has("E018") || !strings.Contains(err.Error(), "at flowtest/run_test.go:") {
		t.Errorf("error is %v", err)
	}
	err = flowtest.Try(t, &config{}, build, flowtest.Setting("no.such", "1"), flowtest.Sink[flow.KV[string, int64]]("counts"))
	if plan, ok := errors.AsType[*flow.PlanError](err); !ok || !plan.Has("E034") {
		t.Errorf("error is %v", err)
	}
}

// failing fails at the record "bad", as often as left says.
func failing(left *atomic.Int64, how func() error) func(*flow.Pipeline, *config) error {
	return func(p *flow.Pipeline, cfg *config) error {
		p.Of("lines", cfg.Lines...).
			TryMap(func(s string) (string, error) {
				if s == "bad" && left.Add(-1) >= 0 {
					return "", how()
				}
				return s, nil
			}).ID("check").
			To("out", flowtest.Sink[string]("never used"))
		return nil
	}
}

var errBad = errors.New("a bad line")

func TestAFailedJobSaysOperatorRecordAndCause(t *testing.T) {
	var left atomic.Int64
	left.Store(1000)
	out := flowtest.Sink[string]("out")
	cfg := &config{Lines: []string{"good", "bad", "good"}}
	err := flowtest.Try(t, cfg, failing(&left, func() error { return errBad }), out)
	job, ok := errors.AsType[*flowtest.JobError](err)
	if !ok {
		t.Fatalf("error is %v", err)
	}
	if job.Status != "FAILED" || job.Operator != "check" || !strings.Contains(job.Message, "a bad line") || !strings.Contains(job.Position, "value 1") || job.Restarts != 0 {
		t.Errorf("%+v", job)
	}
	if len(out.Values()) != 0 {
		t.Errorf("a failed job has committed %v", out.Values())
	}
}

func TestAPanicSaysOperatorRecordAndStack(t *testing.T) {
	var left atomic.Int64
	left.Store(1000)
	err := flowtest.Try(t, &config{Lines: []string{"good", "bad"}}, failing(&left, func() error { panic("boom") }), flowtest.Sink[string]("out"))
	job, ok := errors.AsType[*flowtest.JobError](err)
	if !ok {
		t.Fatalf("error is %v", err)
	}
	if !strings.Contains(job.Message, "boom") || !strings.Contains(job.Stack, "run_test.go") || !strings.Contains(job.Position, "value 1") {
		t.Errorf("%+v", job)
	}
}

func TestAJobRestartsByItsStrategyAndCommitsOnce(t *testing.T) {
	var left atomic.Int64
	left.Store(2)
	out := flowtest.Sink[string]("out")
	cfg := &config{Lines: []string{"good", "bad", "good"}}
	flowtest.Run(t, cfg, failing(&left, func() error { return errBad }), out, flowtest.Setting("restart", "fixed(3,1ms)"))
	if got := out.Values(); !slices.Equal(got, []string{"good", "bad", "good"}) {
		t.Errorf("got %v", got)
	}
	left.Store(1000)
	err := flowtest.Try(t, cfg, failing(&left, func() error { return errBad }), flowtest.Sink[string]("out"), flowtest.Setting("restart", "fixed(3,1ms)"))
	if job, ok := errors.AsType[*flowtest.JobError](err); !ok || job.Restarts != 3 {
		t.Errorf("error is %v, want a failure after 3 restarts", err)
	}
}

func TestAFatalErrorFailsAtOnceWhateverPolicyAndStrategySay(t *testing.T) {
	var left atomic.Int64
	left.Store(1000)
	err := flowtest.Try(t, &config{Lines: []string{"bad"}}, failing(&left, func() error { return flow.Fatal(errBad) }),
		flowtest.Sink[string]("out"), flowtest.Setting("restart", "fixed(3,1ms)"))
	if job, ok := errors.AsType[*flowtest.JobError](err); !ok || job.Restarts != 0 {
		t.Errorf("error is %v", err)
	}
}

func TestMoreSubtasksThanCoresRun(t *testing.T) {
	out := flowtest.Sink[int]("out")
	flowtest.Run(t, &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
		p.Of("in", 1, 2, 3).Rebalance().Map(func(v int) int { return v }).Parallelism(7).To("out", out)
		return nil
	}, flowtest.Cores(1))
	got := out.Values()
	slices.Sort(got)
	if !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("got %v", got)
	}
}

func TestWindowsFireByTheTimesOfTheSource(t *testing.T) {
	type reading struct {
		Sensor string
		At     flow.Time
	}
	late := flow.NewTag[reading]("late")
	job := func(p *flow.Pipeline, _ *flow.NoConfig) error {
		s := p.From("readings", flow.Values[reading](), flow.EventTime(func(r reading) flow.Time { return r.At }, flow.OutOfOrder(2*time.Second))).
			KeyBy(func(r reading) string { return r.Sensor }).
			Window(flow.Tumbling(10 * time.Second)).LateTo(late).
			Count().ID("per-sensor")
		s.To("counts", flowtest.Sink[flow.Windowed[string, int64]]("unused"))
		s.SideOutput(late).To("late", flowtest.Sink[reading]("unused"))
		return nil
	}
	sec := func(s int64) flow.Time { return flow.Time(s * 1e6) }
	counts, dropped := flowtest.Sink[flow.Windowed[string, int64]]("counts"), flowtest.Sink[reading]("late")
	flowtest.Run(t, &flow.NoConfig{}, job, counts, dropped, flowtest.Cores(1), flowtest.Source("readings",
		reading{"a", sec(1)}, reading{"a", sec(9)}, reading{"b", sec(-4)}, reading{"a", sec(11)}, reading{"a", sec(10)},
	))
	var got []string
	for i, w := range counts.Values() {
		if counts.Times()[i] != w.Window.End-1 {
			t.Errorf("%v has time %v", w, counts.Times()[i])
		}
		got = append(got, fmt.Sprint(w.Key, int64(w.Window.Start)/1e6, "-", int64(w.Window.End)/1e6, "=", w.Value))
	}
	slices.Sort(got)
	want := []string{"a0-10=2", "a10-20=2", "b-10-0=1"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v and late %v, want %v", got, dropped.Values(), want)
	}
}

func TestDeterministicAcceptsASoundJob(t *testing.T) {
	flowtest.Deterministic(t, &config{Lines: []string{"a"}}, build)
}

// recorder is a testing.TB that remembers that it failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()      {}
func (r *recorder) Fatal(...any) { r.failed = true; panic("stop here") }

func TestDeterministicFindsAPlanThatChanges(t *testing.T) {
	n := 0
	err := flowtest.SameGraph(&config{}, func(p *flow.Pipeline, _ *config) error {
		n++
		p.Of("a", 1).Map(func(v int) int { return v }).ID(fmt.Sprint("map", n)).To("out", flowtest.Sink[int]("out"))
		return nil
	})
	if err == nil {
		t.Error("it was not found")
	}
}
