package task

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/task/chain"
	"github.com/sluiceio/sluice/worker/task/fault"
	"github.com/sluiceio/sluice/worker/task/mail"
)

// stepHead does what the test says, step by step. After the last step it has ended.
type stepHead struct {
	steps   []func(limit int) (chain.Progress, error)
	limits  []int
	wakes   []time.Time // answers of onTime: when it wants to be called; taken one by one
	called  []time.Time
	letters int
}

func (h *stepHead) Step(limit int) (chain.Progress, error) {
	h.limits = append(h.limits, limit)
	if len(h.steps) == 0 {
		return chain.Progress{State: chain.Ended}, nil
	}
	f := h.steps[0]
	h.steps = h.steps[1:]
	return f(limit)
}
func (h *stepHead) Assigned(*taskpb.AssignSplits) error { h.letters++; return nil }
func (h *stepHead) OnTime(now time.Time) (next time.Time, err error) {
	h.called = append(h.called, now)
	for len(h.wakes) > 0 && !h.wakes[0].After(now) {
		h.wakes = h.wakes[1:]
	}
	if len(h.wakes) > 0 {
		next = h.wakes[0]
	}
	return next, nil
}

func (h *stepHead) OnAligned(func(element.CheckpointID, time.Time) error)     {}
func (h *stepHead) Trigger(element.CheckpointID) error                        { return nil }
func (h *stepHead) Abort(element.CheckpointID)                                {}
func (h *stepHead) Completed(element.CheckpointID)                            {}
func (h *stepHead) Save(element.CheckpointID, *snapshotpb.SubtaskState) error { return nil }
func (h *stepHead) Restore() error                                            { return nil }

func (h *stepHead) Position() string         { return "here" }
func (h *stepHead) Close(error) error        { return nil }
func (h *stepHead) Clock(*taskpb.Clock)      {}
func (h *stepHead) Received() chain.Received { return chain.Received{} }

// tapOutlet notes when it was flushed, since the start of the test.
type tapOutlet struct {
	start   time.Time
	full    bool // something is pending
	credit  bool // flush can hand it over
	flushes []time.Duration
	wait    time.Duration
}

func (o *tapOutlet) Flush() error {
	if !o.full {
		return nil
	}
	o.flushes = append(o.flushes, time.Since(o.start))
	o.full = !o.credit
	return nil
}
func (o *tapOutlet) Broadcast(element.Event) error { return nil }
func (o *tapOutlet) Pending() bool                 { return o.full }
func (o *tapOutlet) Stats() chain.OutletStats      { return chain.OutletStats{Blocked: o.wait} }
func (o *tapOutlet) Close(error) error             { return nil }
func (o *tapOutlet) Partition() *jobpb.Partition   { return nil }

// looped runs the steps under fake time.
func looped(t *testing.T, timeout time.Duration, f func(h *stepHead, o *tapOutlet, l *loop)) {
	synctest.Test(t, func(t *testing.T) {
		cur := chain.NewCursor()
		o := &tapOutlet{start: time.Now(), credit: true}
		h := &stepHead{}
		c := chain.New(t.Context(), cur, []chain.Node{{ID: "out", Outlet: o, Size: 1}}, -1)
		m := newMeter()
		m.outlets = c.Outlets()
		l := newLoop(t.Context(), &wired{chain: c, head: h}, mail.New(), m, timeout)
		f(h, o, l)
		if err := l.run(); err != nil {
			t.Fatal(err)
		}
	})
}

// take is a step that handles n records in d and leaves them in the outlet.
func take(o *tapOutlet, n int, d time.Duration) func(int) (chain.Progress, error) {
	return func(int) (chain.Progress, error) {
		if d > 0 {
			<-time.After(d)
		}
		o.full = true
		return chain.Progress{Records: n}, nil
	}
}

const ms = time.Millisecond

func TestBuffersAreFlushedAfterTheTimeoutWhileRecordsKeepComing(t *testing.T) {
	var out *tapOutlet
	looped(t, 2*ms, func(h *stepHead, o *tapOutlet, _ *loop) {
		out = o
		for range 20 {
			h.steps = append(h.steps, take(o, 100, 3*ms/10))
		}
	})
	// 0.3 ms: first record; 2.3 ms: due, seen after the step. 2.7 ms: the next first record; 4.7 ms: due.
	if want := []time.Duration{24 * ms / 10, 48 * ms / 10}; !slices.Equal(out.flushes, want) {
		t.Errorf("flushed at %v, want %v", out.flushes, want)
	}
}

