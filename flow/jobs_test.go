package flow_test

import (
	"iter"
	"strings"
	"time"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/launch"
)

// This file is what jobs look like: it must compile as it stands, with as few type arguments as here. The plans of
// these jobs are in testdata/plan.

type click struct {
	User, Page string
	At         flow.Time
	Cents      int64
}

func (c click) ByUser() string      { return c.User }
func (c click) ByPage() string      { return c.Page }
func (c click) Time() flow.Time     { return c.At }
func (c click) IsPaid() bool        { return c.Cents > 0 }
func (c click) Words() []string     { return strings.Fields(c.Page) }
func parse(s string) (click, error) { return click{Page: s}, nil }

// clicks is unbounded, like a topic.
type clicks struct{ endless[click] }

func (clicks) String() string { return "topic clicks" }

type clickConfig struct {
	Size    time.Duration `flag:"size" default:"1m" help:"window size"`
	Minimum int64         `flag:"minimum" default:"100"`
}

// average is an aggregator with a result of another type.
type average struct{}

type sumCount struct{ Sum, N int64 }

func (average) New() sumCount                    { return sumCount{} }
func (average) Add(a sumCount, c click) sumCount { return sumCount{a.Sum + c.Cents, a.N + 1} }
func (average) Merge(a, b sumCount) sumCount     { return sumCount{a.Sum + b.Sum, a.N + b.N} }
func (average) Result(a sumCount) float64        { return float64(a.Sum) / float64(max(a.N, 1)) }

// bigSpender is a processor of one's own, with a side output and configuration from the factory.
type bigSpender struct {
	minimum int64
	seen    int
}

var small = flow.NewTag[click]("small")

func (b *bigSpender) Open(s *flow.OpSetup[string]) error {
	s.OnStart(func(t *flow.Task) error { b.seen = 0; return nil })
	s.OnEnd(func(c *flow.OpCtx[string]) error { c.Emit("end"); return nil })
	s.OnClose(func() error { return nil })
	return nil
}

func (b *bigSpender) Process(c *flow.OpCtx[string], v click) error {
	b.seen++
	if v.Cents < b.minimum {
		c.Side(small, v)
		return nil
	}
	c.EmitAt(v.User, c.Timestamp().Add(time.Second))
	return c.Context().Err()
}

// visits has all kinds of keyed state.
type visits struct {
	last  flow.ValueState[flow.Time]
	pages flow.ListState[string]
	count flow.MapState[string, int]
}

func (v *visits) Open(s *flow.Setup[string, string]) error {
	v.last = s.Value[flow.Time]("last")
	v.pages = s.List[string]("pages")
	v.count = s.Map[string, int]("count")
	s.OnEnd(func(c *flow.Ctx[string, string]) error { c.Emit(c.Key()); return nil })
	return nil
}

func (v *visits) Process(c *flow.Ctx[string, string], e click) error {
	if v.last.Exists() && e.At.Sub(v.last.Get()) > time.Hour {
		v.pages.Clear()
	}
	v.last.Set(c.Timestamp())
	v.pages.Append(e.Page)
	if *v.count.Ref(e.Page)++; v.pages.Len() > 3 {
		c.Emit(e.User)
	}
	return nil
}

// domain is a transform of one's own.
func domain(s flow.Stream[click]) flow.Stream[string] {
	return s.Map(func(c click) string { d, _, _ := strings.Cut(c.Page, "/"); return d })
}

var late = flow.NewTag[click]("late")

