package process_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/operator/process"
	"github.com/sluiceio/sluice/worker/task"
)

type (
	setup = process.Setup[string]
	ctx   = process.Ctx[string]
	fn    = func(*ctx, int) error
)

func stage(open func(*setup) (fn, error), o process.Options) task.StageOf[int, string] {
	return process.Process[int, string](open, o)
}

func TestProcessorsSeeTimesAndEmitWithThem(t *testing.T) {
	h := operatortest.New(t, stage(func(*setup) (fn, error) {
		return func(c *ctx, v int) error {
			c.Emit("before")
			c.EmitAt("other", c.Timestamp()+100)
			c.Emit(c.Watermark().String())
			return nil
		}, nil
	}, process.Options{}))
	h.Watermark(t, 3)
	h.Push(t, 1, 5)
	want := []operatortest.Stamped[string]{{Value: "before", At: 5}, {Value: "other", At: 105}, {Value: element.Time(3).String(), At: 5}}
	if d := cmp.Diff(want, h.Out()); d != "" {
		t.Error(d)
	}
}

func TestHooksRunInOrder(t *testing.T) {
	var log []string
	say := func(s string) error { log = append(log, s); return nil }
	h := operatortest.New(t, stage(func(s *setup) (fn, error) {
		s.OnStart(func(tk *connector.Task) error { return say("start " + tk.Operator) })
		s.OnEnd(func(c *ctx) error { c.Emit("last"); return say("end") })
		s.OnClose(func() error { return say("close 1") })
		s.OnClose(func() error { return say("close 2") })
		return func(c *ctx, v int) error { return say("record") }, nil
	}, process.Options{}))
	h.Push(t, 1, 0)
	h.End(t)
	if err := h.Operator.Close(); err != nil {
		t.Fatal(err)
	}
	want := []string{"start " + operatortest.Name, "record", "end", "close 2", "close 1"}
	if d := cmp.Diff(want, log); d != "" {
		t.Error(d)
	}
	if got := h.Out(); len(got) != 1 || got[0].At != element.MaxTime {
		t.Errorf("the end emitted %v, want one record at the end of time", got)
	}
}

// What was opened first is closed although what was opened later panics.
func TestEveryHookIsClosedAlthoughOneFails(t *testing.T) {
	var log []string
	broken := errors.New("broken")
	h := operatortest.New(t, stage(func(s *setup) (fn, error) {
		s.OnClose(func() error { log = append(log, "first"); return nil })
		s.OnClose(func() error { log = append(log, "second"); panic(broken) })
		s.OnClose(func() error { log = append(log, "third"); return broken })
		return func(*ctx, int) error { return nil }, nil
	}, process.Options{}))
	if err := h.Operator.Close(); !errors.Is(err, broken) || strings.Count(err.Error(), "broken") != 2 {
		t.Errorf("the error is %v", err)
	}
	if d := cmp.Diff([]string{"third", "second", "first"}, log); d != "" {
		t.Error(d)
	}
}

func TestErrorsOfProcessorsFollowThePolicy(t *testing.T) {
	broken := errors.New("broken")
	open := func(*setup) (fn, error) { return func(*ctx, int) error { return broken }, nil }
	fail := operatortest.New(t, stage(open, process.Options{}))
	fail.Push(t, 1, 0)
	if err := fail.Runtime.Err(); !errors.Is(err, broken) || !strings.Contains(err.Error(), operatortest.Name) {
		t.Errorf("error is %v, want the cause and the operator", err)
	}
	skip := operatortest.New(t, stage(open, process.Options{OnError: task.ErrorPolicy{Action: task.SkipOnError}}))
	skip.Push(t, 1, 0)
	if err := skip.Runtime.Err(); err != nil {
		t.Errorf("error is %v in spite of Skip", err)
	}
}

func TestProcessorsThatCannotStartAreClosed(t *testing.T) {
	broken := errors.New("broken")
	closed := false
	t.Run("start", func(t *testing.T) {
		_, err := operatortest.Build(t, stage(func(s *setup) (fn, error) {
			s.OnClose(func() error { closed = true; return nil })
			s.OnStart(func(*connector.Task) error { return broken })
			return func(*ctx, int) error { return nil }, nil
		}, process.Options{}))
		if !errors.Is(err, broken) {
			t.Errorf("error is %v", err)
		}
	})
	if !closed {
		t.Error("what Open had declared was not closed")
	}
	if _, err := operatortest.Build(t, stage(func(*setup) (fn, error) { return nil, broken }, process.Options{})); !errors.Is(err, broken) {
		t.Errorf("error of open is %v", err)
	}
}

func TestSideOutputsWithoutAReaderDrop(t *testing.T) {
	h := operatortest.New(t, stage(func(*setup) (fn, error) {
		return func(c *ctx, v int) error {
			c.Side("unread", v)
			c.Side("read", v)
			return nil
		}, nil
	}, process.Options{Sides: []process.Side{process.SideOf[int]("read")}}))
	h.Push(t, 1, 0)
	if got := h.Out(); len(got) != 0 || h.Runtime.Err() != nil {
		t.Errorf("emitted %v, error %v", got, h.Runtime.Err())
	}
}

func TestASideOutputThatIsReadAsAnotherTypeFailsTheJob(t *testing.T) {
	h := operatortest.New(t, stage(func(*setup) (fn, error) {
		return func(c *ctx, v int) error { c.Side("side", v); return nil }, nil
	}, process.Options{Sides: []process.Side{process.SideOf[string]("side")}}))
	h.Push(t, 1, 0)
	err := h.Runtime.Err()
	if !connector.IsFatal(err) {
		t.Fatalf("error is %v: records were dropped that somebody reads", err)
	}
	for _, say := range []string{`"side"`, "int", "string"} {
		if !strings.Contains(err.Error(), say) {
			t.Errorf("error %q does not say %s", err, say)
		}
	}
}

func TestProcessAllocatesNothingPerRecord(t *testing.T) {
	h := operatortest.New(t, stage(func(*setup) (fn, error) {
		return func(c *ctx, v int) error { c.Emit("x"); c.EmitAt("y", 1); return nil }, nil
	}, process.Options{}))
	operatortest.NoAllocation(t, h, 10, func(i int) (int, element.Time) { return i, 0 })
}
