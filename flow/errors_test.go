package flow_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow"
)

// nothing is a sink that nobody opens.
type nothing[T any] struct{ guarantee flow.Guarantee }

func (s nothing[T]) Guarantee() flow.Guarantee { return s.guarantee }
func (s nothing[T]) OpenWriter(context.Context, *flow.Task, [][]byte) (flow.Writer[T], error) {
	return nil, errors.New("opened while the plan was made")
}

func drop[T any]() flow.Sink[T] { return nothing[T]{connector.AtLeastOnce} }

// endless is an unbounded source that nobody opens.
type endless[T any] struct{}

func (endless[T]) Bounded() bool { return false }
func (endless[T]) OpenEnumerator(context.Context, int, []byte) (flow.Enumerator, error) {
	return nil, errors.New("opened while the plan was made")
}
func (endless[T]) OpenReader(context.Context, *flow.Task) (flow.Reader[T], error) {
	return nil, errors.New("opened while the plan was made")
}

type hidden struct{ secret int }

type splitter struct{}

func (splitter) Open(*flow.OpSetup[int]) error       { return nil }
func (splitter) Process(*flow.OpCtx[int], int) error { return nil }
func newSplitter() splitter                          { return splitter{} }

type refuses struct{}

func (refuses) Open(*flow.OpSetup[int]) error       { return errors.New("not today") }
func (refuses) Process(*flow.OpCtx[int], int) error { return nil }
func newRefuses() *refuses                          { return &refuses{} }
func double(v int) int                              { return 2 * v }
func isEven(v int) bool                             { return v%2 == 0 }
func half(v float64) float64                        { return v / 2 }
func try(v int) (int, error)                        { return v, nil }
func sum(a, b int) int                              { return a + b }
func self(v int) int                                { return v }

var tag = flow.NewTag[int]("odd")

