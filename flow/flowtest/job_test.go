package flowtest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceio/sluice/connector/generate"
	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/flowtest"
)

// perUser counts clicks per user and ten time units; those of a bot fail.
func perUser(p *flow.Pipeline, _ *flow.NoConfig) error {
	never := generate.Endless(func(i int64) (click, flow.Time) { return click{}, flow.Time(i) })
	counts := p.From("clicks", never, flow.EventTime(func(c click) flow.Time { return flow.Time(c.N) }, flow.OutOfOrder(time.Hour))).
		TryMap(func(c click) (click, error) {
			if c.User == "bot" {
				return c, errNegative
			}
			return c, nil
		}).ID("check").
		KeyBy(byUser).
		Window(flow.Tumbling(10 * time.Microsecond)).Count().ID("count")
	counts.To("counts", flowtest.Sink[flow.Windowed[string, int64]]("unused"))
	p.From("pings", never, flow.ProcessingTime[click]()).KeyBy(byUser).
		Window(flow.Tumbling(2*time.Second).ProcessingTime()).Count().ID("per-ping").
		To("pinged", flowtest.Sink[flow.Windowed[string, int64]]("unused"))
	return nil
}

func TestAJobIsDrivenRecordByRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := flowtest.Job(t, &flow.NoConfig{}, perUser)
		j.Push("clicks", click{"a", 3}, 0)
		j.Push("clicks", click{"a", 5}, 0)
		j.Push("clicks", click{"b", 12}, 0)
		j.Settle()
		if got := j.Collect[flow.Windowed[string, int64]]("counts"); len(got) != 0 {
			t.Errorf("before the watermark: %v", got)
		}
		j.Watermark("clicks", 9)
		j.Settle()
		if got := j.Collect[flow.Windowed[string, int64]]("counts"); len(got) != 1 || got[0].Key != "a" || got[0].Value != 2 {
			t.Errorf("at 9: %v", got)
		}
		j.Push("pings", click{"c", 0}, 0)
		j.Advance(3 * time.Second) // the window by the clock
		if got := j.Collect[flow.Windowed[string, int64]]("pinged"); len(got) != 1 || got[0].Key != "c" {
			t.Errorf("after three seconds: %v", got)
		}
		j.Done()
		if got := j.Collect[flow.Windowed[string, int64]]("counts"); len(got) != 1 || got[0].Key != "b" {
			t.Errorf("at the end: %v", got)
		}
	})
}

func TestAJobThatFailsSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := flowtest.Job(t, &flow.NoConfig{}, perUser)
		j.Push("clicks", click{"bot", 3}, 0)
		err := j.TryAdvance(time.Second)
		job, ok := errors.AsType[*flowtest.JobError](err)
		if !ok || job.Operator != "check" || !strings.Contains(job.Position, "item 0") {
			t.Errorf("error %v", err)
		}
	})
}

func TestAJobOutsideOfABubbleIsRefused(t *testing.T) {
	r := &recorder{TB: t}
	func() {
		defer func() { _ = recover() }()
		flowtest.Job(r, &flow.NoConfig{}, perUser)
	}()
	if !r.failed {
		t.Error("it runs by the clock of the machine")
	}
}

// merged says, for each query, which of the values of its key was the latest: with latest the last one to arrive.
func merged(latest bool) func(*flow.Pipeline, *flow.NoConfig) error {
	return func(p *flow.Pipeline, _ *flow.NoConfig) error {
		at := flow.EventTime(func(c click) flow.Time { return flow.Time(c.N) }, flow.OutOfOrder(time.Millisecond))
		a := p.From("a", flow.Values[click](), at).KeyBy(byUser)
		b := p.From("b", flow.Values[click](), at).KeyBy(byUser)
		p.SetMode(flow.ModeStreaming)
		if latest {
			a.JoinLatest(b, func(c click, o flow.Opt[click], emit func(string)) { emit(fmt.Sprint(c, o.Value)) }).ID("join").To("out", flowtest.Sink[string]("unused"))
			return nil
		}
		a.IntervalJoin(b, -20*time.Microsecond, 20*time.Microsecond, func(c, o click, emit func(string)) { emit(fmt.Sprint(c, o)) }).
			ID("join").To("out", flowtest.Sink[string]("unused"))
		return nil
	}
}

func someClicks() (all []click) {
	for i := range int64(60) {
		all = append(all, click{string(rune('a' + i%3)), 7 * i})
	}
	return all
}

func TestEveryOrderOfArrivalGivesTheSameAnswer(t *testing.T) {
	byTime := func(c click) flow.Time { return flow.Time(c.N) }
	out := flowtest.Sink[string]("out")
	flowtest.Deterministic(t, &flow.NoConfig{}, merged(false), out,
		flowtest.Disordered("a", byTime, time.Millisecond, someClicks()...), flowtest.Source("b", someClicks()...))
	if n := len(out.Values()); n < 60 {
		t.Errorf("%d pairs: the data shows nothing", n)
	}
}

func TestAnAnswerThatDependsOnTheOrderOfArrivalIsFoundWithItsSeed(t *testing.T) {
	run := func(opts ...flowtest.Option) error {
		out := flowtest.Sink[string]("out")
		return flowtest.SameAnswer(t, &flow.NoConfig{}, merged(true),
			append(opts, out, flowtest.Source("a", someClicks()...), flowtest.Source("b", someClicks()...)))
	}
	err := run()
	var n, again uint64
	if err == nil {
		t.Fatal("it was not found")
	}
	if _, scan := fmt.Sscanf(err.Error(), "seed %d (replay it with flowtest.Seed(%d))", &n, &again); scan != nil || n != again {
		t.Fatalf("no seed: %v", err)
	}
	if replayed := run(flowtest.Seed(n)); replayed == nil {
		t.Errorf("seed %d does not fail again", n)
	}
}

func TestDisorderIsBounded(t *testing.T) {
	for n := range uint64(50) {
		got := flowtest.Shuffled(n, func(c click) flow.Time { return flow.Time(c.N) }, 50*time.Microsecond, someClicks())
		newest := flow.Time(0)
		for _, c := range got {
			newest = max(newest, flow.Time(c.N))
			if flow.Time(c.N) < newest-50 {
				t.Fatalf("seed %d: %v is %d behind", n, c, newest-flow.Time(c.N))
			}
		}
		slices.SortFunc(got, func(a, b click) int { return int(a.N - b.N) })
		if !slices.Equal(got, someClicks()) {
			t.Fatalf("seed %d: other records", n)
		}
	}
}
