package flow_test

import (
	"context"
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

func TestAsyncCallsAndBatchesLoseNothing(t *testing.T) {
	const n = 500
	everyWay(t, func(t *testing.T, opts ...flowtest.Option) {
		for _, how := range [][]flow.AsyncOption{{flow.InFlight(3)}, {flow.Unordered()}} {
			out := flowtest.Sink[string]("out")
			flowtest.Run(t, &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
				s := p.From("numbers", flow.Values(numbers(n)...), flow.EventTime(func(v int) flow.Time { return flow.Time(v) })).
					Parallelism(1).
					FlatMap(func(v int, emit func(int)) { emit(v); emit(-v - 1) }).
					AsyncMap(func(ctx context.Context, v int) (string, error) { return fmt.Sprintf("%5d", v), ctx.Err() }, how...)
				flow.Batch(s, 7, time.Second).
					FlatMap(func(b []string, emit func(string)) {
						for _, v := range b {
							emit(v)
						}
					}).
					KeyBy(flow.Self).Window(flow.Tumbling(10*time.Microsecond)).Count().
					Map(func(w flow.Windowed[string, int64]) string { return w.Key }).
					To("out", drop[string]())
				return nil
			}, append(opts, out)...)
			var want []string
			for v := range n {
				want = append(want, fmt.Sprintf("%5d", v), fmt.Sprintf("%5d", -v-1))
			}
			slices.Sort(want)
			if got := sortedStrings(out); !slices.Equal(got, want) {
				t.Errorf("%d results, want %d", len(got), len(want))
			}
		}
	})
}

func TestOrderedCallsKeepTheOrder(t *testing.T) {
	out := flowtest.Sink[int]("out")
	flowtest.Run(t, &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
		p.Of("numbers", numbers(300)...).Parallelism(1).
			AsyncMap(func(_ context.Context, v int) (int, error) { return v, nil }).Parallelism(1).
			To("out", drop[int]()).Parallelism(1)
		return nil
	}, out)
	if got := out.Values(); !slices.Equal(got, numbers(300)) {
		t.Errorf("got %v", got)
	}
}

func TestAsyncFailuresNameTheRecord(t *testing.T) {
	var calls atomic.Int64
	refuse := func(int) error { return errors.New("unlucky") }
	build := func(policy flow.ErrorPolicy, fails func(v int) error) func(*flow.Pipeline, *flow.NoConfig) error {
		return func(p *flow.Pipeline, _ *flow.NoConfig) error {
			p.Of("numbers", numbers(20)...).
				AsyncMap(func(_ context.Context, v int) (int, error) {
					calls.Add(1)
					if v == 13 {
						return 0, fails(v)
					}
					return v, nil
				}, flow.AsyncRetry(1, time.Millisecond)).ID("ask").OnError(policy).
				To("out", drop[int]())
			return nil
		}
	}
	out := flowtest.Sink[int]("out")
	flowtest.Run(t, &flow.NoConfig{}, build(flow.Skip, refuse), out)
	if got := out.Values(); len(got) != 19 || calls.Load() != 21 {
		t.Errorf("%d results of %d calls", len(got), calls.Load())
	}
	err := flowtest.Try(t, &flow.NoConfig{}, build(flow.Fail, refuse), flowtest.Sink[int]("out"), flowtest.Setting("restart", "none"))
	job, ok := errors.AsType[*flowtest.JobError](err)
	if !ok || job.Code != "E050" || job.Operator != "ask" || !strings.Contains(job.Message, "unlucky (try 2 of 2)") || !strings.Contains(job.Position, "13") {
		t.Errorf("error %+v", err)
	}
	calls.Store(0) // a panic is no error of a record: it is neither tried again nor skipped
	err = flowtest.Try(t, &flow.NoConfig{}, build(flow.Skip, func(int) error { panic("unlucky") }), flowtest.Sink[int]("out"), flowtest.Setting("restart", "none"))
	job, ok = errors.AsType[*flowtest.JobError](err)
	if !ok || job.Code != "E051" || job.Operator != "ask" || !strings.Contains(job.Message, "unlucky") || !strings.Contains(job.Position, "13") ||
		!strings.Contains(job.Stack, "async_test.go") || calls.Load() > 20 {
		t.Errorf("error %+v after %d calls", err, calls.Load())
	}
}

func TestAsyncOptionsOfNoSenseAreFaultsOfThePlan(t *testing.T) {
	ask := func(_ context.Context, v int) (int, error) { return v, nil }
	for name, build := range map[string]func(s flow.Stream[int]){
		"no room":    func(s flow.Stream[int]) { s.AsyncMap(ask, flow.InFlight(0)).To("out", drop[int]()) },
		"no time":    func(s flow.Stream[int]) { s.AsyncMap(ask, flow.Timeout(0)).To("out", drop[int]()) },
		"retries":    func(s flow.Stream[int]) { s.AsyncMap(ask, flow.AsyncRetry(-1, 0)).To("out", drop[int]()) },
		"empty":      func(s flow.Stream[int]) { flow.Batch(s, 0, time.Second).To("out", drop[[]int]()) },
		"no waiting": func(s flow.Stream[int]) { flow.Batch(s, 5, 0).To("out", drop[[]int]()) },
	} {
		_, err := flow.Build("test", &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
			build(p.Of("in", 1))
			return nil
		})
		if plan, ok := errors.AsType[*flow.PlanError](err); !ok || !plan.Has("E018") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
