package badinput

import (
	"fmt"
	"iter"
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/flowtest"
)

// extremes are times that records may have by mistake, or on purpose, in order.
func extremes() []flow.Time {
	return []flow.Time{
		flow.MinTime, flow.MinTime + 1, flow.MinTime + 7, flow.MinTime + 59_000_000, flow.MinTime + 61_000_000, flow.MinTime + 200_000_000,
		flow.At(time.Time{}), -60_000_001, -60_000_000, -1, 0, 1, 59_999_999, 60_000_000,
		flow.At(time.Date(2026, 12, 2, 18, 0, 0, 0, time.UTC)), flow.At(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)),
		flow.MaxTime - 200_000_000, flow.MaxTime - 61_000_000, flow.MaxTime - 59_000_000, flow.MaxTime - 7, flow.MaxTime - 1, flow.MaxTime,
	}
}

// span is a window of the model.
type span struct{ start, end flow.Time }

// inTime is v, or the limit of time that it exceeds.
func inTime(v *big.Int) flow.Time {
	switch {
	case v.Cmp(big.NewInt(math.MinInt64)) < 0:
		return flow.MinTime
	case v.Cmp(big.NewInt(math.MaxInt64)) > 0:
		return flow.MaxTime
	}
	return flow.Time(v.Int64())
}

// inWindow is the time that decides about the windows of a record: the limits of time are in none.
func inWindow(t flow.Time) flow.Time { return max(flow.MinTime+1, min(t, flow.MaxTime-1)) }

// slidingSpans are the windows of t, by numbers without limits: those that reach beyond a limit of time are cut there; of those
// that begin before it there is the last one, of those that end behind it the first one.
func slidingSpans(t flow.Time, size, slide, offset time.Duration) (all []span) {
	at := big.NewInt(int64(inWindow(t)))
	width, step := big.NewInt(size.Microseconds()), big.NewInt(slide.Microseconds())
	start := new(big.Int).Sub(at, big.NewInt(offset.Microseconds()))
	start.Sub(start, new(big.Int).Mod(start, step)).Add(start, big.NewInt(offset.Microseconds()))
	for {
		end := new(big.Int).Add(start, width)
		if end.Cmp(at) <= 0 {
			return all
		}
		if end.Cmp(big.NewInt(math.MaxInt64)) >= 0 { // an older one may end there too
			all = all[:0]
		}
		all = append(all, span{inTime(start), inTime(end)})
		if start.Cmp(big.NewInt(math.MinInt64)) < 0 {
			return all
		}
		start = new(big.Int).Sub(start, step)
	}
}

// sessionSpans are the sessions of sorted times.
func sessionSpans(ts []flow.Time, gap time.Duration) map[span]int {
	all := map[span]int{}
	var cur span
	n := 0
	for i, t := range ts {
		at := inWindow(t)
		end := inTime(new(big.Int).Add(big.NewInt(int64(at)), big.NewInt(gap.Microseconds())))
		if i == 0 || at > cur.end {
			if i > 0 {
				all[cur] = n
			}
			cur, n = span{start: at}, 0
		}
		cur.end, n = end, n+1
	}
	all[cur] = n
	return all
}

// counting is what the job says for a kind of windows: how many records are in each.
type counting func(w flow.WindowedStream[int, flow.Time]) flow.Stream[string]

// ways are operators of every kind: by tables per window, by panes, by windows of keys; aggregating and listing.
var ways = map[string]counting{
	"count": func(w flow.WindowedStream[int, flow.Time]) flow.Stream[string] {
		return w.Count().Map(func(c flow.Windowed[int, int64]) string { return spanOf(c.Window, c.Value) })
	},
	"apply": func(w flow.WindowedStream[int, flow.Time]) flow.Stream[string] {
		return w.Apply(func(w flow.Win[int], vs iter.Seq[flow.Time], emit func(string)) error {
			emit(spanOf(w.Window, int64(len(slices.Collect(vs)))))
			return nil
		})
	},
	"late": func(w flow.WindowedStream[int, flow.Time]) flow.Stream[string] {
		return w.AllowedLateness(math.MaxInt64).Count().Map(func(c flow.Windowed[int, int64]) string { return spanOf(c.Window, c.Value) })
	},
	"trigger": func(w flow.WindowedStream[int, flow.Time]) flow.Stream[string] {
		return w.EarlyEvery(math.MaxInt64).Count().Map(func(c flow.Windowed[int, int64]) string { return spanOf(c.Window, c.Value) })
	},
	"trigger apply": func(w flow.WindowedStream[int, flow.Time]) flow.Stream[string] {
		return w.EarlyEvery(time.Hour).AllowedLateness(time.Hour).Apply(func(w flow.Win[int], vs iter.Seq[flow.Time], emit func(string)) error {
			emit(spanOf(w.Window, int64(len(slices.Collect(vs)))))
			return nil
		})
	},
}

