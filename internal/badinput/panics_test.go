package badinput

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/flowtest"
)

// boom is what user functions do at the record 7.
func boom(v int) int {
	if v == 7 {
		panic("boom")
	}
	return v
}

func at(v int) flow.Time { return flow.Time(v) }

func in(p *flow.Pipeline, id string) flow.Stream[int] {
	return p.From(id, flow.Values(numbers(20)...), flow.EventTime(at)).Parallelism(1)
}

// panicky is a processor that panics at one of its occasions.
type panicky struct {
	when  string
	timer flow.EventTimer
	many  flow.EventTimers
	clock flow.ProcTimer
	sum   flow.ReducingState[int]
}

func (q *panicky) Open(set *flow.Setup[int, int]) error {
	q.timer = set.EventTimer("t", func(_ *flow.Ctx[int, int], t flow.Time) error { boom(int(t)); return nil })
	q.many = set.EventTimers("ts", func(_ *flow.Ctx[int, int], t flow.Time) error { boom(int(t)); return nil })
	q.clock = set.ProcTimer("c", func(c *flow.Ctx[int, int], _ time.Time) error { boom(c.Key()); return nil })
	q.sum = set.Reducing("sum", func(a, b int) int { return boom(7) })
	set.OnStart(func(*flow.Task) error {
		if q.when == "start" {
			boom(7)
		}
		return nil
	})
	set.OnEnd(func(c *flow.Ctx[int, int]) error {
		if q.when == "end" {
			boom(c.Key())
		}
		return nil
	})
	return nil
}

func (q *panicky) Process(_ *flow.Ctx[int, int], v int) error {
	q.sum.Add(v)
	switch q.when {
	case "record":
		boom(v)
	case "timer":
		q.timer.Set(at(v))
	case "timers":
		q.many.Add(at(v))
	case "clock":
		q.clock.SetIn(time.Millisecond)
	case "reducing":
		q.sum.Add(v)
	}
	return nil
}

func (q *panicky) ProcessA(_ *flow.Ctx[int, int], v int) error { boom(v); return nil }
func (q *panicky) ProcessB(*flow.Ctx[int, int], int) error     { return nil }
func (q *panicky) Load(_ *flow.LoadCtx[int], v int) error {
	if q.when == "load" {
		boom(v)
	}
	return nil
}

type plain struct{}

func (plain) Open(*flow.OpSetup[int]) error           { return nil }
func (plain) Process(_ *flow.OpCtx[int], v int) error { boom(v); return nil }

// ruled panics at a rule.
type ruled struct{}

func (ruled) Open(*flow.Setup[int, int]) error                   { return nil }
func (ruled) Process(*flow.Ctx[int, int], int) error             { return nil }
func (ruled) ProcessBroadcast(_ *flow.BroadcastCtx, v int) error { boom(v); return nil }

// trapped is a trigger that panics, at a record or at the end of its window.
type trapped struct{ atEnd bool }

func (x trapped) OnElement(c *flow.TriggerCtx, w flow.Win[int], v int) flow.Fire {
	if x.atEnd {
		c.SetEventTimer(w.Window.Last())
		return flow.Continue
	}
	boom(v)
	return flow.Continue
}
func (trapped) OnEventTime(_ *flow.TriggerCtx, w flow.Win[int], _ flow.Time) flow.Fire {
	boom(w.Key)
	return flow.Continue
}
func (trapped) OnProcTime(*flow.TriggerCtx, flow.Win[int], time.Time) flow.Fire { return flow.Continue }
func (trapped) OnMerge(*flow.TriggerCtx, flow.Win[int], []int64)                {}

// meter is a watermark generator that panics.
type meter struct{}

func (meter) OnRecord(v int, _ flow.Time) { boom(v) }
func (meter) Watermark() flow.Time        { return flow.MinTime }

func process(p *flow.Pipeline, when string) flow.Stream[int] {
	return in(p, "in").KeyBy(self).Process(func() *panicky { return &panicky{when: when} })
}

func window(p *flow.Pipeline) flow.WindowedStream[int, int] {
	return in(p, "in").KeyBy(self).Window(flow.Tumbling(5 * time.Microsecond))
}

func pairs(p *flow.Pipeline) (a, b flow.KeyedStream[int, int]) {
	return in(p, "in").KeyBy(self), in(p, "other").KeyBy(self)
}

// waits never ends, so that the clock has its turn.
func waits(p *flow.Pipeline, id string) flow.Stream[int] {
	return p.From(id, flow.PollFunc(0, func(_ context.Context, off int) ([]int, int, error) {
		if off == 20 {
			return nil, off, nil
		}
		return []int{off}, off + 1, nil
	})).Parallelism(1)
}

