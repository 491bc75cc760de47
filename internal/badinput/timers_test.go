package badinput

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/flowtest"
)

const minute = flow.Time(60_000_000)

// visit is a record of a key.
type visit struct {
	Key int
	At  flow.Time
}

func (v visit) Time() flow.Time { return v.At }
func (v visit) Of() int         { return v.Key }

// ticking emits at every full minute since the first record of a key, for ever.
type ticking struct {
	tick flow.EventTimer
	also flow.EventTimers
	many bool
}

func (k *ticking) Open(set *flow.Setup[int, string]) error {
	k.tick = set.EventTimer("tick", func(c *flow.Ctx[int, string], at flow.Time) error {
		c.Emit(fmt.Sprintf("%d at %d", c.Key(), at/minute))
		k.tick.Set(at + minute)
		return nil
	})
	k.also = set.EventTimers("also", func(c *flow.Ctx[int, string], at flow.Time) error {
		c.Emit(fmt.Sprintf("%d at %d", c.Key(), at/minute))
		k.also.Add(at + minute)
		return nil
	})
	return nil
}

func (k *ticking) Process(_ *flow.Ctx[int, string], v visit) error {
	switch _, ok := k.tick.At(); {
	case k.many && k.also.Len() == 0:
		k.also.Add(v.At/minute*minute + minute)
	case !k.many && !ok:
		k.tick.Set(v.At/minute*minute + minute)
	}
	return nil
}

// A timer that sets itself again ends with its input: it comes up for all times of records, and once more. How far the watermark
// had come before the end does not matter, nor who has had the newest record. Where the input is stored first, the end is all that
// there is, and it comes up once.
func TestATimerThatSetsItselfAgainEndsWithItsInput(t *testing.T) {
	for _, many := range []bool{false, true} {
		job := func(p *flow.Pipeline, _ *flow.NoConfig) error {
			p.From("visits", flow.Values[visit](), flow.EventTime(visit.Time, flow.OutOfOrder(5*time.Minute))).
				KeyBy(visit.Of).Process(func() *ticking { return &ticking{many: many} }).ID("ticking").To("ticks", drop[string]())
			return nil
		}
		visits := []visit{{1, 0}, {2, 3*minute + 7}, {3, 1}, {1, 5 * minute}, {4, 10 * minute}, {5, 9 * minute}}
		var want []string
		for key, from := range map[int]int{1: 1, 2: 4, 3: 1, 4: 11, 5: 10} {
			for m := from; m <= 11; m++ {
				want = append(want, fmt.Sprintf("%d at %d", key, m))
			}
		}
		slices.Sort(want)
		wants := map[string][]string{"streaming": want, "batch": {"1 at 1", "2 at 4", "3 at 1", "4 at 11", "5 at 10"}}
		for _, parallelism := range []string{"1", "2", "5"} {
			for _, mode := range []string{"streaming", "batch"} {
				ticks := flowtest.Sink[string]("ticks")
				flowtest.Run(t, &flow.NoConfig{}, job, flowtest.Source("visits", visits...), ticks, flowtest.Setting("parallelism", parallelism), flowtest.Setting("mode", mode))
				if got := slices.Sorted(slices.Values(ticks.Values())); !slices.Equal(got, wants[mode]) {
					t.Errorf("parallelism %s, mode %s: got %q, want %q", parallelism, mode, got, wants[mode])
				}
			}
		}
		flowtest.Deterministic(t, &flow.NoConfig{}, job, flowtest.Sink[string]("ticks"), flowtest.Disordered("visits", visit.Time, 5*time.Minute, visits...), flowtest.Setting("mode", "streaming"))
	}
}

// stubborn sets its timers for a time that has come.
type stubborn struct {
	back  flow.Time // behind the time of the call
	timer flow.EventTimer
}