func TestBuffersAreFlushedAtOnceWhenTheInputsAreEmpty(t *testing.T) {
	var out *tapOutlet
	looped(t, time.Minute, func(h *stepHead, o *tapOutlet, l *loop) {
		out = o
		h.wakes = []time.Time{time.Now().Add(time.Second)}
		h.steps = append(h.steps, take(o, 1, 0), func(int) (chain.Progress, error) { return chain.Progress{State: chain.Starved}, nil })
	})
	if want := []time.Duration{0}; !slices.Equal(out.flushes, want) {
		t.Errorf("flushed at %v, want %v", out.flushes, want)
	}
}

func TestBuffersWithoutCreditAreTriedAgain(t *testing.T) {
	var out *tapOutlet
	looped(t, 2*ms, func(h *stepHead, o *tapOutlet, l *loop) {
		out, o.credit = o, false
		starve := func(int) (chain.Progress, error) { return chain.Progress{State: chain.Starved}, nil }
		h.steps = append(h.steps, take(o, 1, 0), starve, starve, func(int) (chain.Progress, error) { o.credit = true; return chain.Progress{State: chain.Starved}, nil }, starve)
		h.wakes = []time.Time{time.Now().Add(time.Second)}
	})
	if len(out.flushes) < 4 || out.flushes[0] != 0 || out.flushes[1] != 2*ms {
		t.Errorf("flushed at %v", out.flushes)
	}
}

func TestTimeoutZeroFlushesEveryStep(t *testing.T) {
	var out *tapOutlet
	looped(t, 0, func(h *stepHead, o *tapOutlet, _ *loop) {
		out = o
		h.steps = append(h.steps, take(o, 1, ms), take(o, 1, ms))
	})
	if want := []time.Duration{ms, 2 * ms}; !slices.Equal(out.flushes, want) {
		t.Errorf("flushed at %v, want %v", out.flushes, want)
	}
}

// A function that takes a millisecond must not hold letters and flushes for as long as a batch of its calls takes.
func TestStepsShrinkForSlowFunctionsAndGrowAgain(t *testing.T) {
	var head *stepHead
	looped(t, 2*ms, func(h *stepHead, o *tapOutlet, _ *loop) {
		head = h
		h.steps = append(h.steps, take(o, 512, 512*ms), take(o, 1, ms), take(o, 1, ms/4), take(o, 4, 0))
	})
	if want := []int{512, 1, 1, 4, 512}; !slices.Equal(head.limits, want) {
		t.Errorf("limits %v, want %v", head.limits, want)
	}
}

func TestTimeIsAccountedFor(t *testing.T) {
	var m *meter
	var start time.Time
	looped(t, time.Minute, func(h *stepHead, o *tapOutlet, l *loop) {
		m, start = l.meter, time.Now()
		h.steps = append(h.steps,
			take(o, 1, 5*ms), // busy
			func(int) (chain.Progress, error) { // blocked for 3 of 7
				<-time.After(7 * ms)
				o.wait += 3 * ms
				return chain.Progress{Records: 1}, nil
			},
			func(int) (chain.Progress, error) { // a poll that waited for 2 of 6
				<-time.After(6 * ms)
				return chain.Progress{Records: 1, Waited: 2 * ms}, nil
			},
			func(int) (chain.Progress, error) { return chain.Progress{State: chain.Starved}, nil }, // asleep until 50 ms
		)
		h.wakes = []time.Time{start.Add(50 * ms)}
	})
	if m.busy != (5+4+4)*ms || m.backpressured != 3*ms || m.idle != 2*ms+(50-18)*ms {
		t.Errorf("busy %v, backpressured %v, idle %v", m.busy, m.backpressured, m.idle)
	}
	var c taskpb.Counters
	m.fill(&c)
	if c.BusyUs+c.IdleUs+c.BackpressuredUs != 18_000 { // published before it fell asleep
		t.Errorf("counters %v", &c)
	}
}