// faults are pipelines with one fault each: the code, a part of the message and a part of the fix.
var faults = map[string]struct {
	build              func(p *flow.Pipeline)
	code, message, fix string
}{
	"duplicate id": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).Map(double).ID("x").Map(double).ID("x").To("out", drop[int]())
		}, "E011", `"x"`, ""},
	"source without an id": {
		func(p *flow.Pipeline) { p.Of("", 1).To("out", drop[int]()) }, "", "", ""},
	"sink without an id": {
		func(p *flow.Pipeline) { p.Of("a", 1).To("", drop[int]()) }, "", "", ""},
	"id with a line break": {
		func(p *flow.Pipeline) { p.Of("a", 1).To("out\n", drop[int]()) }, "", "", ""},
	"float key": {
		func(p *flow.Pipeline) { p.Of("a", 1.5).KeyBy(half).Count().To("out", drop[flow.KV[float64, int64]]()) },
		"E007", "float64", "strconv"},
	"pointer key": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).KeyBy(func(v int) *int { return &v }).Reduce(sum).To("out", drop[int]())
		}, "E007", "*int", "value behind"},
	"interface key": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).KeyBy(func(v int) any { return v }).Reduce(sum).To("out", drop[int]())
		}, "E007", "interface", "value behind"},
	"channel key": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).KeyBy(func(v int) chan int { return nil }).Reduce(sum).To("out", drop[int]())
		}, "E007", "chan int", "value behind"},
	"time.Time as a key": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).KeyBy(func(v int) time.Time { return time.Time{} }).Reduce(sum).To("out", drop[int]())
		}, "E007", "time.Time", "flow.Time"},
	"record with a hidden field": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).Map(func(v int) hidden { return hidden{v} }).To("out", drop[hidden]())
		}, "E008", "secret", ""},
	"record that is a function": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).Map(func(v int) func() { return nil }).To("out", drop[func()]())
		}, "E008", "func", ""},
	"accumulator that cannot be stored": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).KeyBy(self).Window(flow.Tumbling(time.Second)).
				Aggregate(hiddenSum{}).To("out", drop[flow.Windowed[int, int]]())
		}, "E008", "secret", ""},
	"skip where nothing fails": {
		func(p *flow.Pipeline) { p.Of("a", 1).Map(double).OnError(flow.Skip).To("out", drop[int]()) },
		"E015", "map", "TryMap"},
	"unknown policy": {
		func(p *flow.Pipeline) { p.Of("a", 1).TryMap(try).OnError("retry").To("out", drop[int]()) },
		"E015", "retry", "flow.Skip"},
	"policy that tries again for ever": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).TryMap(try).OnError(flow.Retry(0, time.Second, flow.Fail)).To("out", drop[int]())
		}, "E015", "0 more tries", "flow.Retry"},
	"negative rest between tries": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).To("out", drop[int]()).OnError(flow.Retry(1, -time.Second, flow.Fail))
		}, "E015", "negative rest", "flow.Retry"},
	"trying again what has effects": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).Process(newSplitter).OnError(flow.Retry(1, 0, flow.Skip)).To("out", drop[int]())
		}, "E015", "done twice", "flow.DeadLetters"},
	"dead letters that nobody reads": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).TryMap(try).ID("half").OnError(flow.DeadLetters).To("out", drop[int]())
		},
		"E019", "half", "Pipeline.DeadLetters"},
	"dead letters that nobody writes": {
		func(p *flow.Pipeline) {
			p.DeadLetters("letters", drop[flow.DeadLetter]())
			s := p.Of("a", 1).TryMap(try).ID("half")
			s.To("out", drop[int]())
			s.DeadLetters().To("lost", drop[flow.DeadLetter]())
		}, "E019", "half", "OnError"},
	"dead letters of a side output": {
		func(p *flow.Pipeline) {
			s := p.Of("a", 1).Process(newSplitter).OnError(flow.DeadLetters)
			s.To("out", drop[int]())
			s.SideOutput(tag).DeadLetters().To("lost", drop[flow.DeadLetter]())
			s.SideOutput(tag).To("late", drop[int]())
		}, "E017", "DeadLetters", "operator's stream"},
	"modifier of a side output": {
		func(p *flow.Pipeline) {
			s := p.Of("a", 1).KeyBy(self).Window(flow.Tumbling(time.Second)).LateTo(tag).Count().ID("counts")
			s.To("out", drop[flow.Windowed[int, int64]]())
			s.SideOutput(tag).Parallelism(3).To("late", drop[int]())
		}, "E017", "Parallelism", "operator's stream"},
	"side output of an operator that has none": {
		func(p *flow.Pipeline) { p.Of("a", 1).Map(double).SideOutput(tag).To("late", drop[int]()) },
		"E018", "side output", "LateTo"},
	"side output read as two types": {
		func(p *flow.Pipeline) {
			s := p.Of("a", 1).Process(newSplitter)
			s.SideOutput(flow.NewTag[int]("side")).To("ints", drop[int]())
			s.SideOutput(flow.NewTag[string]("side")).To("texts", drop[string]())
			s.To("out", drop[int]())
		}, "E018", "side", "one tag"},
	"window without a size": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).KeyBy(self).Window(flow.Tumbling(0)).Count().To("out", drop[flow.Windowed[int, int64]]())
		}, "E018", "window size", "microsecond"},
	"negative parallelism": {
		func(p *flow.Pipeline) { p.Of("a", 1).Map(double).Parallelism(-4).To("out", drop[int]()) },
		"E018", "-4", "AllSlots"},
	"parallelism of a sink": {
		func(p *flow.Pipeline) { p.Of("a", 1).To("out", drop[int]()).Parallelism(0) },
		"E018", "0", "AllSlots"},
	"default parallelism": {
		func(p *flow.Pipeline) { p.DefaultParallelism(0); p.Of("a", 1).To("out", drop[int]()) },
		"E018", "default parallelism", "AllSlots"},
	"key groups": {
		func(p *flow.Pipeline) { p.MaxParallelism(1 << 20); p.Of("a", 1).To("out", drop[int]()) },
		"E018", "key groups", "256"},
	"negative disorder": {
		func(p *flow.Pipeline) {
			p.From("a", endless[int]{}, flow.EventTime(func(v int) flow.Time { return 0 }, flow.OutOfOrder(-time.Second))).To("out", drop[int]())
		}, "E018", "OutOfOrder", "positive"},
	"union across pipelines": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).Union(flow.New("other").Of("b", 2)).To("out", drop[int]())
		}, "E018", "another pipeline", "same Pipeline"},
	"replacement of another type": {
		func(p *flow.Pipeline) {
			p.ReplaceSink("out", drop[string]())
			p.Of("a", 1).To("out", drop[int]())
		}, "E018", "flow.Sink[string]", "record type"},
	"replacement of nothing": {
		func(p *flow.Pipeline) {
			p.ReplaceSink("elsewhere", drop[int]())
			p.Of("a", 1).To("out", drop[int]())
		}, "E018", "elsewhere", "From or To"},
	"exactly-once without a committer": {
		func(p *flow.Pipeline) { p.Of("a", 1).To("out", nothing[int]{connector.ExactlyOnce}) },
		"E024", "no committer", "CommittingSink"},
	"stateful and unbounded without an id": {
		func(p *flow.Pipeline) {
			p.From("a", endless[int]{}).KeyBy(self).Count().To("out", drop[flow.KV[int, int64]]())
		}, "E014", "count-1", "ID"},
	"open that fails": {
		func(p *flow.Pipeline) { p.Of("a", 1).Process(newRefuses).To("out", drop[int]()) },
		"E047", "not today", "OnStart"},
	"state that cannot be stored": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).KeyBy(self).Process(func() *states { return &states{} }).To("out", drop[int]())
		}, "E008", "chan int", ""},
	"state of a short form that cannot be stored": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).KeyBy(self).MapWithState("s", func(c *flow.Cell[int, hidden], v int, emit func(int)) error { return nil }).To("out", drop[int]())
		}, "E008", "secret", ""},
	"bad key of a map state": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).KeyBy(self).Process(func() *states { return &states{float: true} }).To("out", drop[int]())
		}, "E007", "float64", ""},
	"key with a hidden field": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).KeyBy(func(v int) hidden { return hidden{v} }).Process(func() *hiddenKey { return &hiddenKey{} }).To("out", drop[int]())
		}, "E008", "secret", ""},
	"two states of one name": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).KeyBy(self).Process(func() *states { return &states{twice: "x"} }).To("out", drop[int]())
		}, "E145", "two states", "a name of its own"},
	"panic of open": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).KeyBy(self).Process(func() *states { return nil }).To("out", drop[int]())
		}, "E043", "nil pointer", "OnStart"},
	"panic": {
		func(p *flow.Pipeline) { panic("boom") }, "E043", "boom", "return an error"},
}

