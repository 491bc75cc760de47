package task

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/worker/task/fault"
)

// failed runs j, of which one attempt fails.
func failed(t *testing.T, j *job) *jobpb.Failure {
	t.Helper()
	c := start(t, j)
	if err := c.proc.Deploy(j.deployment(3, 1)); err != nil {
		t.Fatal(err)
	}
	u := c.await(1)[0]
	if u.State != jobpb.SubtaskState_SUBTASK_FAILED {
		t.Fatalf("state %v, want FAILED", u.State)
	}
	return u.Failure
}

func boomAt(at int) func(int) int {
	return func(v int) int {
		if v == at {
			panic("boom")
		}
		return v
	}
}

func same(v int) int { return v }

func expect(t *testing.T, f *jobpb.Failure, code, operator, position string) {
	t.Helper()
	if f.Code != code || f.Operator != operator || f.Position != position {
		t.Errorf("code %s operator %q position %q, want %s %q %q\n%s\n%s", f.Code, f.Operator, f.Position, code, operator, position, f.Message, f.Stack)
	}
}

// The chain consists of equal functions only: nothing but their order on the stack tells them apart.
func TestPanicNamesOperatorAndRecord(t *testing.T) {
	for culprit := range 4 {
		j := newJob(t)
		at := j.source("src", 1, NewSource(ints(2000), SourceOptions[int]{}))
		for i := range 4 {
			f := same
			if i == culprit {
				f = boomAt(1234)
			}
			at = j.then(at, fmt.Sprint("m", i), mapped(f))
		}
		j.then(at, "out", NewSink(&collected[int]{}))
		f := failed(t, j)
		expect(t, f, fault.CodePanic, fmt.Sprint("m", culprit), "row 1234 of split 0")
		if f.Kind != jobpb.FailureKind_FAILURE_USER || f.Worker != "w" || f.Attempt != 3 {
			t.Errorf("failure %v", f)
		}
		if !strings.HasPrefix(f.Stack, "github.com/sluiceio/sluice/worker/task.TestPanicNamesOperatorAndRecord") && !strings.HasPrefix(f.Stack, "github.com/sluiceio/sluice/worker/task.boomAt") {
			t.Errorf("the stack does not begin at the panic:\n%s", f.Stack)
		}
	}
}

func TestPanicNamesTheBranch(t *testing.T) {
	for _, branches := range []int{2, 3} {
		for culprit := range branches {
			j := newJob(t)
			root := j.then(j.source("src", 1, NewSource(ints(100), SourceOptions[int]{})), "root", mapped(same))
			for i := range branches {
				f := same
				if i == culprit {
					f = boomAt(42)
				}
				at := j.then(root, fmt.Sprint("first", i), mapped(same))
				at = j.then(at, fmt.Sprint("second", i), mapped(f))
				j.then(at, fmt.Sprint("out", i), NewSink(&collected[int]{}))
			}
			expect(t, failed(t, j), fault.CodePanic, fmt.Sprint("second", culprit), "row 42 of split 0")
		}
	}
}

func TestPanicAtTheSourceNamesTheSource(t *testing.T) {
	src := ints(100)
	src.f = func(i int) (int, element.Time) {
		if i == 7 {
			panic(errTest)
		}
		return i, 0
	}
	j := newJob(t)
	j.then(j.source("src", 1, NewSource(src, SourceOptions[int]{})), "out", NewSink(&collected[int]{}))
	f := failed(t, j)
	expect(t, f, fault.CodePanic, "src", "")
	if f.Message != "panic: test failure" {
		t.Errorf("message %q", f.Message)
	}
}

func TestPanicInTheTimeExtractorNamesTheRecord(t *testing.T) {
	j := newJob(t)
	src := NewSource(ints(100), SourceOptions[int]{EventTime: func(v int) element.Time { return element.Time(boomAt(9)(v)) }})
	j.then(j.source("src", 1, src), "out", NewSink(&collected[int]{}))
	expect(t, failed(t, j), fault.CodePanic, "src", "row 9 of split 0")
}

// events is an operator whose control side is given by functions.
type events struct {
	Base
	onWatermark func(element.Time) error
	onFinish    func() error
	onClose     func() error
}

func (e *events) OnWatermark(t element.Time) error {
	if e.onWatermark == nil {
		return nil
	}
	return e.onWatermark(t)
}
func (e *events) Finish() error {
	if e.onFinish == nil {
		return nil
	}
	return e.onFinish()
}
func (e *events) Close() error {
	if e.onClose == nil {
		return nil
	}
	return e.onClose()
}

func with(e *events) Stage {
	return StageOf[int, int](func(_ *Runtime, out Push[int]) (Push[int], Operator, error) { return out, e, nil })
}