func values(s flow.Stream[flow.Ranked[int]]) flow.Stream[int] {
	return s.Map(func(r flow.Ranked[int]) int { return r.Value })
}

func bang(a, b int, emit func(int)) { emit(boom(a)) }

// operators are one of each kind, with a function that panics: of the operator "it", unless another one is named.
var operators = map[string]func(p *flow.Pipeline) flow.Stream[int]{
	"map": func(p *flow.Pipeline) flow.Stream[int] { return in(p, "in").Map(boom) },
	"trymap": func(p *flow.Pipeline) flow.Stream[int] {
		return in(p, "in").TryMap(func(v int) (int, error) { return boom(v), nil })
	},
	"mapwith": func(p *flow.Pipeline) flow.Stream[int] {
		return in(p, "in").MapWith(func(*flow.Task) (func(int) (int, error), error) {
			return func(v int) (int, error) { return boom(v), nil }, nil
		})
	},
	"filter": func(p *flow.Pipeline) flow.Stream[int] {
		return in(p, "in").Filter(func(v int) bool { return boom(v) > 0 })
	},
	"flatmap": func(p *flow.Pipeline) flow.Stream[int] {
		return in(p, "in").FlatMap(func(v int, emit func(int)) { emit(boom(v)) })
	},
	"tryflatmap": func(p *flow.Pipeline) flow.Stream[int] {
		return in(p, "in").TryFlatMap(func(v int, emit func(int)) error { emit(boom(v)); return nil })
	},
	"flatmapseq": func(p *flow.Pipeline) flow.Stream[int] {
		return in(p, "in").FlatMapSeq(func(v int) iter.Seq[int] { return func(yield func(int) bool) { yield(boom(v)) } })
	},
	"peek":    func(p *flow.Pipeline) flow.Stream[int] { return in(p, "in").Peek(func(v int) { boom(v) }) },
	"process": func(p *flow.Pipeline) flow.Stream[int] { return in(p, "in").Process(func() plain { return plain{} }) },
	"async": func(p *flow.Pipeline) flow.Stream[int] {
		return in(p, "in").AsyncMap(func(_ context.Context, v int) (int, error) { return boom(v), nil })
	},
	"reduce": func(p *flow.Pipeline) flow.Stream[int] {
		return in(p, "in").KeyBy(func(int) int { return 0 }).Reduce(func(a, b int) int { boom(b); return b })
	},
	"fold": func(p *flow.Pipeline) flow.Stream[int] {
		return in(p, "in").KeyBy(self).Fold(func() int { return 0 }, func(a, v int) int { return boom(v) }).ID("it").Map(func(kv flow.KV[int, int]) int { return kv.Value })
	},
	"sum": func(p *flow.Pipeline) flow.Stream[int] {
		return flow.Sum(in(p, "in").KeyBy(self), boom).ID("it").Map(func(kv flow.KV[int, int]) int { return kv.Value })
	},
	"sort": func(p *flow.Pipeline) flow.Stream[int] { return flow.SortBy(in(p, "in"), boom) },
	"top": func(p *flow.Pipeline) flow.Stream[int] {
		return flow.TopN(in(p, "in"), 2, func(a, b int) int { boom(a); boom(b); return cmp.Compare(a, b) }).ID("it").Map(func(r flow.Ranked[int]) int { return r.Value })
	},
	"top by key": func(p *flow.Pipeline) flow.Stream[int] {
		k := in(p, "in").KeyBy(func(int) int { return 0 })
		return values(flow.TopNByKey(k, 2, func(a, b int) int { boom(a); boom(b); return cmp.Compare(a, b) }).ID("it"))
	},
	"max": func(p *flow.Pipeline) flow.Stream[int] {
		return flow.Max(in(p, "in").KeyBy(self), boom).ID("it").Map(func(kv flow.KV[int, int]) int { return kv.Value })
	},
	"count": func(p *flow.Pipeline) flow.Stream[int] {
		return in(p, "in").KeyBy(boom).Count().ID("it").Map(func(kv flow.KV[int, int64]) int { return kv.Key })
	},
	"key": func(p *flow.Pipeline) flow.Stream[int] {
		return in(p, "in").KeyBy(boom).Process(func() *panicky { return &panicky{} })
	},
	"mapwith open": func(p *flow.Pipeline) flow.Stream[int] {
		return in(p, "in").MapWith(func(*flow.Task) (func(int) (int, error), error) { boom(7); return nil, nil })
	},
	"timers": func(p *flow.Pipeline) flow.Stream[int] { return process(p, "timers") },
	"clock": func(p *flow.Pipeline) flow.Stream[int] {
		return waits(p, "in").KeyBy(self).Process(func() *panicky { return &panicky{when: "clock"} })
	},
	"load": func(p *flow.Pipeline) flow.Stream[int] {
		return in(p, "other").KeyBy(self).Bootstrap(in(p, "in").KeyBy(self), func() *panicky { return &panicky{when: "load"} })
	},
	"loaded": func(p *flow.Pipeline) flow.Stream[int] {
		return in(p, "other").KeyBy(self).Bootstrap(in(p, "in").KeyBy(self), func() *panicky { return &panicky{when: "record"} })
	},
	"left join": func(p *flow.Pipeline) flow.Stream[int] {
		a, b := pairs(p)
		return a.LeftJoin(b, func(v int, _ flow.Opt[int], emit func(int)) { emit(boom(v)) })
	},
	"full join": func(p *flow.Pipeline) flow.Stream[int] {
		a, b := pairs(p)
		return a.FullJoin(b, func(v, _ flow.Opt[int], emit func(int)) { emit(boom(v.Or(0))) })
	},
	"sliding window": func(p *flow.Pipeline) flow.Stream[int] {
		w := in(p, "in").KeyBy(self).Window(flow.Sliding(5*time.Microsecond, 5*time.Microsecond))
		return w.ReduceTo(func(a, b int) int { return a }, func(w flow.Win[int], v int) int { return boom(v) })
	},
	"sessions": func(p *flow.Pipeline) flow.Stream[int] {
		w := in(p, "in").KeyBy(func(int) int { return 0 }).Window(flow.Session(time.Microsecond))
		return w.Reduce(func(a, b int) int { boom(b); return b })
	},
	"trigger at the end": func(p *flow.Pipeline) flow.Stream[int] {
		return window(p).Trigger(trapped{atEnd: true}).Count().ID("it").Map(func(w flow.Windowed[int, int64]) int { return int(w.Value) })
	},
	"keyed process":     func(p *flow.Pipeline) flow.Stream[int] { return process(p, "record") },
	"timer":             func(p *flow.Pipeline) flow.Stream[int] { return process(p, "timer") },
	"start":             func(p *flow.Pipeline) flow.Stream[int] { return process(p, "start") },
	"end":               func(p *flow.Pipeline) flow.Stream[int] { return process(p, "end") },
	"function of state": func(p *flow.Pipeline) flow.Stream[int] { return process(p, "reducing") },
	"state": func(p *flow.Pipeline) flow.Stream[int] {
		return in(p, "in").KeyBy(self).MapWithState("n", func(_ *flow.Cell[int, int], v int, emit func(int)) error { emit(boom(v)); return nil })
	},
	"window": func(p *flow.Pipeline) flow.Stream[int] {
		return window(p).Fold(func() int { return 0 }, func(_, v int) int { return boom(v) }, func(a, b int) int { return a }).ID("it").
			Map(func(w flow.Windowed[int, int]) int { return w.Value })
	},
	"window result": func(p *flow.Pipeline) flow.Stream[int] {
		return window(p).ReduceTo(func(a, b int) int { return a }, func(w flow.Win[int], v int) int { return boom(v) })
	},
	"window apply": func(p *flow.Pipeline) flow.Stream[int] {
		return window(p).Apply(func(w flow.Win[int], vs iter.Seq[int], emit func(int)) error {
			for v := range vs {
				emit(boom(v))
			}
			return nil
		})
	},
	"trigger": func(p *flow.Pipeline) flow.Stream[int] {
		return window(p).Trigger(trapped{}).Count().ID("it").Map(func(w flow.Windowed[int, int64]) int { return int(w.Value) })
	},
	"connect": func(p *flow.Pipeline) flow.Stream[int] {
		a, b := pairs(p)
		return a.Connect(b).Process(func() *panicky { return &panicky{} })
	},
	"broadcast": func(p *flow.Pipeline) flow.Stream[int] {
		return in(p, "other").KeyBy(self).ConnectBroadcast(in(p, "in")).Process(func() ruled { return ruled{} })
	},
	"join": func(p *flow.Pipeline) flow.Stream[int] { a, b := pairs(p); return a.Join(b, bang) },
	"interval join": func(p *flow.Pipeline) flow.Stream[int] {
		a, b := pairs(p)
		return a.IntervalJoin(b, 0, time.Second, bang)
	},
	"window join": func(p *flow.Pipeline) flow.Stream[int] {
		a, b := pairs(p)
		return a.WindowJoin(b, flow.Tumbling(time.Second), bang)
	},
	"latest": func(p *flow.Pipeline) flow.Stream[int] {
		a, b := pairs(p)
		return a.JoinLatest(b, func(v int, _ flow.Opt[int], emit func(int)) { emit(boom(v)) })
	},
	"cogroup": func(p *flow.Pipeline) flow.Stream[int] {
		a, b := pairs(p)
		return a.CoGroup(b, flow.Session(time.Microsecond), func(_ flow.Win[int], as, bs iter.Seq[int], emit func(int)) error {
			for v := range as {
				emit(boom(v))
			}
			return nil
		})
	},
	"partitioner": func(p *flow.Pipeline) flow.Stream[int] {
		return in(p, "in").PartitionBy(func(v, n int) int { boom(v); return 0 }).Map(self)
	},
	"event time": func(p *flow.Pipeline) flow.Stream[int] {
		return p.From("it", flow.Values(numbers(20)...), flow.EventTime(func(v int) flow.Time { return at(boom(v)) })).Map(self).ID("next")
	},
	"watermarks": func(p *flow.Pipeline) flow.Stream[int] {
		return p.From("it", flow.Values(numbers(20)...), flow.EventTimeBy(at, func() flow.WatermarkGenerator[int] { return meter{} })).Map(self).ID("next")
	},
	"source": func(p *flow.Pipeline) flow.Stream[int] {
		return p.From("it", flow.PollAll(0, func(_ context.Context, off int) ([]int, int, error) {
			if off == 20 {
				return nil, off, io.EOF
			}
			return []int{boom(off)}, off + 1, nil
		})).Map(self).ID("next")
	},
}