func spanOf(w flow.Window, n int64) string { return fmt.Sprintf("[%d,%d) %d", w.Start, w.End, n) }

func TestNoTimeOverflowsAWindow(t *testing.T) {
	sliding := func(size, slide, offset time.Duration) (flow.WindowSpec, func([]flow.Time) map[span]int) {
		return flow.Sliding(size, slide).Offset(offset), func(ts []flow.Time) map[span]int {
			all := map[span]int{}
			for _, at := range ts {
				for _, s := range slidingSpans(at, size, slide, offset) {
					all[s]++
				}
			}
			return all
		}
	}
	type kind struct {
		name string
		spec flow.WindowSpec
		want func([]flow.Time) map[span]int
	}
	var kinds []kind
	for _, d := range [][3]time.Duration{
		{time.Minute, time.Minute, 0}, {time.Minute, time.Minute, -7 * time.Second}, {time.Minute, 20 * time.Second, 0}, {time.Minute, 25 * time.Second, 3 * time.Second},
		{time.Minute, 90 * time.Second, time.Second}, {math.MaxInt64, math.MaxInt64, 0}, {time.Microsecond, time.Microsecond, 0}, {math.MaxInt64, math.MaxInt64 / 3, math.MinInt64},
	} {
		spec, want := sliding(d[0], d[1], d[2])
		kinds = append(kinds, kind{spec.String(), spec, want})
		if d[0] == d[1] {
			kinds = append(kinds, kind{"tumbling " + d[0].String() + " " + d[2].String(), flow.Tumbling(d[0]).Offset(d[2]), want})
		}
	}
	for _, gap := range []time.Duration{time.Microsecond, time.Minute, math.MaxInt64} {
		kinds = append(kinds, kind{"session " + gap.String(), flow.Session(gap), func(ts []flow.Time) map[span]int { return sessionSpans(ts, gap) }})
	}
	kinds = append(kinds, kind{"global", flow.GlobalWindow(), func(ts []flow.Time) map[span]int { return map[span]int{{flow.MinTime, flow.MaxTime}: len(ts)} }})
	for _, k := range kinds {
		for way, count := range ways {
			t.Run(k.name+"/"+way, func(t *testing.T) {
				ts := extremes()
				out := flowtest.Sink[string]("out")
				flowtest.Run(t, &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
					s := p.From("times", flow.Values(ts...), flow.EventTime(func(at flow.Time) flow.Time { return at }, flow.EveryRecord()))
					count(s.Parallelism(1).KeyBy(func(flow.Time) int { return 1 }).Window(k.spec)).To("out", drop[string]())
					return nil
				}, out, flowtest.Setting("mode", "streaming"))
				var want []string
				for s, n := range k.want(ts) {
					want = append(want, spanOf(flow.Window{Start: s.start, End: s.end}, int64(n)))
				}
				slices.Sort(want)
				if got := slices.Sorted(slices.Values(out.Values())); !slices.Equal(got, want) {
					t.Errorf("windows\n%q, want\n%q", got, want)
				}
			})
		}
	}
}

// stamp is a record of the one key there is.
type stamp struct{ At flow.Time }

func stamped(p *flow.Pipeline, id string) flow.KeyedStream[int, stamp] {
	var vs []stamp
	for _, at := range extremes() {
		vs = append(vs, stamp{at})
	}
	return p.From(id, flow.Values(vs...), flow.EventTime(func(v stamp) flow.Time { return v.At }, flow.EveryRecord())).Parallelism(1).
		KeyBy(func(stamp) int { return 1 })
}