func (s *stubborn) Open(set *flow.Setup[int, string]) error {
	s.timer = set.EventTimer("stubborn", func(_ *flow.Ctx[int, string], at flow.Time) error {
		s.timer.Set(at - s.back)
		return nil
	})
	return nil
}
func (s *stubborn) Process(_ *flow.Ctx[int, string], v visit) error { s.timer.Set(v.At); return nil }

func TestATimerThatNeverLeavesItsTimeFailsTheAttempt(t *testing.T) {
	for _, back := range []flow.Time{0, 1, minute} {
		err := try(t, func(p *flow.Pipeline) {
			p.From("visits", flow.Values(visit{1, 1}, visit{1, 2}, visit{1, 3}), flow.EventTime(visit.Time, flow.EveryRecord())).
				KeyBy(visit.Of).Process(func() *stubborn { return &stubborn{back: back} }).ID("it").To("out", drop[string]())
		}, flowtest.Setting("mode", "streaming"))
		if err.Code != "E050" || err.Operator != "it" || !strings.Contains(err.Message, "again and again") {
			t.Errorf("%d back: %+v", back, err)
		}
	}
}

// hasty sets its timer by the clock for a time that has passed.
type hasty struct{ timer flow.ProcTimer }

func (h *hasty) Open(set *flow.Setup[int, string]) error {
	h.timer = set.ProcTimer("hasty", func(c *flow.Ctx[int, string], _ time.Time) error {
		c.Emit("called")
		h.timer.SetIn(-time.Hour)
		return nil
	})
	return nil
}
func (h *hasty) Process(c *flow.Ctx[int, string], v visit) error {
	c.Emit("record")
	h.timer.SetIn(-time.Second) // at once
	return nil
}

func TestATimerByTheClockThatIsAlwaysDueLeavesTimeForRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := flowtest.Job(t, &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
			p.From("visits", flow.Values[visit]()).KeyBy(visit.Of).Process(func() *hasty { return &hasty{} }).ID("it").Parallelism(1).To("out", drop[string]())
			return nil
		}, flowtest.Setting("mode", "streaming"))
		j.Push("visits", visit{1, 1}, 1)
		j.Advance(50 * time.Millisecond)
		if got := j.Collect[string]("out"); len(got) < 10 || len(got) > 60 || !slices.Contains(got, "record") {
			t.Errorf("%d results: %q", len(got), got) // in any order: there are several subtasks of the sink
		}
		j.Push("visits", visit{1, 2}, 2)
		j.Settle()
		if got := j.Collect[string]("out"); !slices.Contains(got, "record") {
			t.Error("no record passes")
		}
		j.Done()
	})
}

// rule is a trigger made of functions.
type rule struct {
	onElement func(c *flow.TriggerCtx, w flow.Win[int]) flow.Fire
	onEvent   func(c *flow.TriggerCtx, w flow.Win[int], at flow.Time) flow.Fire
}

func (r rule) OnElement(c *flow.TriggerCtx, w flow.Win[int], _ visit) flow.Fire {
	if r.onElement == nil {
		return flow.Continue
	}
	return r.onElement(c, w)
}
func (r rule) OnEventTime(c *flow.TriggerCtx, w flow.Win[int], at flow.Time) flow.Fire {
	if r.onEvent == nil {
		return flow.Continue
	}
	return r.onEvent(c, w, at)
}
func (rule) OnProcTime(*flow.TriggerCtx, flow.Win[int], time.Time) flow.Fire { return flow.Continue }
func (rule) OnMerge(*flow.TriggerCtx, flow.Win[int], []int64)                {}

func triggered(t flow.Trigger[int, visit], w flow.WindowSpec) func(p *flow.Pipeline) {
	return func(p *flow.Pipeline) {
		p.From("visits", flow.Values(visit{1, 1}, visit{2, 2}, visit{1, 3 * minute}, visit{2, 2 * minute}, visit{1, 9 * minute}), flow.EventTime(visit.Time, flow.OutOfOrder(time.Minute))).
			KeyBy(visit.Of).Window(w).Trigger(t).Count().ID("it").
			Map(func(w flow.Windowed[int, int64]) string { return fmt.Sprintf("%d: %d", w.Key, w.Value) }).To("out", drop[string]())
	}
}