// inner are the kinds whose function belongs to a part of the operator that is named.
var inner = map[string]string{"sort": "it.sample", "top": "it.local"}

// occasional are the kinds that panic outside of any record, with what they were about.
var occasional = map[string]string{
	"timer": "timer t of it at 1970-01-01T00:00:00.000007Z, key 7", "timers": "timer ts of it at 1970-01-01T00:00:00.000007Z, key 7",
	"clock": "timer c of it, key 7", "end": "the end of the input of it, key 7", "start": "while the operator was opened",
	"window result": fifth, "window apply": fifth, "sliding window": fifth, "trigger at the end": fifth,
	"window join": "window [1970-01-01T00:00:00Z, 1970-01-01T00:00:01Z) of it, key 7",
	"cogroup":     "window [1970-01-01T00:00:00.000007Z, 1970-01-01T00:00:00.000008Z) of it, key 7",
	"top":         "the end of the input", "mapwith open": "while the operator was opened", "source": "", "join": "", "function of state": "record",
}

const fifth = "window [1970-01-01T00:00:00.000005Z, 1970-01-01T00:00:00.00001Z) of it, key 7"

// named are the kinds that give the id themselves, because something follows.
var named = []string{"fold", "sum", "max", "top", "top by key", "count", "window", "trigger", "trigger at the end"}