func TestLettersAreReadBetweenSteps(t *testing.T) {
	var head *stepHead
	looped(t, 2*ms, func(h *stepHead, o *tapOutlet, l *loop) {
		head = h
		h.steps = append(h.steps,
			func(int) (chain.Progress, error) {
				l.mail.Post(splits)
				l.mail.Post(splits)
				return chain.Progress{Records: 1}, nil
			},
			func(int) (chain.Progress, error) {
				if h.letters != 2 {
					return chain.Progress{}, errTest
				}
				return chain.Progress{State: chain.Starved}, nil // the token of the letters wakes it once more
			},
			func(int) (chain.Progress, error) { return chain.Progress{State: chain.Starved}, nil })
		time.AfterFunc(time.Second, func() { l.mail.Post(splits) }) // wakes it
	})
	if head.letters != 3 {
		t.Errorf("%d letters", head.letters)
	}
}

var splits = mail.Letter{Assign: &taskpb.AssignSplits{}}

// clockwork works by the clock: it asks for a time, and for another one when that has come.
type clockwork struct {
	Base
	rt    *Runtime
	out   Push[int]
	every time.Duration
	left  int
	at    []time.Time
}

func (c *clockwork) OnTime(now time.Time) error {
	c.at = append(c.at, now)
	c.out(len(c.at))
	if c.left--; c.left == 0 {
		return errTest
	}
	c.rt.WakeAt(now.Add(c.every))
	return nil
}

func TestOperatorsAreWokenAtTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, _ := waiting(t, 2)
		sink := &collected[int]{}
		var work *clockwork
		op := j.then(0, "clock", StageOf[int, int](func(rt *Runtime, out Push[int]) (Push[int], Operator, error) {
			work = &clockwork{rt: rt, out: out, every: time.Minute, left: 3}
			rt.WakeAt(rt.Now().Add(time.Hour))
			rt.WakeAt(rt.Now().Add(time.Second)) // replaces it
			return func(int) {}, work, nil
		}))
		j.then(op, "ticks", NewSink(sink))
		c := start(t, j)
		began := time.Now()
		deploy(t, c, j.deployment(1, 1))
		c.expect("#1 RUNNING", "#1 FAILED")
		var got []time.Duration
		for _, at := range work.at {
			got = append(got, at.Sub(began))
		}
		if want := []time.Duration{time.Second, 61 * time.Second, 121 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("woken at %v, want %v", got, want)
		}
		if got := sink.written(); !slices.Equal(got, []int{1, 2, 3}) {
			t.Errorf("emitted %v", got)
		}
	})
}

func TestFailuresOfTheClockNameTheOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, _ := waiting(t, 2)
		j.then(0, "clock", StageOf[int, int](func(rt *Runtime, out Push[int]) (Push[int], Operator, error) {
			rt.WakeAt(rt.Now().Add(time.Second))
			return out, &clockwork{rt: rt, out: func(int) { panic("boom") }}, nil
		}))
		c := start(t, j)
		deploy(t, c, j.deployment(1, 1))
		expect(t, c.await(1)[0].Failure, fault.CodePanic, "clock", "a time of its own")
	})
}

// ---------------------------------------------------------------- harness and logs

func TestARuntimeForHarnesses(t *testing.T) {
	rt := NewRuntime(t.Context(), "op")
	var got []int
	in, _, err := mapped(func(v int) int { return v + 1 }).Build(rt, Push[int](func(v int) { got = append(got, v) }))
	if err != nil {
		t.Fatal(err)
	}
	in.(Push[int])(1)
	if !slices.Equal(got, []int{2}) || rt.Err() != nil {
		t.Errorf("got %v, error %v", got, rt.Err())
	}
	rt.WakeAt(time.Now()) // does nothing
	rt.Skip(errTest)
	rt.Fail(errTest)
	rt.Fail(errors.New("later"))
	if err := rt.Err(); !errors.Is(err, errTest) || err.Error() != "E050 op: test failure" {
		t.Errorf("error %v", err)
	}
}

// A source that yields bad records only must not flood the log: one line per second, and all are counted.
func TestSkippedRecordsAreLoggedAtABoundedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := NewRuntime(t.Context(), "op")
		log := &logTape{}
		rt.Task.Log = log.logger()
		for range 100 {
			rt.Skip(errTest)
			<-time.After(50 * ms)
		}
		if n := len(log.lines); n != 5 || rt.Totals().Skipped != 100 {
			t.Errorf("%d lines for %d records in 5 s", n, rt.Totals().Skipped)
		}
		if !strings.Contains(log.lines[4], "skipped=81") {
			t.Errorf("line %q", log.lines[4])
		}
	})
}
