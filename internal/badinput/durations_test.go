package badinput

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow"
)

type (
	counts = flow.Windowed[int, int64]
	keyed  = flow.KeyedStream[int, int]
)

// keeper declares a state with an option.
type keeper struct {
	opt  flow.StateOption
	list bool
}

func (k keeper) Open(set *flow.Setup[int, int]) error {
	if k.list {
		set.List[int]("kept", k.opt)
		return nil
	}
	set.Value[int]("kept", k.opt)
	return nil
}
func (keeper) Process(*flow.Ctx[int, int], int) error { return nil }

// durations is every place of the API that takes a duration. short are those that must be refused there.
var durations = map[string]struct {
	code  string
	short []time.Duration
	build func(p *flow.Pipeline, d time.Duration)
}{
	"tumbling":       {"E018", none, func(p *flow.Pipeline, d time.Duration) { count(p, flow.Tumbling(d)) }},
	"sliding":        {"E018", none, func(p *flow.Pipeline, d time.Duration) { count(p, flow.Sliding(d, time.Second)) }},
	"slide":          {"E018", none, func(p *flow.Pipeline, d time.Duration) { count(p, flow.Sliding(time.Second, d)) }},
	"gap":            {"E018", none, func(p *flow.Pipeline, d time.Duration) { count(p, flow.Session(d)) }},
	"by the clock":   {"E018", none, func(p *flow.Pipeline, d time.Duration) { count(p, flow.Tumbling(d).ProcessingTime()) }},
	"with an offset": {"E018", none, func(p *flow.Pipeline, d time.Duration) { count(p, flow.Tumbling(d).Offset(time.Hour)) }},
	"listing": {"E018", none, func(p *flow.Pipeline, d time.Duration) {
		flow.Collect(of(p, "in").Window(flow.Tumbling(d))).To("out", drop[flow.Windowed[int, []int]]())
	}},
	"listing session": {"E018", none, func(p *flow.Pipeline, d time.Duration) {
		flow.Collect(of(p, "in").Window(flow.Session(d))).To("out", drop[flow.Windowed[int, []int]]())
	}},
	"early": {"E018", none, func(p *flow.Pipeline, d time.Duration) {
		of(p, "in").Window(flow.Tumbling(time.Second)).EarlyEvery(d).Count().To("out", drop[counts]())
	}},
	"lateness": {"E018", negative, func(p *flow.Pipeline, d time.Duration) {
		of(p, "in").Window(flow.Tumbling(time.Second)).AllowedLateness(d).Count().To("out", drop[counts]())
	}},
	"cogroup": {"E018", none, func(p *flow.Pipeline, d time.Duration) {
		of(p, "a").CoGroup(of(p, "b"), flow.Tumbling(d), func(flow.Win[int], iter.Seq[int], iter.Seq[int], func(int)) error { return nil }).To("out", drop[int]())
	}},
	"window join": {"E018", none, func(p *flow.Pipeline, d time.Duration) {
		of(p, "a").WindowJoin(of(p, "b"), flow.Sliding(time.Second, d), func(int, int, func(int)) {}).To("out", drop[int]())
	}},
	"interval": {"E018", negative, func(p *flow.Pipeline, d time.Duration) {
		of(p, "a").IntervalJoin(of(p, "b"), 0, d, func(int, int, func(int)) {}).To("out", drop[int]())
	}},
	"join": {"E018", none, func(p *flow.Pipeline, d time.Duration) {
		of(p, "a").Join(of(p, "b"), func(int, int, func(int)) {}, flow.JoinTTL(d)).To("out", drop[int]())
	}},
	"latest": {"E018", none, func(p *flow.Pipeline, d time.Duration) {
		of(p, "a").JoinLatest(of(p, "b"), func(int, flow.Opt[int], func(int)) {}, flow.JoinTTL(d)).To("out", drop[int]())
	}},
	"disorder":      {"E018", negative, func(p *flow.Pipeline, d time.Duration) { from(p, flow.OutOfOrder(d)) }},
	"idleness":      {"E018", negative, func(p *flow.Pipeline, d time.Duration) { from(p, flow.IdleAfter(d)) }},
	"drift":         {"E018", none, func(p *flow.Pipeline, d time.Duration) { from(p, flow.Align("group", d)) }},
	"life":          {"E145", none, func(p *flow.Pipeline, d time.Duration) { keep(p, keeper{opt: flow.TTL(d)}) }},
	"life on read":  {"E145", none, func(p *flow.Pipeline, d time.Duration) { keep(p, keeper{opt: flow.TTLOnRead(d)}) }},
	"life of lists": {"E145", none, func(p *flow.Pipeline, d time.Duration) { keep(p, keeper{opt: flow.TTL(d), list: true}) }},
	"life of a cell": {"E145", none, func(p *flow.Pipeline, d time.Duration) {
		of(p, "in").MapWithState("n", func(*flow.Cell[int, int], int, func(int)) error { return nil }, flow.TTL(d)).To("out", drop[int]())
	}},
	"linger": {"E018", zero, func(p *flow.Pipeline, d time.Duration) { flow.Batch(p.Of("in", 1), 3, d).To("out", drop[[]int]()) }},
	"timeout": {"E018", zero, func(p *flow.Pipeline, d time.Duration) {
		p.Of("in", 1).AsyncMap(ask, flow.Timeout(d)).To("out", drop[int]())
	}},
	"backoff": {"E018", negative, func(p *flow.Pipeline, d time.Duration) {
		p.Of("in", 1).AsyncMap(ask, flow.AsyncRetry(1, d)).To("out", drop[int]())
	}},
	"retry": {"E015", negative, func(p *flow.Pipeline, d time.Duration) {
		p.Of("in", 1).TryMap(func(v int) (int, error) { return v, nil }).OnError(flow.Retry(1, d, flow.Fail)).To("out", drop[int]())
	}},
	"retry of a sink": {"E015", negative, func(p *flow.Pipeline, d time.Duration) {
		p.Of("in", 1).To("out", drop[int]()).OnError(flow.Retry(1, d, flow.Skip))
	}},
	"retry of a source": {"E015", negative, func(p *flow.Pipeline, d time.Duration) {
		p.Of("in", 1).OnError(flow.Retry(1, d, flow.Fail)).To("out", drop[int]())
	}},
	"buffer.timeout":     {"E036", negative, set("buffer.timeout")},
	"interval of checks": {"E036", negative, set("checkpoint.interval")},
	"pause of checks":    {"E036", negative, set("checkpoint.min-pause")},
	"end of checks":      {"E036", none, set("checkpoint.timeout")},
	"restart": {"E036", negative, func(p *flow.Pipeline, d time.Duration) {
		p.Set("restart", "fixed(3,"+d.String()+")")
		p.Of("in", 1).To("out", drop[int]())
	}},
}