func TestAPanicNamesOperatorRecordAndStackOnEveryAttempt(t *testing.T) {
	for name, operator := range operators {
		t.Run(name, func(t *testing.T) {
			err := try(t, func(p *flow.Pipeline) {
				s := operator(p)
				if name != "event time" && name != "watermarks" && name != "source" && !slices.Contains(named, name) {
					s = s.ID("it")
				}
				s.To("out", drop[int]())
			}, flowtest.Setting("restart", "fixed(2,1ms)"), flowtest.Setting("parallelism", "1"))
			if err.Code != "E051" || err.Operator != cmp.Or(inner[name], "it") || !strings.Contains(err.Message, "boom") {
				t.Errorf("%s in %q: %s", err.Code, err.Operator, err.Message)
			}
			if !strings.Contains(err.Stack, "badinput/panics_test.go") {
				t.Errorf("the stack is\n%s", err.Stack)
			}
			occasion, outside := occasional[name]
			if outside && !strings.Contains(err.Position, occasion) || !outside && !strings.ContainsAny(err.Position, "78") {
				t.Errorf("the position is %q", err.Position)
			}
			if err.Restarts != 2 || err.Position != "" && (err.Repeated != 3 || !strings.Contains(err.Error(), "same record on every attempt")) {
				t.Errorf("%d restarts, repeated %d: %v", err.Restarts, err.Repeated, err)
			}
		})
	}
}

// A sink that panics fails like one that returns an error.
func TestAPanicOfASinkNamesIt(t *testing.T) {
	err := try(t, func(p *flow.Pipeline) {
		in(p, "in").To("it", flow.SinkFunc(func(_ context.Context, vs []int) error {
			for _, v := range vs {
				boom(v)
			}
			return nil
		}))
	})
	if err.Code != "E051" || err.Operator != "it" || !strings.Contains(fmt.Sprint(err.Message, err.Stack), "panics_test.go") {
		t.Errorf("%+v", err)
	}
}
