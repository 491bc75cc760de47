package window_test

import (
	"fmt"
	"iter"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	win "github.com/sluiceio/sluice/flow/window"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/operator/window"
	"github.com/sluiceio/sluice/worker/task"
)

// sessions is the operator for sessions with the trigger that windows have.
func sessions(spec win.Session, a window.Aggregation[int64, event, int64, refired]) task.StageOf[event, refired] {
	return window.Aggregated(window.Windows{Session: &spec}, window.AtEnd[int64, event](window.ByEvent), a)
}

// listed is the records of a window, as text.
func listed(lateness int64, by window.Timing) window.Gathering[int64, event, string] {
	return window.Gathering[int64, event, string]{
		Key: func(e event) int64 { return e.Key },
		Each: func(k int64, f window.Firing, vs iter.Seq[event], emit func(string)) error {
			first, again := "", ""
			for v := range vs {
				first += fmt.Sprint(v.N, " ")
			}
			for v := range vs {
				again += fmt.Sprint(v.N, " ")
			}
			if first != again {
				return fmt.Errorf("ranging a second time gives %s, not %s", again, first)
			}
			emit(fmt.Sprintf("%d [%d, %d) #%d: %s", k, f.Start, f.End, f.Pane, first))
			return nil
		},
		Lateness: element.Time(lateness),
		Timing:   by,
	}
}

// drawScript is a stream with disorder, late records, growing watermarks and a clock.
func drawScript(t *rapid.T) (script []operatortest.Event[event]) {
	for _, it := range drawItems(t) {
		switch {
		case it.Watermark:
			script = append(script, operatortest.Event[event]{Kind: operatortest.Mark, At: it.At})
		case it.Value.N == 1:
			script = append(script, operatortest.Event[event]{Kind: operatortest.Pass, Pass: time.Duration(it.Value.Key+1) * 5 * time.Microsecond})
		default:
			script = append(script, operatortest.Event[event]{Value: it.Value, At: it.At})
		}
	}
	return script
}

func byKey(e event) int64 { return e.Key }

func TestWindowsSurviveRestoresRewindsAndLackOfMemory(t *testing.T) {
	tumbling := win.Tumbling{Size: 20, Offset: 3}
	sliding := func(size, slide int64) win.Sliding {
		s, err := win.NewSliding(time.Duration(size)*time.Microsecond, time.Duration(slide)*time.Microsecond, 0)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	session := win.Session{Gap: 8}
	atEnd, early, count := window.AtEnd[int64, event], window.Early[int64, event], window.Count[int64, event](3)
	purging := window.Purging(window.Count[int64, event](2))
	const us = time.Microsecond
	for name, stage := range map[string]func(lateness int64, by window.Timing) task.StageOf[event, string]{
		"tumbling": func(l int64, by window.Timing) task.StageOf[event, string] {
			return window.Tumbling(tumbling, asText(l, by))
		},
		"sliding": func(l int64, by window.Timing) task.StageOf[event, string] {
			return window.Sliding(sliding(30, 6), asText(l, by))
		},
		"sliding, gaps": func(l int64, by window.Timing) task.StageOf[event, string] {
			return window.Sliding(sliding(4, 7), asText(l, by))
		},
		"gather": func(l int64, by window.Timing) task.StageOf[event, string] {
			return window.Gather(sliding(20, 10), listed(l, by))
		},
		"session": func(l int64, by window.Timing) task.StageOf[event, string] {
			return window.Aggregated(window.Windows{Session: &session}, atEnd(by), asText(l, by))
		},
		"session, listed": func(l int64, by window.Timing) task.StageOf[event, string] {
			return window.Gathered(window.Windows{Session: &session}, atEnd(by), listed(l, by))
		},
		"early": func(l int64, by window.Timing) task.StageOf[event, string] {
			return window.Aggregated(window.Windows{Tumbling: &tumbling}, early(by, 7*us), asText(l, by))
		},
		"early sessions": func(l int64, by window.Timing) task.StageOf[event, string] {
			return window.Gathered(window.Windows{Session: &session}, early(by, 7*us), listed(l, by))
		},
		"count": func(l int64, by window.Timing) task.StageOf[event, string] {
			s := sliding(20, 10)
			return window.Gathered(window.Windows{Sliding: &s}, count, listed(l, by))
		},
		"count of all time": func(l int64, by window.Timing) task.StageOf[event, string] {
			return window.Gathered(window.Windows{}, purging, listed(l, by))
		},
		"all time": func(l int64, by window.Timing) task.StageOf[event, string] {
			return window.Aggregated(window.Windows{}, atEnd(by), asText(l, by))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				lateness := rapid.SampledFrom([]int64{0, 15}).Draw(rt, "lateness_us")
				by := rapid.SampledFrom([]window.Timing{window.ByEvent, window.ByClock}).Draw(rt, "timing")
				script := drawScript(rt)
				operatortest.Survives(t, func() task.StageOf[event, string] { return stage(lateness, by) }, byKey, script)
			})
		})
	}
}