var (
	none     = []time.Duration{0, -time.Second, time.Nanosecond, -1 << 63} // nothing below a microsecond
	zero     = []time.Duration{0, -time.Second, -1 << 63}
	negative = []time.Duration{-time.Second, -1 << 63}
)

func of(p *flow.Pipeline, id string) keyed { return p.Of(id, 1).KeyBy(self) }

func count(p *flow.Pipeline, w flow.WindowSpec) {
	of(p, "in").Window(w).Count().To("out", drop[counts]())
}

func from(p *flow.Pipeline, o flow.WatermarkOption) {
	p.From("in", flow.Values(1), flow.EventTime(func(v int) flow.Time { return flow.Time(v) }, o)).To("out", drop[int]())
}

func keep(p *flow.Pipeline, k keeper) {
	of(p, "in").Process(func() keeper { return k }).To("out", drop[int]())
}

func ask(_ context.Context, v int) (int, error) { return v, nil }

func set(name string) func(p *flow.Pipeline, d time.Duration) {
	return func(p *flow.Pipeline, d time.Duration) {
		p.Set(name, d.String())
		p.Of("in", 1).To("out", drop[int]())
	}
}

func TestDurationsOfNoSenseAreRefusedAtTheirPlace(t *testing.T) {
	for name, c := range durations {
		t.Run(name, func(t *testing.T) {
			for _, d := range c.short {
				refused(t, c.code, func(p *flow.Pipeline) { c.build(p, d) })
			}
			if _, err := flow.Build("sound", &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
				c.build(p, time.Minute)
				return nil
			}); err != nil {
				t.Errorf("with a minute: %v", err)
			}
		})
	}
}
