package flow_test

import (
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/flowtest"
)

// sums says what a window has of both sides.
func sums(w flow.Win[int], as, bs iter.Seq[quote], emit func(string)) error {
	a, b := 0, 0
	for range 2 { // it may be ranged over again
		a, b = 0, 0
		for q := range as {
			a += q.N
		}
		for q := range bs {
			b += q.N
		}
	}
	emit(fmt.Sprint(w.Key, " ", int64(w.Start), " ", a, " ", b))
	return nil
}

func TestWindowsOfTwoStreamsMeet(t *testing.T) {
	const size = 20 * time.Millisecond
	left, right := quotes(60, 1), quotes(40, 2)
	type at struct{ key, start int64 }
	groups := map[at][2]int{}
	var pairs []string
	start := func(q quote) int64 { return int64(q.At) / size.Microseconds() * size.Microseconds() }
	for i, side := range [][]quote{left, right} {
		for _, q := range side {
			g := groups[at{int64(q.Key), start(q)}]
			g[i] += q.N
			groups[at{int64(q.Key), start(q)}] = g
		}
	}
	for _, l := range left {
		for _, r := range right {
			if l.Key == r.Key && start(l) == start(r) {
				pairs = append(pairs, fmt.Sprint(l.N, "+", r.N))
			}
		}
	}
	var want []string
	for g, n := range groups {
		want = append(want, fmt.Sprint(g.key, " ", g.start, " ", n[0], " ", n[1]))
	}
	slices.Sort(want)
	slices.Sort(pairs)
	everyWay(t, func(t *testing.T, opts ...flowtest.Option) {
		gotGroups, gotPairs, sessions := flowtest.Sink[string]("groups"), flowtest.Sink[string]("pairs"), flowtest.Sink[string]("sessions")
		flowtest.Run(t, &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
			l := p.From("left", flow.Values(left...), flow.EventTime(quote.Time)).KeyBy(quote.key)
			r := p.From("right", flow.Values(right...), flow.EventTime(quote.Time)).KeyBy(quote.key)
			l.CoGroup(r, flow.Tumbling(size), sums).ID("group").To("groups", drop[string]())
			l.WindowJoin(r, flow.Tumbling(size), both).ID("pair").To("pairs", drop[string]())
			l.CoGroup(r, flow.Session(time.Hour), sums).ID("session").To("sessions", drop[string]())
			return nil
		}, append(opts, gotGroups, gotPairs, sessions)...)
		if got := sortedStrings(gotGroups); !slices.Equal(got, want) {
			t.Errorf("groups %q, want %q", got, want)
		}
		if got := sortedStrings(gotPairs); !slices.Equal(got, pairs) {
			t.Errorf("pairs %q, want %q", got, pairs)
		}
		if got := sessions.Values(); len(got) != 5 {
			t.Errorf("sessions %q: one per key, because nothing pauses for an hour", got)
		}
	})
}

// marks promises what its stream says in so many words: the records with N below zero.
type marks struct{ said flow.Time }

func (m *marks) OnRecord(q quote, at flow.Time) {
	if q.N < 0 {
		m.said = at
	}
}

func (m *marks) Watermark() flow.Time { return m.said }

func TestPunctuatedStreamsMakeTheirOwnWatermarks(t *testing.T) {
	in := []quote{{N: 1, At: 50}, {N: 2, At: 10}, {N: -1, At: 20}, {N: 3, At: 15}, {N: 4, At: 30}}
	late, out := flowtest.Sink[quote]("late"), flowtest.Sink[string]("out")
	tag := flow.NewTag[quote]("late")
	flowtest.Run(t, &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
		counts := p.From("in", flow.Values(in...), flow.EventTimeBy(quote.Time, func() flow.WatermarkGenerator[quote] { return &marks{flow.MinTime} }, flow.EveryRecord())).
			Parallelism(1).
			KeyBy(quote.key).Window(flow.Tumbling(10 * time.Microsecond)).LateTo(tag).Count()
		counts.Map(func(w flow.Windowed[int, int64]) string { return fmt.Sprint(int64(w.Window.Start), " ", w.Value) }).To("out", drop[string]())
		counts.SideOutput(tag).To("late", drop[quote]())
		return nil
	}, out, late)
	if got := sortedStrings(out); !slices.Equal(got, []string{"10 1", "20 1", "30 1", "50 1"}) {
		t.Errorf("windows %q", got)
	}
	if got := late.Values(); len(got) != 1 || got[0].N != 3 {
		t.Errorf("late %v: only what came behind its mark is", got)
	}
}
