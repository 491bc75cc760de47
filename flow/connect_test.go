package flow_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/flowtest"
)

// ledger has two inputs that share the state of a key.
type ledger struct {
	balance flow.ValueState[int]
	entries flow.ListState[string]
}

func (l *ledger) Open(s *flow.Setup[int, string]) error {
	l.balance = s.Value[int]("balance")
	l.entries = s.List[string]("entries")
	s.OnEnd(func(c *flow.Ctx[int, string]) error {
		n := 0
		for range l.entries.All() {
			n++
		}
		c.Emit(fmt.Sprint(c.Key(), " ", l.balance.Get(), " ", n))
		return nil
	})
	return nil
}

func (l *ledger) ProcessA(c *flow.Ctx[int, string], v int) error {
	*l.balance.Ref() += v
	if v == 0 {
		c.Side(zeros, v)
	}
	return nil
}

func (l *ledger) ProcessB(_ *flow.Ctx[int, string], s string) error {
	l.entries.Append(s)
	*l.balance.Ref() += 1000
	return nil
}

var zeros = flow.NewTag[int]("zeros")

// limits knows which limits there are when its input ends.
type limits struct {
	limits flow.BroadcastState[string, int]
	sum    flow.ValueState[int]
}

func (l *limits) Open(s *flow.Setup[int, string]) error {
	l.limits = s.Broadcast[string, int]("limits")
	l.sum = s.Value[int]("sum")
	s.OnEnd(func(c *flow.Ctx[int, string]) error {
		n := 0
		for _, v := range l.limits.All() {
			n += v
		}
		c.Emit(fmt.Sprint(c.Key(), " ", l.sum.Get(), " ", n))
		return nil
	})
	return nil
}

func (l *limits) Process(_ *flow.Ctx[int, string], v int) error {
	*l.sum.Ref() += v
	return nil
}

func (l *limits) ProcessBroadcast(c *flow.BroadcastCtx, s string) error {
	n, _ := l.limits.Get(s)
	l.limits.Put(c, s, n+1)
	return nil
}

func remainder(v int) int      { return v % 7 }
func lengthOf(s string) int    { return len(s) % 7 }
func numbers(n int) (vs []int) { return slices.Collect(func(yield func(int) bool) { count(n, yield) }) }

func count(n int, yield func(int) bool) {
	for i := range n {
		if !yield(i) {
			return
		}
	}
}

func texts(n int) (vs []string) {
	for i := range n {
		vs = append(vs, fmt.Sprintf("%*s", i%5, "x"))
	}
	return vs
}

func TestTwoInputsShareTheStateOfAKey(t *testing.T) {
	build := func(p *flow.Pipeline, _ *flow.NoConfig) error {
		balances := p.Of("numbers", numbers(700)...).KeyBy(remainder).
			Connect(p.Of("texts", texts(70)...).KeyBy(lengthOf)).
			Process(func() *ledger { return &ledger{} }).ID("ledger")
		balances.To("out", drop[string]())
		balances.SideOutput(zeros).To("zeros", drop[int]())
		return nil
	}
	balance, entries := map[int]int{}, map[int]int{}
	for _, v := range numbers(700) {
		balance[remainder(v)] += v
	}
	for _, s := range texts(70) {
		balance[lengthOf(s)] += 1000
		entries[lengthOf(s)]++
	}
	var want []string
	for k := range 7 {
		want = append(want, fmt.Sprint(k, " ", balance[k], " ", entries[k]))
	}
	everyWay(t, func(t *testing.T, opts ...flowtest.Option) {
		out, side := flowtest.Sink[string]("out"), flowtest.Sink[int]("zeros")
		flowtest.Run(t, &flow.NoConfig{}, build, append(opts, out, side)...)
		if got := sortedStrings(out); !slices.Equal(got, want) || len(side.Values()) != 1 {
			t.Errorf("got %q and %v, want %q", got, side.Values(), want)
		}
	})
}

func TestEverySubtaskHasAllOfTheBroadcast(t *testing.T) {
	build := func(p *flow.Pipeline, _ *flow.NoConfig) error {
		p.Of("numbers", numbers(700)...).KeyBy(remainder).
			ConnectBroadcast(p.Of("texts", texts(70)...)).
			Process(func() *limits { return &limits{} }).ID("limits").
			To("out", drop[string]())
		return nil
	}
	sum := map[int]int{}
	for _, v := range numbers(700) {
		sum[remainder(v)] += v
	}
	var want []string
	for k := range 7 {
		want = append(want, fmt.Sprint(k, " ", sum[k], " ", 70))
	}
	everyWay(t, func(t *testing.T, opts ...flowtest.Option) {
		out := flowtest.Sink[string]("out")
		flowtest.Run(t, &flow.NoConfig{}, build, append(opts, out)...)
		if got := sortedStrings(out); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// everyWay runs a job alone and in parallel, stored and streaming.
func everyWay(t *testing.T, run func(t *testing.T, opts ...flowtest.Option)) {
	for _, parallelism := range []string{"1", "4"} {
		for _, mode := range []string{"auto", "streaming"} {
			t.Run(mode+"/"+parallelism, func(t *testing.T) {
				run(t, flowtest.Setting("parallelism", parallelism), flowtest.Setting("mode", mode))
			})
		}
	}
}

func sortedStrings(c *flowtest.Collected[string]) []string {
	return slices.Sorted(slices.Values(c.Values()))
}

// ruleless declares what only a broadcast could write.
type ruleless struct{}

func (ruleless) Open(s *flow.Setup[int, int]) error {
	s.Broadcast[int, int]("limits")
	return nil
}
func (ruleless) Process(*flow.Ctx[int, int], int) error { return nil }

func TestBroadcastStateWithoutABroadcastIsAFaultOfThePlan(t *testing.T) {
	_, err := flow.Build("test", &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
		p.Of("in", 1).KeyBy(self).Process(func() ruleless { return ruleless{} }).To("out", drop[int]())
		return nil
	})
	if plan, ok := errors.AsType[*flow.PlanError](err); !ok || !plan.Has("E145") || !strings.Contains(err.Error(), "ConnectBroadcast") {
		t.Errorf("error %v", err)
	}
}

func TestStreamsOfTwoPipelinesDoNotMeet(t *testing.T) {
	other := flow.New("other")
	for name, build := range map[string]func(p *flow.Pipeline){
		"connect": func(p *flow.Pipeline) {
			p.Of("in", 1).KeyBy(remainder).Connect(other.Of("elsewhere", "x").KeyBy(lengthOf)).
				Process(func() *ledger { return &ledger{} }).To("out", drop[string]())
		},
		"broadcast": func(p *flow.Pipeline) {
			p.Of("in", 1).KeyBy(remainder).ConnectBroadcast(other.Of("elsewhere-2", "x")).
				Process(func() *limits { return &limits{} }).To("out", drop[string]())
		},
	} {
		_, err := flow.Build("test", &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
			build(p)
			return nil
		})
		if plan, ok := errors.AsType[*flow.PlanError](err); !ok || !plan.Has("E018") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
