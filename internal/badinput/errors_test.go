package badinput

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/flowtest"
)

var errOops = errors.New("oops")

// oops is boom with an error.
func oops(v int) error {
	if v == 7 {
		return errOops
	}
	return nil
}

// failing is a processor that returns an error at one of its occasions.
type failing struct {
	when  string
	timer flow.EventTimer
	many  flow.EventTimers
	clock flow.ProcTimer
	seen  flow.ValueState[int]
}

func (q *failing) Open(set *flow.Setup[int, int]) error {
	q.timer = set.EventTimer("t", func(_ *flow.Ctx[int, int], t flow.Time) error { return oops(int(t)) })
	q.many = set.EventTimers("ts", func(_ *flow.Ctx[int, int], t flow.Time) error { return oops(int(t)) })
	q.clock = set.ProcTimer("c", func(c *flow.Ctx[int, int], _ time.Time) error { return oops(c.Key()) })
	q.seen = set.Value[int]("seen")
	set.OnStart(func(*flow.Task) error {
		if q.when == "start" {
			return errOops
		}
		return nil
	})
	set.OnEnd(func(c *flow.Ctx[int, int]) error {
		if q.when == "end" {
			return oops(c.Key())
		}
		return nil
	})
	set.OnClose(func() error {
		if q.when == "close" {
			return errOops
		}
		if q.when == "close by a panic" {
			panic(errOops)
		}
		return nil
	})
	return nil
}

func (q *failing) Process(_ *flow.Ctx[int, int], v int) error {
	q.seen.Set(v)
	switch q.when {
	case "record":
		return oops(v)
	case "timer":
		q.timer.Set(at(v))
	case "timers":
		q.many.Add(at(v))
	case "clock":
		q.clock.SetIn(time.Millisecond)
	}
	return nil
}

func fails(p *flow.Pipeline, when string) flow.Stream[int] {
	return in(p, "in").KeyBy(self).Process(func() *failing { return &failing{when: when} })
}

// faulty are the functions that may return an error, with the place that the report of it has.
var faulty = map[string]struct {
	position string
	build    func(p *flow.Pipeline) flow.Stream[int]
}{
	"trymap": {"value 7", func(p *flow.Pipeline) flow.Stream[int] {
		return in(p, "in").TryMap(func(v int) (int, error) { return v, oops(v) })
	}},
	"async": {"value 7", func(p *flow.Pipeline) flow.Stream[int] {
		return in(p, "in").AsyncMap(func(_ context.Context, v int) (int, error) { return v, oops(v) })
	}},
	"mapwith open": {"while the operator was opened", func(p *flow.Pipeline) flow.Stream[int] {
		return in(p, "in").MapWith(func(*flow.Task) (func(int) (int, error), error) { return nil, errOops })
	}},
	"state": {"record 8 from subtask 0 of in", func(p *flow.Pipeline) flow.Stream[int] {
		return in(p, "in").KeyBy(self).MapWithState("n", func(_ *flow.Cell[int, int], v int, _ func(int)) error { return oops(v) })
	}},
	"record": {"record 8 from subtask 0 of in", func(p *flow.Pipeline) flow.Stream[int] { return fails(p, "record") }},
	"timer":  {occasional["timer"], func(p *flow.Pipeline) flow.Stream[int] { return fails(p, "timer") }},
	"timers": {occasional["timers"], func(p *flow.Pipeline) flow.Stream[int] { return fails(p, "timers") }},
	"clock": {occasional["clock"], func(p *flow.Pipeline) flow.Stream[int] {
		return waits(p, "in").KeyBy(self).Process(func() *failing { return &failing{when: "clock"} })
	}},
	"start": {"while the operator was opened", func(p *flow.Pipeline) flow.Stream[int] { return fails(p, "start") }},
	"end":   {occasional["end"], func(p *flow.Pipeline) flow.Stream[int] { return fails(p, "end") }},
	"apply": {fifth, func(p *flow.Pipeline) flow.Stream[int] {
		return window(p).Apply(func(w flow.Win[int], _ iter.Seq[int], _ func(int)) error { return oops(w.Key) })
	}},
	"late apply": {fifth, func(p *flow.Pipeline) flow.Stream[int] {
		return window(p).AllowedLateness(time.Second).Apply(func(w flow.Win[int], _ iter.Seq[int], _ func(int)) error { return oops(w.Key) })
	}},
	"early apply": {fifth, func(p *flow.Pipeline) flow.Stream[int] {
		return window(p).EarlyEvery(time.Hour).Apply(func(w flow.Win[int], _ iter.Seq[int], _ func(int)) error { return oops(w.Key) })
	}},
	"cogroup": {occasional["cogroup"], func(p *flow.Pipeline) flow.Stream[int] {
		a, b := pairs(p)
		return a.CoGroup(b, flow.Session(time.Microsecond), func(w flow.Win[int], _, _ iter.Seq[int], _ func(int)) error { return oops(w.Key) })
	}},
}

// Where a function fails that is called for no record, it is the call that the user has to find.
func TestAnErrorNamesOperatorAndPlaceOnEveryAttempt(t *testing.T) {
	for name, c := range faulty {
		t.Run(name, func(t *testing.T) {
			err := try(t, func(p *flow.Pipeline) {
				c.build(p).ID("it").To("out", drop[int]())
			}, flowtest.Setting("restart", "fixed(2,1ms)"), flowtest.Setting("parallelism", "1"))
			if err.Code != "E050" || err.Operator != "it" || err.Position != c.position || !strings.Contains(err.Message, "oops") {
				t.Errorf("%s in %q at %q: %s", err.Code, err.Operator, err.Position, err.Message)
			}
			if err.Restarts != 2 || err.Repeated != 3 {
				t.Errorf("%d restarts, repeated %d", err.Restarts, err.Repeated)
			}
		})
	}
}

// An operator behind one that works at an event fails with what that one did: it has got no record of an input.
func TestAFailureBehindAWindowNamesTheWindow(t *testing.T) {
	err := try(t, func(p *flow.Pipeline) {
		window(p).Count().ID("counts").TryMap(func(w flow.Windowed[int, int64]) (int, error) { return w.Key, oops(w.Key) }).ID("it").To("out", drop[int]())
	}, flowtest.Setting("parallelism", "1"))
	if want := strings.Replace(fifth, "of it", "of counts", 1); err.Operator != "it" || err.Position != want {
		t.Errorf("%q at %q, want %q", err.Operator, err.Position, want)
	}
}

// What a job has done is done, whatever its last words are.
func TestAJobWhoseProcessorFailsToCloseHasFinished(t *testing.T) {
	for _, when := range []string{"close", "close by a panic"} {
		t.Run(when, func(t *testing.T) {
			out := flowtest.Sink[int]("out")
			run(t, func(p *flow.Pipeline) {
				fails(p, when).ID("it").Union(in(p, "more")).To("out", drop[int]())
			}, out)
			if len(out.Values()) != 20 {
				t.Errorf("%d values", len(out.Values()))
			}
		})
	}
}