func TestPanicOutsideRecordsNamesTheEvent(t *testing.T) {
	for _, c := range []struct {
		op       *events
		position string
	}{
		{&events{onWatermark: func(at element.Time) error {
			if at == element.MaxTime {
				panic("boom")
			}
			return nil
		}}, "the end of the input"},
		{&events{onFinish: func() error { panic("boom") }}, "the end of the input"},
		{&events{onWatermark: func(element.Time) error { panic("boom") }}, "watermark 1970-01-01T00:00:00.00051Z"},
	} {
		j := newJob(t)
		src := NewSource(ints(2000), SourceOptions[int]{Watermarks: WatermarksBounded}) // one batch: 0 to 511
		at := j.then(j.source("src", 1, src), "before", mapped(same))
		at = j.then(at, "culprit", with(c.op))
		j.then(at, "out", NewSink(&collected[int]{}))
		expect(t, failed(t, j), fault.CodePanic, "culprit", c.position)
	}
}

// divider is an operator whose push is a method.
type divider struct {
	Base
	out Push[int]
	by  func(int) int
}

func (d *divider) push(v int) { d.out(d.by(v)) }

func dividing(by func(int) int) Stage {
	return StageOf[int, int](func(_ *Runtime, out Push[int]) (Push[int], Operator, error) {
		d := &divider{out: out, by: by}
		return d.push, d, nil
	})
}

func TestPanicNamesAnOperatorWhosePushIsAMethod(t *testing.T) {
	for culprit := range 3 {
		j := newJob(t)
		by := []func(int) int{same, same, same}
		by[culprit] = boomAt(42)
		at := j.then(j.source("src", 1, NewSource(ints(100), SourceOptions[int]{})), "m0", dividing(by[0]))
		at = j.then(at, "m1", mapped(by[1]))
		at = j.then(at, "m2", dividing(by[2]))
		j.then(at, "out", NewSink(&collected[int]{}))
		expect(t, failed(t, j), fault.CodePanic, fmt.Sprint("m", culprit), "row 42 of split 0")
	}

	j := newJob(t)
	src := j.source("src", 1, NewSource(ints(50), SourceOptions[int]{}))
	x := NewKeyedExchange(mustCodec[int](t), same, mustHash[int](t))
	j.join("head", 1, end{from: src, by: jobpb.Partitioner_PARTITIONER_HASH, x: x, st: dividing(boomAt(42))})
	c := start(t, j)
	deploy(t, c, j.deployment(1, 1))
	for _, u := range c.await(2) {
		if u.Chain == 1 {
			expect(t, u.Failure, fault.CodePanic, "head", "record 43 from subtask 0 of src")
		}
	}
}

// An operator that fires on an event pushes into those behind it: the one that breaks is blamed, not the one that fired.
func TestPanicBehindAnOperatorThatFires(t *testing.T) {
	j := newJob(t)
	fire := StageOf[int, int](func(_ *Runtime, out Push[int]) (Push[int], Operator, error) {
		return func(int) {}, &events{onFinish: func() error { out(42); return nil }}, nil
	})
	at := j.then(j.source("src", 1, NewSource(ints(10), SourceOptions[int]{})), "fire", fire)
	at = j.then(at, "culprit", mapped(boomAt(42)))
	j.then(at, "out", NewSink(&collected[int]{}))
	expect(t, failed(t, j), fault.CodePanic, "culprit", "the end of the input")
}

func TestUserErrorNamesOperatorAndRecord(t *testing.T) {
	try := StageOf[int, int](func(rt *Runtime, out Push[int]) (Push[int], Operator, error) {
		return func(v int) {
			if v >= 10 {
				rt.Fail(fmt.Errorf("value %d: %w", v, errTest))
			}
			out(v)
		}, Base{}, nil
	})
	j := newJob(t)
	at := j.then(j.source("src", 1, NewSource(ints(100), SourceOptions[int]{})), "try", try)
	j.then(at, "out", NewSink(&collected[int]{}))
	f := failed(t, j)
	expect(t, f, fault.CodeUser, "try", "row 10 of split 0")
	if f.Message != "value 10: test failure" || f.Kind != jobpb.FailureKind_FAILURE_USER {
		t.Errorf("failure %v", f)
	}
}

func TestErrorsOfTheSinkNameItsStep(t *testing.T) {
	for name, s := range map[string]*collected[int]{
		"write: test failure": {write: func(v int, _ element.Time) error {
			if v == 3 {
				return errTest
			}
			return nil
		}},
		"prepare: test failure": {prepare: func() error { return errTest }},
	} {
		j := newJob(t)
		j.then(j.source("src", 1, NewSource(ints(10), SourceOptions[int]{})), "out", NewSink(s))
		f := failed(t, j)
		if f.Code != fault.CodeSink || f.Operator != "out" || f.Message != name {
			t.Errorf("failure %v, want %s", f, name)
		}
		if calls := s.writers[0].calls; calls[len(calls)-1] != "close" {
			t.Errorf("the writer was not closed: %v", calls)
		}
	}
}