func TestNoTimeOverflowsAnIntervalJoin(t *testing.T) {
	for _, limits := range [][2]time.Duration{
		{0, 0}, {-time.Microsecond, time.Microsecond}, {-time.Minute, time.Minute}, {time.Minute, 3 * time.Minute}, {-time.Hour, -time.Microsecond},
		{math.MinInt64, math.MaxInt64}, {math.MinInt64, math.MinInt64}, {math.MaxInt64, math.MaxInt64}, {math.MinInt64, 0}, {0, math.MaxInt64},
	} {
		t.Run(fmt.Sprint(limits), func(t *testing.T) {
			out := flowtest.Sink[string]("out")
			run(t, func(p *flow.Pipeline) {
				stamped(p, "a").IntervalJoin(stamped(p, "b"), limits[0], limits[1], func(a, b stamp, emit func(string)) {
					emit(fmt.Sprintf("%d %d", a.At, b.At))
				}).To("out", drop[string]())
			}, out, flowtest.Setting("mode", "streaming"))
			var want []string
			lower, upper := big.NewInt(limits[0].Microseconds()), big.NewInt(limits[1].Microseconds())
			for _, a := range extremes() {
				for _, b := range extremes() {
					apart := new(big.Int).Sub(big.NewInt(int64(b)), big.NewInt(int64(a)))
					if apart.Cmp(lower) >= 0 && apart.Cmp(upper) <= 0 {
						want = append(want, fmt.Sprintf("%d %d", a, b))
					}
				}
			}
			slices.Sort(want)
			if got := slices.Sorted(slices.Values(out.Values())); !slices.Equal(got, want) {
				t.Errorf("pairs\n%q, want\n%q", got, want)
			}
		})
	}
}

// reminded sets timers for the times of records, and one by the clock that is long over, or will never be.
type reminded struct {
	one   flow.EventTimer
	many  flow.EventTimers
	clock flow.ProcTimer
}

func (r *reminded) Open(set *flow.Setup[int, string]) error {
	r.one = set.EventTimer("one", func(c *flow.Ctx[int, string], at flow.Time) error {
		c.EmitAt(fmt.Sprintf("one %d", at), flow.MinTime)
		return nil
	})
	r.many = set.EventTimers("many", func(c *flow.Ctx[int, string], at flow.Time) error {
		if c.Timestamp() != at {
			return fmt.Errorf("%v at %v", at, c.Timestamp())
		}
		c.EmitAt(fmt.Sprintf("many %d", at), flow.MaxTime)
		return nil
	})
	r.clock = set.ProcTimer("clock", func(*flow.Ctx[int, string], time.Time) error { return nil })
	return nil
}

func (r *reminded) Process(c *flow.Ctx[int, string], v stamp) error {
	r.one.Set(v.At)
	r.many.Add(v.At)
	for _, at := range []time.Time{{}, time.Unix(math.MaxInt64, 0), time.Unix(math.MinInt64, 0), v.At.Std()} {
		r.clock.Set(at)
	}
	for _, d := range []time.Duration{math.MinInt64, -1, 0, math.MaxInt64} {
		r.clock.SetIn(d)
	}
	return nil
}

// A set of timers has one for each time; a single one has the last that was set, whatever that was.
func TestNoTimeOverflowsATimer(t *testing.T) {
	for _, mode := range []string{"streaming", "batch"} {
		t.Run(mode, func(t *testing.T) {
			var last []string
			out := flowtest.Sink[string]("out")
			run(t, func(p *flow.Pipeline) {
				stamped(p, "in").Process(func() *reminded { return &reminded{} }).To("out", drop[string]())
			}, out, flowtest.Setting("mode", mode))
			var want, got []string
			for _, at := range extremes() {
				want = append(want, fmt.Sprintf("many %d", at))
			}
			for _, v := range out.Values() {
				if v[0] == 'm' {
					got = append(got, v)
				} else {
					last = append(last, v)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("timers\n%q, want\n%q", got, want)
			}
			if len(last) == 0 || last[len(last)-1] != fmt.Sprintf("one %d", flow.MaxTime) {
				t.Errorf("the single timer came up as %q", last)
			}
		})
	}
}