// asText sums, with an accumulator that is not flat.
func asText(lateness int64, by window.Timing) window.Aggregation[int64, event, []int64, string] {
	return window.Aggregation[int64, event, []int64, string]{
		Key: byKey,
		Add: func(acc *[]int64, e event) {
			if len(*acc) == 0 {
				*acc = make([]int64, 1, 4)
			}
			(*acc)[0] += e.N
		},
		Merge: func(a, b []int64) []int64 {
			if len(a) == 0 {
				return b
			}
			if len(b) > 0 {
				a[0] += b[0]
			}
			return a
		},
		Clone: func(a []int64) ([]int64, error) { return append([]int64(nil), a...), nil },
		Result: func(k int64, f window.Firing, acc *[]int64) string {
			return fmt.Sprintf("%d [%d, %d) #%d: %v", k, f.Start, f.End, f.Pane, *acc)
		},
		Lateness: element.Time(lateness),
		Timing:   by,
	}
}

// A trigger by the clock that waits again whenever it is called would never come to an end: no time passes behind the last record.
func TestTheEndOfTheInputEndsTriggersByTheClock(t *testing.T) {
	renew := window.Trigger[int64, event]{
		OnElement: func(c *window.TriggerCtx, _ window.Win[int64], _ event) window.Fire {
			c.SetProcTimer(c.Now() + 10)
			return window.Continue
		},
		OnEvent: func(*window.TriggerCtx, window.Win[int64], element.Time) window.Fire { return window.Continue },
		OnClock: func(c *window.TriggerCtx, _ window.Win[int64], at element.Time) window.Fire {
			c.SetProcTimer(at + 10)
			return window.FireNow
		},
		OnMerge: func(*window.TriggerCtx, window.Win[int64], []int64) {},
	}
	hour := win.Tumbling{Size: element.Time(time.Hour.Microseconds())}
	for name, c := range map[string]struct {
		windows window.Windows
		trigger window.Trigger[int64, event]
		fires   int
	}{
		"early, all time":    {window.Windows{}, window.Early[int64, event](window.ByClock, time.Minute), 1},
		"early, an hour":     {window.Windows{Tumbling: &hour}, window.Early[int64, event](window.ByClock, time.Minute), 2},
		"renewing, all time": {window.Windows{}, renew, 1},
		"renewing, an hour":  {window.Windows{Tumbling: &hour}, renew, 2},
	} {
		h := operatortest.New(t, window.Aggregated(c.windows, c.trigger, asText(0, window.ByClock)))
		h.Push(t, event{Key: 1, N: 1}, 5)
		h.End(t)
		if out := h.Out(); len(out) != c.fires {
			t.Errorf("%s: fired %d times at the end, want %d: %v", name, len(out), c.fires, out)
		}
	}
}