func TestErrorsOfOpeningAreFailuresAndCloseWhatIsOpen(t *testing.T) {
	closed := 0
	bad := StageOf[int, int](func(*Runtime, Push[int]) (Push[int], Operator, error) { return nil, nil, errTest })
	j := newJob(t)
	at := j.then(j.source("src", 1, NewSource(ints(10), SourceOptions[int]{})), "bad", bad)
	j.then(at, "behind", with(&events{onClose: func() error { closed++; return nil }}))
	expect(t, failed(t, j), fault.CodeUser, "bad", "while the operator was opened")
	if closed != 1 {
		t.Errorf("the operator behind was closed %d times", closed)
	}

	src := ints(10)
	src.openErr = errTest
	j = newJob(t)
	j.then(j.source("src", 1, NewSource(src, SourceOptions[int]{})), "out", NewSink(&collected[int]{}))
	expect(t, failed(t, j), fault.CodeSource, "src", "")

	j = newJob(t)
	j.then(j.source("src", 1, NewSource(ints(10), SourceOptions[int]{})), "bad", StageOf[int, int](func(*Runtime, Push[int]) (Push[int], Operator, error) { panic("boom") }))
	expect(t, failed(t, j), fault.CodePanic, "bad", "while the operator was opened")
}

func TestTypesThatDoNotMatchAreAnErrorOfWiring(t *testing.T) {
	j := newJob(t)
	j.then(j.source("src", 1, NewSource(ints(10), SourceOptions[int]{})), "out", NewSink(&collected[string]{}))
	f := failed(t, j)
	if f.Operator != "src" || !strings.Contains(f.Message, "the operator emits int, its consumer is a chain.Push[string]") {
		t.Errorf("failure %v", f)
	}
}

func TestRecordThatCannotBeReadFailsOrIsSkipped(t *testing.T) {
	bad := func(i int) error {
		if i%10 == 5 {
			return errors.New("column 3: not a number")
		}
		return nil
	}
	src := ints(100)
	src.bad = bad
	j := newJob(t)
	j.then(j.source("src", 1, NewSource(src, SourceOptions[int]{})), "out", NewSink(&collected[int]{}))
	f := failed(t, j)
	expect(t, f, fault.CodeRecord, "src", "row 5 of split 0")
	if f.Message != "record cannot be read: column 3: not a number" {
		t.Errorf("message %q", f.Message)
	}

	sink := &collected[int]{}
	j = newJob(t)
	j.then(j.source("src", 1, NewSource(src, SourceOptions[int]{OnError: ErrorPolicy{Action: SkipOnError}})), "out", NewSink(sink))
	c := start(t, j)
	if err := c.proc.Deploy(j.deployment(1, 1)); err != nil {
		t.Fatal(err)
	}
	if u := c.await(1)[0]; u.State != jobpb.SubtaskState_SUBTASK_FINISHED {
		t.Fatal(u)
	}
	if n := len(sink.written()); n != 90 {
		t.Errorf("%d records, want 90", n)
	}
	if s := c.proc.Sample().Counters[0]; s.ErrorsSkipped != 10 || s.RecordsIn != 90 || s.RecordsOut != 90 {
		t.Errorf("counters %v", s)
	}
}

// The order of a chain is the order of its end: what an operator emits when it finishes is on time for the next one.
func TestFinishComesInTheOrderOfTheChain(t *testing.T) {
	var log []string
	note := func(name string) *events {
		return &events{
			onWatermark: func(at element.Time) error { log = append(log, name+" "+at.String()); return nil },
			onFinish:    func() error { log = append(log, name+" finish"); return nil },
			onClose:     func() error { log = append(log, name+" close"); return nil },
		}
	}
	j := newJob(t)
	late := StageOf[int, int](func(_ *Runtime, out Push[int]) (Push[int], Operator, error) {
		e := note("a")
		f := e.onFinish
		e.onFinish = func() error { out(1); return f() }
		return func(int) {}, e, nil
	})
	at := j.then(j.source("src", 1, NewSource(ints(3), SourceOptions[int]{})), "a", late)
	b := StageOf[int, int](func(_ *Runtime, out Push[int]) (Push[int], Operator, error) {
		return func(v int) { log = append(log, "b record"); out(v) }, note("b"), nil
	})
	at = j.then(at, "b", b)
	j.then(at, "out", NewSink(&collected[int]{}))
	finished(t, j)
	want := "a +∞, b record, a finish, b +∞, b finish, a close, b close"
	if got := strings.Join(log, ", "); got != want {
		t.Errorf("order %s\nwant  %s", got, want)
	}
}

var _ connector.Sink[int] = (*collected[int])(nil)

// TestTheEndOfItsPeersIsNoFailureOfAnAttemptThatHasToStop protects a cancelled region from being reported as one that has lost
// something.
func TestTheEndOfItsPeersIsNoFailureOfAnAttemptThatHasToStop(t *testing.T) {
	peer := fmt.Errorf("sum: %w", &shuffle.LossError{Reason: shuffle.Failed, Cause: context.Canceled})
	a := &attempt{proc: &Process{}}
	if err := a.own(peer); !errors.Is(err, peer) {
		t.Errorf("nobody has told it to stop: %v", err)
	}
	a.cause = errCancelled
	if err := a.own(peer); err != nil {
		t.Errorf("it was told to stop, and so was its peer: %v", err)
	}
	user := errors.New("division by zero")
	if err := a.own(user); !errors.Is(err, user) {
		t.Errorf("its own failure: %v", err)
	}
}