// Windows that never fire go with their end, and a global one with the job.
func TestATriggerThatNeverFiresEndsWithItsInput(t *testing.T) {
	for _, w := range []flow.WindowSpec{flow.Tumbling(time.Minute), flow.Sliding(3*time.Minute, time.Minute), flow.Session(time.Minute), flow.GlobalWindow(), flow.Tumbling(time.Hour).ProcessingTime()} {
		out := flowtest.Sink[string]("out")
		run(t, triggered(rule{}, w), out)
		if got := out.Values(); len(got) > 0 {
			t.Errorf("%v: %q", w, got)
		}
	}
}

func TestATriggerThatAlwaysWaitsAgainEndsWithItsInput(t *testing.T) {
	again := rule{
		onElement: func(c *flow.TriggerCtx, w flow.Win[int]) flow.Fire { c.SetEventTimer(w.Start); return flow.Continue },
		onEvent: func(c *flow.TriggerCtx, w flow.Win[int], at flow.Time) flow.Fire {
			c.SetEventTimer(at.Add(time.Minute))
			return flow.FireNow
		},
	}
	for _, w := range []flow.WindowSpec{flow.Tumbling(time.Hour), flow.Session(time.Minute), flow.GlobalWindow()} {
		out := flowtest.Sink[string]("out")
		run(t, triggered(again, w), out)
		if n := len(out.Values()); n == 0 || n > 1000 {
			t.Errorf("%v: %d results", w, n)
		}
	}
}

func TestATriggerThatNeverLeavesItsTimeFailsTheAttempt(t *testing.T) {
	stuck := rule{
		onElement: func(c *flow.TriggerCtx, w flow.Win[int]) flow.Fire { c.SetEventTimer(w.Start); return flow.Continue },
		onEvent: func(c *flow.TriggerCtx, w flow.Win[int], at flow.Time) flow.Fire {
			c.SetEventTimer(at)
			return flow.Continue
		},
	}
	err := try(t, triggered(stuck, flow.Tumbling(time.Hour)), flowtest.Setting("mode", "streaming"))
	if err.Code != "E050" || err.Operator != "it" || !strings.Contains(err.Message, "again and again") {
		t.Errorf("%+v", err)
	}
}

// promises says more than can be promised.
type promises struct{}

func (promises) OnRecord(visit, flow.Time) {}
func (promises) Watermark() flow.Time      { return flow.MaxTime }

// The end of time is that of the input: who promises it does not end anything, and what ends is told of it once.
func TestAWatermarkOfMaxTimeIsNotTheEnd(t *testing.T) {
	out := flowtest.Sink[string]("out")
	run(t, func(p *flow.Pipeline) {
		p.From("visits", flow.Values(visit{1, 1}, visit{1, 2}), flow.EventTimeBy(visit.Time, func() flow.WatermarkGenerator[visit] { return promises{} }, flow.EveryRecord())).
			KeyBy(visit.Of).Process(func() *noted { return &noted{} }).ID("it").To("out", drop[string]())
	}, out, flowtest.Setting("mode", "streaming"))
	if got := out.Values(); !slices.Equal(got, []string{"1", "2", "end 1"}) {
		t.Errorf("got %q", got)
	}
}

// noted emits the time of each record, and once at the end.
type noted struct{ n flow.ValueState[int] }

func (k *noted) Open(set *flow.Setup[int, string]) error {
	k.n = set.Value[int]("n")
	set.OnEnd(func(c *flow.Ctx[int, string]) error { c.Emit(fmt.Sprint("end ", c.Key())); return nil })
	return nil
}
func (k *noted) Process(c *flow.Ctx[int, string], v visit) error {
	k.n.Set(1)
	c.Emit(fmt.Sprint(int64(v.At)))
	return nil
}
