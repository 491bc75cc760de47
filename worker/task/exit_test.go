package task

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task/fault"
)

func exitAt(at int) func(int) int {
	return func(v int) int {
		if v == at {
			runtime.Goexit()
		}
		return v
	}
}

// testing.T.FailNow in a function of the job does this: nothing but deferred calls runs then, on a goroutine that everybody
// waits for.
func TestAFunctionThatEndsItsGoroutineFailsItsAttempt(t *testing.T) {
	j := newJob(t)
	src := j.source("src", 1, NewSource(ints(100), SourceOptions[int]{}))
	j.join("bad", 1, end{from: src, by: rebalance, x: NewExchange(mustCodec[int](t)), st: mapped(exitAt(42)), stored: true})
	f := failedByUser(t, j)
	expect(t, f, fault.CodePanic, "bad", "record 43 from subtask 0 of src")
	if !strings.Contains(f.Message, "Goexit") || !strings.HasPrefix(f.Stack, "github.com/sluiceio/sluice/worker/task.exitAt") {
		t.Errorf("%s\n%s", f.Message, f.Stack)
	}
}

// What was open is closed: the others lose their channels, and no memory stays taken.
func TestAnAttemptWhoseGoroutineHasEndedLeavesNothingOpen(t *testing.T) {
	for name, exit := range map[string]struct {
		st  Stage
		src func(i int) (int, element.Time)
	}{
		"in a function": {st: mapped(exitAt(42))},
		"in the source": {st: mapped(same), src: func(i int) (int, element.Time) { return exitAt(42)(i), 0 }},
		"when opened":   {st: StageOf[int, int](func(*Runtime, Push[int]) (Push[int], Operator, error) { runtime.Goexit(); return nil, nil, nil })},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t)
			in := ints(100)
			if exit.src != nil {
				in.f = exit.src
			}
			src := j.then(j.source("src", 1, NewSource(in, SourceOptions[int]{})), "bad", exit.st)
			j.join("out", 2, end{from: src, by: rebalance, x: NewExchange(mustCodec[int](t)), st: NewSink(&collected[int]{})})
			c := start(t, j)
			deploy(t, c, j.deployment(1, 1))
			for _, u := range c.await(3) {
				if want := jobpb.FailureKind_FAILURE_LOSS; u.Chain == 1 && u.Failure.GetKind() != want {
					t.Errorf("a consumer ends with %v", u)
				}
				if u.Chain == 0 && (u.Failure.GetKind() != jobpb.FailureKind_FAILURE_USER || !strings.Contains(u.Failure.GetMessage(), "Goexit")) {
					t.Errorf("the culprit ends with %v", u)
				}
			}
		})
	}
}

// leaving is a source whose discovery ends its goroutine.
type leaving struct{ *counted[int] }

func (leaving) OpenEnumerator(context.Context, int, []byte) (connector.Enumerator, error) {
	runtime.Goexit()
	return nil, nil
}

func TestAnEnumeratorThatEndsItsGoroutineFailsItsAttempt(t *testing.T) {
	j := newJob(t)
	j.then(j.source("src", 1, NewSource(leaving{ints(100)}, SourceOptions[int]{})), "out", NewSink(&collected[int]{}))
	if f := failed(t, j); f.Kind != jobpb.FailureKind_FAILURE_USER || !strings.Contains(f.Message, "Goexit") {
		t.Errorf("%v", f)
	}
}