func buildClicks(p *flow.Pipeline, cfg *clickConfig) error {
	p.Set("buffer.timeout", "5ms")
	events := p.From("clicks", clicks{}, flow.EventTime(click.Time, flow.OutOfOrder(5*time.Second), flow.IdleAfter(time.Minute))).
		OnError(flow.Skip)
	paid := events.Filter(click.IsPaid).ID("paid").Peek(func(click) {})

	perUser := paid.KeyBy(click.ByUser).Window(flow.Tumbling(cfg.Size).Offset(-time.Hour)).LateTo(late)
	spent := perUser.Aggregate(average{}).ID("average")
	spent.To("averages", drop[flow.Windowed[string, float64]]()).Parallelism(2)
	spent.SideOutput(late).To("late", drop[click]())

	paid.KeyBy(click.ByPage).Window(flow.Tumbling(cfg.Size)).Count().ID("per-page").
		To("pages", drop[flow.Windowed[string, int64]]())
	paid.KeyBy(click.ByUser).Window(flow.Tumbling(cfg.Size)).
		Fold(func() []string { return nil }, func(acc []string, c click) []string { return append(acc, c.Page) }, concat).ID("visits").
		To("visited", drop[flow.Windowed[string, []string]]())

	paid.KeyBy(click.ByUser).Process(func() *visits { return &visits{} }).ID("frequent").To("frequent-out", drop[string]())
	paid.KeyBy(click.ByPage).MapWithState("cents", func(c *flow.Cell[string, int64], v click, emit func(int64)) error {
		if *c.Ref() += v.Cents; *c.Ref() > 1000 {
			emit(*c.Ref())
			c.Clear()
		}
		return nil
	}).ID("thousands").To("thousands-out", drop[int64]())

	big := events.Rebalance().Process(func() *bigSpender { return &bigSpender{minimum: cfg.Minimum} }).ID("big").OnError(flow.Skip)
	big.Global().To("big-spenders", drop[string]())
	big.SideOutput(small).Then(domain).Broadcast().To("domains", drop[string]()).SlotGroup("io")
	return nil
}

func buildAll(p *flow.Pipeline, _ *flow.NoConfig) error {
	p.DefaultParallelism(3)
	p.MaxParallelism(64)
	lines := p.Of("lines", "a b", "c")
	more := p.From("more", flow.Values("d")).Parallelism(1)
	lines.Union(more).ID("all").
		FlatMapSeq(strings.FieldsSeq).
		FlatMap(func(s string, emit func(string)) { emit(s); emit(s) }).
		TryFlatMap(func(s string, emit func(string)) error { emit(s); return nil }).OnError(flow.Skip).
		Rescale().TryMap(parse).
		MapWith(func(t *flow.Task) (func(click) (click, error), error) {
			n := int64(t.Subtask)
			return func(c click) (click, error) { c.Cents += n; return c, nil }, nil
		}).
		KeyBy(click.ByPage).
		Reduce(func(a, b click) click { a.Cents += b.Cents; return a }).
		KeyBy(func(c click) flow.KV[string, int64] { return flow.KV[string, int64]{Key: c.User, Value: c.Cents} }).
		Fold(func() map[string]int { return map[string]int{} }, func(m map[string]int, c click) map[string]int { m[c.Page]++; return m }).
		FlatMapSeq(func(kv flow.KV[flow.KV[string, int64], map[string]int]) iter.Seq[int] {
			return func(yield func(int) bool) { yield(len(kv.Value)) }
		}).
		KeyBy(flow.Self).
		Count().
		To("out", drop[flow.KV[int, int64]]())
	return nil
}

type wordConfig struct {
	Lines []string      `flag:"lines" default:"a b a,c" help:"text to count"`
	Every time.Duration `flag:"every" default:"1s" help:"window size"`
	Token flow.Secret   `flag:"token"`
}

func buildWords(p *flow.Pipeline, cfg *wordConfig) error {
	p.Of("lines", cfg.Lines...).
		FlatMapSeq(strings.FieldsSeq).ID("words").
		KeyBy(flow.Self).
		Count().ID("count").
		To("counts", drop[flow.KV[string, int64]]())
	return nil
}

// job finds a job by its name in testdata.
func jobCalled(name string) launch.Job {
	switch name {
	case "words":
		return words()
	case "clicks":
		return flow.JobOf("clicks", buildClicks)
	case "updates":
		return flow.JobOf("updates", buildUpdates)
	}
	return flow.JobOf("all", buildAll)
}

// buildUpdates counts how many pages have how many clicks, and counts every update on the way there.
func buildUpdates(p *flow.Pipeline, _ *flow.NoConfig) error {
	p.From("clicks", clicks{}).
		KeyBy(click.ByPage).Count().ID("per-page").
		Map(func(c flow.KV[string, int64]) int64 { return c.Value }).
		KeyBy(flow.Self).Count().ID("pages-by-count").
		To("out", drop[flow.KV[int64, int64]]())
	return nil
}

func concat(a, b []string) []string { return append(a, b...) }