// states declares what cannot be: a channel, a map with bad keys, or two states of one name.
type states struct {
	twice string
	float bool
}

type hiddenKey struct{}

func (hiddenKey) Open(set *flow.Setup[hidden, int]) error   { set.Value[int]("v"); return nil }
func (hiddenKey) Process(*flow.Ctx[hidden, int], int) error { return nil }

func (s *states) Open(set *flow.Setup[int, int]) error {
	if s.float {
		set.Map[float64, int]("m")
		return nil
	}
	if s.twice != "" {
		set.Value[int](s.twice)
		set.List[int](s.twice)
		return nil
	}
	set.Value[chan int]("c")
	return nil
}
func (s *states) Process(*flow.Ctx[int, int], int) error { return nil }

type hiddenSum struct{}

func (hiddenSum) New() hidden                { return hidden{} }
func (hiddenSum) Add(h hidden, v int) hidden { return hidden{h.secret + v} }
func (hiddenSum) Merge(a, b hidden) hidden   { return hidden{a.secret + b.secret} }
func (hiddenSum) Result(h hidden) int        { return h.secret }

func TestEveryFaultHasCodePlaceAndFix(t *testing.T) {
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			_, err := flow.Build("faulty", &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
				f.build(p)
				return nil
			})
			plan, ok := errors.AsType[*flow.PlanError](err)
			if !ok {
				t.Fatalf("error is %v", err)
			}
			if len(plan.Diagnostics) != 1 {
				t.Errorf("%d faults, want one:\n%v", len(plan.Diagnostics), err)
			}
			d := plan.Diagnostics[0]
			if f.code != "" && d.Code != f.code || !strings.HasPrefix(d.Code, "E") {
				t.Errorf("code is %s, want %s: %v", d.Code, f.code, err)
			}
			if !strings.Contains(d.Where, "errors_test.go:") {
				t.Errorf("place is %q", d.Where)
			}
			if !strings.Contains(d.Message, f.message) {
				t.Errorf("message %q does not say %q", d.Message, f.message)
			}
			if len(d.Hints) == 0 || !strings.Contains(strings.Join(d.Hints, "\n"), f.fix) {
				t.Errorf("fix %q does not say %q", d.Hints, f.fix)
			}
		})
	}
}

func TestFaultsAreReportedTogether(t *testing.T) {
	_, err := flow.Build("faulty", &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
		s := p.Of("a", 1).Map(double).OnError(flow.Skip).Parallelism(-2)
		s.Filter(isEven).ID("x").To("x", nothing[int]{connector.ExactlyOnce})
		return errors.New("and this")
	})
	plan, ok := errors.AsType[*flow.PlanError](err)
	if !ok {
		t.Fatalf("error is %v", err)
	}
	for _, code := range []string{"E015", "E018", "E024", "E046"} {
		if !plan.Has(code) {
			t.Errorf("%s is missing:\n%v", code, err)
		}
	}
}
